"""The live view on a real pseudo-terminal: the script is as without it, the terminal as before."""

import re
import shlex
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import VIRTUAL, command
from terminals import Played
from trees import build_tree

Play = Callable[..., Played]

GOVERNED = ("run", "--board", VIRTUAL, "--epoch", "5", "--output", "run")
MEASURED = ("run", "--root", "board", "--output", "run")  # on files that do not act

# A script of steps without torch, under a bar like tqdm's, until the file "go" is there.
STEPS = """
import os, pathlib, sys, time
from orin_gov.phases import BACKWARD, DATA, FORWARD
from orin_gov.workload.session import current_marker
marker = current_marker()
print("isatty", [os.isatty(each) for each in (0, 1, 2)], flush=True)
done = 0
while not pathlib.Path("go").exists():
    for phase, seconds in ((DATA, 0.002), (FORWARD, 0.01), (BACKWARD, 0.02)):
        if marker:
            with marker.phase(phase):
                time.sleep(seconds)
        else:
            time.sleep(seconds)
    if marker:
        marker.step()
    done += 1
    print(f"\\r{done}/1000 [00:10<01:40,  9.9it/s]", end="", file=sys.stderr, flush=True)
    if done % 20 == 0:
        print(f"\\r\\x1b[Kloss at {done}", flush=True)
print("\\nthe end", flush=True)
pathlib.Path("marker").write_text("finished")
sys.exit(7)
"""


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Play a command on a terminal; whatever is left of it ends with the test."""
    build_tree(tmp_path / "board")
    played: list[Played] = []

    def start(words: list[str], **options: object) -> Played:
        played.append(Played(words, tmp_path, **options))  # type: ignore[arg-type]
        return played[-1]

    yield start
    for each in played:
        each.close()


def is_sane(played: Played) -> bool:
    """Tell whether the terminal is as it was: its modes, its cursor, no region, no colour."""
    screen = played.terminal.screen
    played.type("\r")
    whole = screen.margins is None or screen.margins.bottom == screen.lines - 1
    modes = termios.tcgetattr(played.descriptor)
    return (
        whole
        and not screen.cursor.hidden
        and screen.cursor.attrs.fg == "default"
        and (modes == played.modes)
    )


def test_the_view_stands_below_the_scripts_own_output(play: Play, script, tmp_path: Path) -> None:
    played = play(command(*GOVERNED, script(STEPS)))
    played.sees("loss at 40", "ETA 0:01:40 by its own bar", "forward", "MHz", "sensors")
    played.until(lambda: bool(re.search(r"─ (baseline|verifying|governing) ─", played.seen)))
    # Between "loss at" and the next step the script itself has taken its bar away.
    played.until(lambda: any("it/s]" in line for line in played.terminal.lines))
    lines = played.terminal.lines
    title = next(place for place, line in enumerate(lines) if line.startswith("─"))
    assert title == 15
    assert any(line.startswith("loss at") for line in lines[:title])
    # One bar, redrawn in its place.
    assert sum("it/s]" in line for line in lines) == 1
    assert not any("loss" in line or "it/s]" in line for line in lines[title:])
    for label in ("script", "clock", "limits", "power", "rails", "step", "heat", "alarms"):
        assert any(line.startswith(label) for line in lines[title:])
    assert not any("epoch 0 " in line for line in played.terminal.scrolled + lines)
    (tmp_path / "go").touch()
    assert played.exit_code() == 7
    everything = [*played.terminal.scrolled, *played.terminal.lines]
    assert "isatty [True, True, True]" in everything
    numbers = [int(line.split()[-1]) for line in everything if line.startswith("loss at")]
    assert numbers == list(range(20, numbers[-1] + 1, 20))
    end = everything.index("the end")
    assert any("orin-gov script.py on virtual board" in line for line in everything[end:])
    assert not any(line.startswith("─") for line in everything)
    assert is_sane(played)
    assert not (tmp_path / "run/live.json").exists()


def test_where_lines_are_better_lines_it_is(play: Play, script, tmp_path: Path) -> None:
    played = play(command(*MEASURED, script(STEPS)), env={"NO_COLOR": "1"}, size=(200, 30))
    played.sees("epoch 0")
    assert played.frames == 0
    (tmp_path / "go").touch()
    assert played.exit_code() == 7


def test_asked_for_it_is_drawn_all_the_same_without_colours(
    play: Play, script, tmp_path: Path
) -> None:
    played = play(command(*MEASURED, "--live", script(STEPS)), env={"NO_COLOR": "1", "CI": "true"})
    played.sees("loss at 20", "─ warm-up ─")
    assert b"\x1b[36m" not in played.terminal.content
    (tmp_path / "go").touch()
    assert played.exit_code() == 7


def test_without_a_terminal_the_view_is_refused_in_a_line(orin_gov, script, tmp_path: Path) -> None:
    build_tree(tmp_path / "board")
    done = orin_gov(*MEASURED, "--live", script("print('ran')"))
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "no live view: it takes a terminal on stdout and stderr" in done.stderr
    assert "\x1b" not in done.stderr


def test_ctrl_c_reaches_the_script_and_we_wait_for_it(play: Play, script) -> None:
    body = """
