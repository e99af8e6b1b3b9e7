"""Bad input: every file of every board, missing, empty, wrong, closed, failing, or hanging.

Whatever is put there: nothing crashes, nothing hangs, no zero stands for what was not read, and
nothing is written but the board's own clocks.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import without_rights
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shims import compiled
from trees import board_names, eventually, limits, plant

from orin_gov.board import files
from orin_gov.board.conditions import is_cooled, read_conditions
from orin_gov.board.files import (
    fault,
    parse_int,
    read_bytes,
    read_int,
    read_ints,
    read_now,
    read_text,
    read_texts,
)
from orin_gov.board.gpu import Range
from orin_gov.board.probe import Board, open_board
from orin_gov.control import take_control
from orin_gov.errors import BoardError
from orin_gov.readying import operating_points

BAD_CONTENT = {
    "empty": b"",
    "blank": b"\n",
    "garbage": b"\x00\xff\xfe\x80garbage",
    "negative": b"-306000000\n",
    "huge": b"9" * 400 + b"\n",
    "long": b"306000000 " * 100_000,
    "units": b"5000 mV\n",
    "nul": b"306000000\0\n",
    "underscore": b"1_000\n",
    "float": b"6.12e8\n",
}
ERRNOS = ("EAGAIN", "EIO", "ENODATA", "ENODEV", "ETIMEDOUT", "EBUSY", "EACCES")


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"512", 512),
        (b"512\n", 512),
        (b"-392 \n", -392),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"0\n", 0),
        (b"01844674407370746623", 1844674407370746623),  # found by fuzzing
        *((content, None) for name, content in BAD_CONTENT.items() if name != "negative"),
        (b" 5", None),
        (b"+5", None),
        (b"0x10", None),
        ("٣".encode(), None),  # a digit, but no ASCII one
    ],
)
def test_an_integer_is_one_and_nothing_else(content: bytes, value: int | None) -> None:
    assert parse_int(content) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_an_integer_of_64_bits_or_none(content: bytes) -> None:
    value = parse_int(content)
    assert value is None or (abs(value) < 2**63 and int(content) == value)


def test_a_file_that_is_not_there_is_missing_and_told(tmp_path: Path) -> None:
    path = tmp_path / "in1_input"
    assert (read_text(path), read_int(path), read_now(path)) == (None, None, None)
    assert fault(path) == f"{path}: No such file or directory"
    path.mkdir()
    assert (read_text(path), read_int(path), read_now(path)) == (None, None, None)
    assert fault(path) == f"{path}: Is a directory"


def test_a_closed_file_is_told_with_its_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "in1_input"
    path.write_text("5\n")
    path.chmod(0o400)
    os.chown(path, 12345, -1) if os.geteuid() == 0 else None
    ask = f"""
