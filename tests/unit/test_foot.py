"""The rows that the view keeps at the foot of a terminal, on a terminal that is played."""

import json
import sys
from pathlib import Path

import pytest
from rich.text import Text
from terminals import Played, Terminal

from orin_gov.view.terminal import PLAIN, Foot, obstacle

VIEW = [Text("view 1"), Text("view 2", "bold red"), Text("view 3")]


def numbered(first: int, last: int) -> bytes:
    return "".join(f"line {number}\r\n" for number in range(first, last)).encode()


def on(terminal: Terminal, foot: Foot, width: int, height: int) -> None:
    terminal.feed(foot.enter(width, height).encode())
    terminal.feed(foot.draw(VIEW).encode())


def test_lines_scroll_above_the_view_and_none_is_lost() -> None:
    terminal, foot = Terminal(20, 10), Foot(3)
    terminal.feed(numbered(0, 3))
    on(terminal, foot, 20, 10)
    terminal.feed(numbered(3, 30))
    assert terminal.lines[-3:] == ["view 1", "view 2", "view 3"]
    assert terminal.lines[:7] == [f"line {number}" for number in range(24, 30)] + [""]


def test_the_line_under_way_stays_where_it_is() -> None:
    terminal, foot = Terminal(20, 10), Foot(3)
    terminal.feed(numbered(0, 9) + b"50%")
    on(terminal, foot, 20, 10)
    terminal.feed(b"\r60%|##  |")
    terminal.feed(foot.draw(VIEW).encode())
    terminal.feed(b" typed")
    assert terminal.lines == [f"line {number}" for number in range(3, 9)] + [
        "60%|##  | typed",
        "view 1",
        "view 2",
        "view 3",
    ]


def test_bars_above_one_another_redraw_themselves() -> None:
    terminal, foot = Terminal(20, 10), Foot(3)
    on(terminal, foot, 20, 10)
    terminal.feed(numbered(0, 20) + b"outer 1\r\ninner 1\x1b[A\router 2\r\n\x1b[2Kinner 2")
    assert terminal.lines[5:] == ["outer 2", "inner 2", "view 1", "view 2", "view 3"]


def test_leaving_gives_the_whole_terminal_back() -> None:
    terminal, foot = Terminal(20, 10), Foot(3)
    on(terminal, foot, 20, 10)
    terminal.feed(numbered(0, 12) + b"\x1b[31m\x1b[?25l")
    terminal.feed((foot.leave() + PLAIN).encode())
    assert terminal.lines[-4:] == [""] * 4
    assert terminal.screen.margins is None or terminal.screen.margins.bottom == 9
    assert not terminal.screen.cursor.hidden
    terminal.feed(numbered(12, 16))
    assert terminal.lines[-2:] == ["line 15", ""]
    assert terminal.screen.buffer[8][0].fg == "default"
    assert foot.leave() == ""


@pytest.mark.parametrize(
    "sizes",
    [
        [(60, 20), (60, 30), (60, 14)],
        [(20, 10), (60, 10), (10, 10)],
        [(20, 8), (80, 40), (80, 3), (80, 24)],
    ],
)
def test_any_change_of_size_leaves_one_view(sizes: list[tuple[int, int]]) -> None:
    terminal, foot = Terminal(*sizes[0]), Foot(3)
    for width, height in sizes:
        terminal.resize(width, height)
        terminal.screen.set_margins()  # a terminal forgets its region when it is resized
        on(terminal, foot, width, height)
        terminal.feed(numbered(0, 50))
        terminal.feed(foot.draw(VIEW).encode())
        assert foot.rows <= height // 2
        assert [line for line in terminal.lines if "view" in line] == [
            text.plain for text in VIEW[: foot.rows]
        ]


def test_a_tiny_terminal_is_the_scripts_alone() -> None:
    for width, height in ((9, 30), (80, 3), (0, 0)):
        foot = Foot(3)
        assert foot.enter(width, height) == ""
        assert foot.draw(VIEW) == ""


def test_the_cursors_colour_and_place_outlive_a_frame() -> None:
    terminal, foot = Terminal(20, 10), Foot(3)
    on(terminal, foot, 20, 10)
    terminal.feed(b"\x1b[32mgre")
    terminal.feed(foot.draw(VIEW).encode())
    terminal.feed(b"en")
    assert terminal.lines[0] == "green"
    assert terminal.screen.buffer[0][4].fg == "green"


LOOK = """
import json
from orin_gov.view.terminal import obstacle
good = {"TERM": "xterm"}
print(json.dumps([
    obstacle({**good, **env}, wanted)
    for wanted in (False, True)
    for env in ({}, {"TERM": "dumb"}, {"TERM": ""}, {"NO_COLOR": "1"}, {"CI": "1"}, {"CI": ""})
]))
"""


def test_what_stands_in_the_way_of_a_view_is_told(tmp_path: Path) -> None:
    played = Played([sys.executable, "-c", LOOK], tmp_path, (400, 10))
    assert played.exit_code() == 0
    dumb, none = (
        "TERM is 'dumb', which has no rows to keep",
        "TERM is '', which has no rows to keep",
    )
    assert json.loads(played.terminal.lines[0]) == [
        *(None, dumb, none, "NO_COLOR is set", "CI is set", None),
        *(None, dumb, none, None, None, None),
    ]
    played.close()
    # pytest holds stdout and stderr
    assert obstacle({"TERM": "xterm"}, True) == "it takes a terminal on stdout and stderr"


@pytest.mark.parametrize("name", ["NO_COLOR", "NOTHING"])
def test_colours_are_left_out_where_nobody_wants_them(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    foot = Foot(3)
    foot.enter(20, 10)
    (line,) = foot.paint([Text("red", "bold red")])
    assert line == ("\x1b[1mred\x1b[0m" if name == "NO_COLOR" else "\x1b[1;31mred\x1b[0m")


def test_a_terminal_without_these_signs_gets_plainer_ones(tmp_path: Path) -> None:
    paint = (
        "from orin_gov.view.terminal import Foot\n"
        "from rich.text import Text\n"
        "foot = Foot(1); foot.enter(20, 10)\n"
        "print(*foot.paint([Text('├─●▲◆┤ 5 °C…')]))\n"
    )
    words = [sys.executable, "-c", paint]
    played = Played(words, tmp_path, (40, 10), env={"PYTHONIOENCODING": "ascii"})
    assert played.exit_code() == 0
    assert played.terminal.lines[0] == "[-o^@] 5  C~"
    played.close()