import time
print("ready", flush=True)
try:
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    time.sleep(0.5)   # a second interrupt would end this clean-up
    print("cleaned up", flush=True)
    raise SystemExit(7)
"""
    played = play(command(*MEASURED, script(body)))
    played.sees("ready", "─ warm-up ─")
    played.type("\x03")
    played.sees("cleaned up")
    assert played.exit_code() == 7
    assert is_sane(played)


def test_ctrl_z_leaves_the_terminal_to_the_shell_and_fg_comes_back(
    play: Play, script, tmp_path: Path
) -> None:
    played = play(["/bin/bash", "--norc", "--noediting", "-i"])
    played.type(shlex.join(command(*MEASURED, script(STEPS))) + "; echo code $?\r")
    played.sees("loss at 20", "─ warm-up ─")
    played.type("\x1a")
    played.sees("Stopped")
    played.until(lambda: "sensors" not in played.seen)
    played.type("fg\r")
    played.sees("─ warm-up ─", "sensors")
    (tmp_path / "go").touch()
    played.sees("the end", "orin-gov explain run")
    played.type("exit 5\r")
    assert played.exit_code() == 5


def test_what_is_typed_reaches_the_script(play: Play, script) -> None:
    played = play(command(*MEASURED, script("print('hello', input('name? '), flush=True)")))
    played.sees("name?", "─ warm-up ─")
    played.type("someone\r")
    played.sees("hello someone")
    assert played.exit_code() == 0


def test_a_script_that_is_killed_leaves_the_terminal_sane(play: Play, script) -> None:
    body = """
import os, signal, sys, termios
modes = termios.tcgetattr(0)
modes[3] &= ~(termios.ECHO | termios.ICANON)
termios.tcsetattr(0, termios.TCSANOW, modes)
print("\\x1b[31m\\x1b[?25l red, hidden \\x1b[3", end="", flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""
    played = play(command(*MEASURED, script(body)))
    played.sees("red, hidden", "─ warm-up ─")
    assert played.terminal.screen.cursor.hidden
    played.type("\n")
    assert played.exit_code() == 137
    assert is_sane(played)


def test_a_view_that_dies_costs_nothing_but_the_view(play: Play, script, tmp_path: Path) -> None:
    played = play(command(*MEASURED, script(STEPS)))
    played.sees("loss at 20", "─ warm-up ─")
    played.view.kill()
    played.until(lambda: "sensors" not in played.seen and "loss at 80" in played.seen)
    (tmp_path / "go").touch()
    assert played.exit_code() == 7
    assert "the end" in played.seen
    assert "orin-gov script.py on Jetson" in played.seen
    assert is_sane(played)


def test_a_view_that_is_stopped_on_its_own_goes_on(play: Play, script, tmp_path: Path) -> None:
    """The script would wait for ever for room to write to."""
    played = play(command(*MEASURED, script(STEPS)))
    played.sees("loss at 20", "─ warm-up ─")
    played.view.suspend()
    frames = played.frames
    played.until(lambda: played.frames > frames + 2)
    (tmp_path / "go").touch()
    assert played.exit_code() == 7
    assert is_sane(played)


DAEMON = """
import os, sys, time
print("first", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        said = 0
        try:
            while not os.path.exists("enough"):
                print("the daemon", said := said + 1, flush=True)
                time.sleep(0.05)
            open("daemon", "w").write("fine")
        except OSError as error:
            open("daemon", "w").write(repr(error))
    os._exit(0)
os.wait()
sys.exit(7)
"""


def test_the_run_ends_with_the_script_and_a_daemon_that_it_left_writes_on(
    play: Play, script, tmp_path: Path
) -> None:
    waiting = '"$0" "$@"; echo code $?; while [ ! -e left ]; do sleep 0.05; done'
    played = play(["/bin/sh", "-c", waiting, *command(*MEASURED, script(DAEMON))])
    played.sees("first", "─ warm-up ─")
    view = played.view
    (tmp_path / "go").touch()
    played.sees("code 7")
    count = played.terminal.content.count(b"the daemon")
    played.until(lambda: played.terminal.content.count(b"the daemon") > count + 20)
    assert (tmp_path / "run/summary.json").exists()
    assert "─ warm-up ─" not in played.seen
    (tmp_path / "enough").touch()
    played.until(lambda: (tmp_path / "daemon").exists() and not view.is_running())
    assert (tmp_path / "daemon").read_text() == "fine"
    (tmp_path / "left").touch()
    played.exit_code()
    assert is_sane(played)


def test_a_supervisor_that_dies_costs_the_script_nothing(
    play: Play, script, tmp_path: Path
) -> None:
    # From a shell, whose terminal it is: that hangs up when its owner dies.
    waiting = '"$0" "$@"; while [ ! -e left ]; do sleep 0.1; done'
    played = play(["/bin/sh", "-c", waiting, *command(*MEASURED, script(STEPS))])
    played.sees("loss at 20", "─ warm-up ─")
    (supervisor,) = psutil.Process(played.pid).children()
    view = played.view
    supervisor.kill()
    played.until(lambda: "sensors" not in played.seen and "loss at 80" in played.seen)
    (tmp_path / "go").touch()
    played.sees("the end")
    played.until(lambda: (tmp_path / "marker").exists() and not view.is_running())
    (tmp_path / "left").touch()
    played.exit_code()
    assert is_sane(played)


def test_the_view_follows_the_size_and_so_does_the_script(play: Play, script) -> None:
    body = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: None)