from pathlib import Path
from orin_gov.board.files import fault
print(fault(Path({str(path)!r})))
"""
    done = subprocess.run(
        without_rights([sys.executable, "-c", ask]), capture_output=True, text=True, check=True
    )
    if os.geteuid() == 0:
        assert done.stdout == f"no right to read {path} (mode 0400, owner 12345)\n"


@contextmanager
def hanging(path: Path) -> Iterator[None]:
    """Have whoever opens `path` hang, until the block is over."""
    path.unlink()
    os.mkfifo(path)
    try:
        yield
    finally:
        # Whoever hangs in opening it for reading goes on once it has a writer.
        os.close(os.open(path, os.O_RDWR))
        path.unlink()


def test_a_file_that_hangs_is_left_after_a_while_and_then_at_once(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(files, "PATIENCE_S", 0.05)
    path = tmp_path / "in1_input"
    path.write_text("5\n")
    with hanging(path):
        assert read_int(path) is None
        assert fault(path) == f"{path}: does not answer"
        monkeypatch.setattr(files, "PATIENCE_S", 60.0)
        assert read_text(path) is None  # known to hang: not waited for again
    path.write_text("7\n")
    assert eventually(lambda: read_int(path) == 7)


def test_files_that_hang_cost_the_others_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "PATIENCE_S", 0.05)
    paths = [tmp_path / f"temp{number}" for number in range(5)]
    for number, path in enumerate(paths):
        path.write_text(f"{number}\n")
    paths[4].unlink()
    with hanging(paths[1]), hanging(paths[3]):
        assert read_ints(paths) == [0, None, 2, None, None]
        monkeypatch.setattr(files, "PATIENCE_S", 60.0)
        assert read_ints(paths) == [0, None, 2, None, None]  # known to hang: not waited for again
        assert read_texts([*reversed(paths)]) == [None, None, "2", None, "0"]
    assert read_ints([]) == []


def test_of_a_long_file_the_begin_is_read(tmp_path: Path) -> None:
    path = tmp_path / "label"
    path.write_bytes(b"x" * 1_000_000)
    assert len(read_bytes(path)) == files.LONGEST


def look(root: Path) -> Board | None:
    """Look at everything the board room looks at; what comes out must make sense."""
    try:
        board = open_board(root)
    except BoardError:
        return None  # no Jetson any more
    for problem in board.problems():
        assert problem.what
        assert problem.mend
    for rail in board.rails:
        assert rail.label.isprintable()
        rail.fault()
    assert len({rail.label for rail in board.rails}) == len(board.rails)
    assert board.total_rails is None or board.total_rails
    assert (board.time_constant_s or 1.0) > 0
    found = read_conditions(root, board.gpu)
    assert all(value is None or -55 <= value <= 200 for value in found.temperature_c.values())
    assert all(value is None or value >= 0 for value in found.over_current_events.values())
    assert found.emc_cap_hz != 0
    assert found.emc_rate_hz != 0
    if board.gpu is not None:
        assert all(hz > 0 for hz in board.gpu.table_hz)
        assert list(board.gpu.table_hz) == sorted(set(board.gpu.table_hz))
        load = board.gpu.read_load()
        assert load is None or 0 <= load <= 1
        assert (board.gpu.read_frequency_hz() or 0) >= 0
        is_cooled(root, board.gpu)
    return board


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.parametrize("name", board_names())
def test_a_board_with_every_file_bad_at_once_is_looked_at(tmp_path: Path, name: str) -> None:
    plant(tmp_path, name)
    every = files_of(tmp_path)
    # Every fourth of the contents, another one first for each board: all together see all of them.
    contents = [*BAD_CONTENT.values(), None]
    for content in contents[board_names().index(name) % 4 :: 4]:
        for path in every:
            path.unlink() if content is None else path.write_bytes(content)
        board = look(tmp_path)
        if board is not None and content != BAD_CONTENT["negative"]:
            # No reading, no zero: every rail that is still known tells why it has none.
            assert all(rail.fault() for rail in board.rails)
            assert operating_points(board) == ()


@pytest.mark.parametrize("name", ["agx-orin-64gb-jp6", "nano-jp4", "agx-thor-jp7"])
def test_each_single_bad_file_of_a_board_is_got_over(tmp_path: Path, name: str) -> None:
    plant(tmp_path, name)
    every = itertools.cycle([*BAD_CONTENT.values(), None])
    for path, content in zip(files_of(tmp_path), every, strict=False):
        before = path.read_bytes()
        path.unlink() if content is None else path.write_bytes(content)
        look(tmp_path)
        path.write_bytes(before)


def test_each_single_file_that_hangs_is_got_over(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "PATIENCE_S", 0.01)
    plant(tmp_path, "agx-orin-64gb-jp6")
    for path in files_of(tmp_path):
        if path.name in ("cur_freq", "load"):
            continue  # read_now: the engine's thread hangs there, and is left behind
        before = path.read_bytes()
        with hanging(path):
            look(tmp_path)
        path.write_bytes(before)


LOOK_WITH_FAULTS = """
import ctypes, errno, os, sys
from pathlib import Path
import pytest
sys.path[:0] = sys.argv[1:3]
import test_bad_files
root = Path(sys.argv[3])
shim = ctypes.CDLL(None)
looks = 0
# One errno a file, in turn: what is done about them is the same.
for number, path in enumerate(test_bad_files.files_of(root)):
    code = getattr(errno, test_bad_files.ERRNOS[number % len(test_bad_files.ERRNOS)])
    shim.fault_set(os.fsencode(path), code)
    with pytest.raises(OSError) as failed:
        test_bad_files.read_bytes(path)
    assert failed.value.errno == code
    test_bad_files.look(root)
    looks += 1
shim.fault_set(b"", 0)
board = test_bad_files.look(root)
assert not [rail for rail in board.rails if rail.fault()]
rail = board.rails[0]
shim.fault_set(os.fsencode(rail.current_file), errno.ENODATA)
assert rail.fault() == f"{rail.current_file}: No data available", rail.fault()
print(looks)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("faults", tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize("name", ["orin-nano-super-jp6", "nano-jp4"])
def test_each_file_that_fails_as_a_driver_does_is_got_over(
    tmp_path: Path, shim: Path, name: str
) -> None:
    plant(tmp_path, name)
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", LOOK_WITH_FAULTS, here, here.parent, tmp_path],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(files_of(tmp_path))


contents = st.one_of(
    st.none(),
    st.sampled_from(sorted(BAD_CONTENT.values())),
    st.binary(max_size=30),
    st.integers(-(2**70), 2**70).map(lambda value: f"{value}\n".encode()),
    st.lists(st.integers(0, 2_000_000_000)).map(lambda row: " ".join(map(str, row)).encode()),
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_a_tree_holds_only_its_own_clocks_are_written(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = plant(tmp_path_factory.mktemp("tree"), data.draw(st.sampled_from(board_names())))
    every = files_of(root)
    # Bad files near the GPU more often than elsewhere: there something may be written.
    near = [path for path in every if "devfreq" in path.parts or "compatible" in path.name]
    chosen = data.draw(st.lists(st.sampled_from(near) | st.sampled_from(every), max_size=6))
    for path in chosen:
        content = data.draw(contents)
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
    board = look(root)
    points = operating_points(board) if board else ()
    if board is None or len(points) < 2:
        return
    assert board.gpu is not None
    assert set(points) <= set(board.gpu.table_hz)
    before = board.gpu.read_range()
    assert points[-1] <= before.max_hz
    with take_control(root, board.gpu) as control:
        for hz in (points[0], points[-1]):
            control.request(hz)
            assert eventually(lambda hz=hz: limits(board.gpu.directory) == (str(hz), str(hz)))
        with pytest.raises(ValueError, match="not in the board's table"):
            control.request(points[-1] + 1)
    after = board.gpu.read_range()
    assert after == Range(min(before.min_hz, before.max_hz), before.max_hz)
    assert not {path for path in every if path.exists()} - set(files_of(root))