last = None
while True:
    if (size := tuple(os.get_terminal_size(1))) != last:
        last = size
        print("size", *size, flush=True)
    signal.sigtimedwait([], 0.05)
"""
    played = play(command(*MEASURED, script(body)), size=(100, 30))
    played.sees("size 100 15", "sensors")
    for width, height, above in ((80, 20, 10), (40, 12, 6), (20, 6, 3), (9, 12, 12), (90, 24, 12)):
        played.resize(width, height)
        told = f"size {width} {above}"
        played.until(lambda told=told, width=width: told[:width] in played.seen)
        if width >= 20:
            played.until(
                lambda above=above: (
                    played.terminal.lines[above].startswith("─ warm-up")
                    and sum(line.startswith("─") for line in played.terminal.lines) == 1
                )
            )
    played.type("\x03")
    assert played.exit_code() == 130


def test_a_script_that_takes_the_whole_screen_has_it(play: Play, script) -> None:
    body = """
import os, sys
print("before", flush=True)
input()
print("\\x1b[?1049h\\x1b[2J\\x1b[30;1Hfoot", end="", flush=True)
input()
print("\\x1b[?1049l", *os.get_terminal_size(1), flush=True)
input()
"""
    played = play(command(*MEASURED, script(body)))
    played.sees("before", "─ warm-up ─")
    played.type("\r")
    played.until(lambda: played.terminal.lines[29].startswith("foot"))
    frames = played.frames
    played.type("\r")
    played.sees("100 30")  # it was told that all is its own
    played.until(lambda: played.frames > frames)
    assert played.terminal.lines[15].startswith("─ warm-up")
    played.type("\r")
    assert played.exit_code() == 0


def test_binary_output_tears_nothing(play: Play, script, tmp_path: Path) -> None:
    body = STEPS.replace(
        "done = 0\n", "done = 0\nos.write(1, bytes(range(256)) * 40 + os.urandom(20000) + b'\\n')\n"
    )
    played = play(command(*MEASURED, script(body)))
    played.sees("loss at 20", "─ warm-up ─", "sensors")
    assert played.terminal.lines[15].startswith("─ warm-up")
    (tmp_path / "go").touch()
    assert played.exit_code() == 7
    assert is_sane(played)


def test_the_losses_are_the_same_to_the_last_bit(play: Play, script, tmp_path: Path) -> None:
    path = script(
        """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("loss", loss.item().hex(), flush=True)
"""
    )
    alone = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True)
    played = play(command(*GOVERNED, path))
    expected = alone.communicate()[0].splitlines()
    assert len(expected) == 5
    assert played.exit_code() == 0
    everything = [*played.terminal.scrolled, *played.terminal.lines]
    assert [line for line in everything if line.startswith("loss")] == expected
    assert played.frames > 0


def test_the_view_costs_little_and_draws_at_most_ten_frames_a_second(
    play: Play, script, tmp_path: Path
) -> None:
    played = play(command(*MEASURED, script(STEPS)), size=(120, 30))
    played.sees("loss at 20", "─ warm-up ─")
    view = psutil.Process(played.view.pid)
    began_s, began, frames = time.monotonic(), sum(view.cpu_times()[:2]), played.frames
    while time.monotonic() - began_s < 6:
        played.read()
    lasted_s = time.monotonic() - began_s
    cost = (sum(view.cpu_times()[:2]) - began) / lasted_s
    assert 1 <= (played.frames - frames) / lasted_s <= 10
    # Under 2 % of a core on a quiet machine; other work on the same core makes it look like more.
    assert cost < 0.08
    (tmp_path / "go").touch()
    assert played.exit_code() == 7
