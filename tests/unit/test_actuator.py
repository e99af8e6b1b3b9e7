"""The actuator: the order of its writes as the kernel saw them, and what it reads back."""

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_gov._actuator import Actuator, Transition, write_range

MS = 1_000_000
TABLE = (306_000_000, 408_000_000, 510_000_000, 612_000_000, 1_300_500_000)
LOW, _, MIDDLE, HIGH, TOP = TABLE
IN_CLOSE_WRITE, IN_CLOSE_NOWRITE = 0x8, 0x10


def make_node(folder: Path, min_hz: int = LOW, max_hz: int = TOP, cur_hz: int = LOW) -> str:
    for name, value in (("min_freq", min_hz), ("max_freq", max_hz), ("cur_freq", cur_hz)):
        (folder / name).write_text(f"{value}\n")
    return str(folder)


def wait_for(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.0005)


class Watch:
    """What the kernel reports about the files of a folder, in its order (inotify)."""

    def __init__(self, folder: str, events: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, os.fsencode(folder), events) >= 0

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def names(self) -> list[str]:
        """Wait for at least one event; return the files' names in order."""
        data, names = os.read(self.fd, 65536), []
        while data:
            length = struct.unpack_from("=iIII", data)[3]
            names.append(data[16 : 16 + length].rstrip(b"\0").decode())
            data = data[16 + length :]
        return names


def order_of_writes(node: str, min_hz: int, max_hz: int) -> list[str]:
    with Watch(node, IN_CLOSE_WRITE) as watch:
        write_range(node, min_hz, max_hz)
        return watch.names()


# The order of the writes.


@pytest.mark.parametrize(
    ("current", "wanted", "first"),
    [
        ((LOW, HIGH), (TOP, TOP), "max_freq"),
        ((LOW, LOW), (HIGH, TOP), "max_freq"),
        ((HIGH, TOP), (LOW, LOW), "min_freq"),
        ((TOP, TOP), (LOW, HIGH), "min_freq"),
        ((LOW, TOP), (MIDDLE, MIDDLE), "min_freq"),
        ((LOW, TOP), (LOW, TOP), "max_freq"),
    ],
)
def test_a_rising_range_writes_max_first_and_a_falling_one_min_first(
    tmp_path: Path, current: tuple[int, int], wanted: tuple[int, int], first: str
) -> None:
    order = order_of_writes(make_node(tmp_path, *current), *wanted)
    assert order[0] == first
    assert sorted(order) == ["max_freq", "min_freq"]


RANGE = st.lists(st.sampled_from(TABLE), min_size=2, max_size=2).map(sorted)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(current=RANGE, wanted=RANGE)
def test_min_never_exceeds_max_at_any_moment(
    tmp_path: Path, current: list[int], wanted: list[int]
) -> None:
    values = {"min_freq": current[0], "max_freq": current[1]}
    for name in order_of_writes(make_node(tmp_path, *current), *wanted):
        values[name] = wanted[0] if name == "min_freq" else wanted[1]
        assert values["min_freq"] <= values["max_freq"]
    assert [values["min_freq"], values["max_freq"]] == wanted


@pytest.mark.parametrize("content", ["", "unknown\n"])
def test_an_unreadable_max_is_written_first(tmp_path: Path, content: str) -> None:
    node = make_node(tmp_path)
    (tmp_path / "max_freq").write_text(content)
    assert order_of_writes(node, LOW, LOW) == ["max_freq", "min_freq"]


def test_a_max_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """A max that is empty for a moment only is not an unknown one: the range falls, min first."""

    def fill_once_read(watch: Watch, fd: int) -> None:
        while "max_freq" not in watch.names():
            pass
        os.pwrite(fd, b"%d\n" % TOP, 0)

    orders: list[list[str]] = []
    while ["min_freq", "max_freq"] not in orders:
        assert len(orders) < 20, "an attempt fails when the fill is 20 ms late; not all may"
        node = make_node(tmp_path)
        fd = os.open(tmp_path / "max_freq", os.O_WRONLY | os.O_TRUNC)
        with Watch(node, IN_CLOSE_NOWRITE) as reads, Watch(node, IN_CLOSE_WRITE) as writes:
            filler = threading.Thread(target=fill_once_read, args=(reads, fd))
            filler.start()
            write_range(node, LOW, LOW)
            filler.join()
            orders.append(writes.names())
        os.close(fd)


# What is written.


def test_the_files_hold_plain_integers(tmp_path: Path) -> None:
    node = make_node(tmp_path, TOP, TOP)
    write_range(node, LOW, HIGH)
    assert (tmp_path / "min_freq").read_bytes() == b"306000000\n"
    assert (tmp_path / "max_freq").read_bytes() == b"612000000\n"
    write_range(node, 1, 2)
    assert (tmp_path / "min_freq").read_bytes() == b"1\n", "no rest of the longer value"


@pytest.mark.parametrize(("min_hz", "max_hz"), [(HIGH, LOW), (-1, LOW)])
def test_a_range_that_is_none_is_refused_before_any_write(
    tmp_path: Path, min_hz: int, max_hz: int
) -> None:
    node = make_node(tmp_path)
    with pytest.raises(ValueError, match=f"range {min_hz} to {max_hz} Hz"):
        write_range(node, min_hz, max_hz)
    assert (tmp_path / "max_freq").read_text() == f"{TOP}\n"


# Failures.


@pytest.mark.parametrize(("folder", "error"), [("none", errno.ENOENT), ("cur_freq", errno.ENOTDIR)])
def test_a_node_that_is_not_there_is_an_error_with_its_path(
    tmp_path: Path, folder: str, error: int
) -> None:
    make_node(tmp_path)
    path = str(tmp_path / folder)
    with pytest.raises(OSError, match="max_freq") as caught:
        write_range(path, LOW, HIGH)
    assert (caught.value.errno, caught.value.filename) == (error, f"{path}/max_freq")
    assert caught.value.strerror == os.strerror(error)


def broken(folder: Path, name: str) -> str:
    """A node whose file `name` can be neither read nor written, for root neither."""
    node = make_node(folder)
    os.unlink(folder / name)
    os.mkdir(folder / name)
    return node


def test_min_is_written_though_max_failed(tmp_path: Path) -> None:
    node = broken(tmp_path, "max_freq")
    with pytest.raises(IsADirectoryError, match="max_freq"):
        write_range(node, MIDDLE, HIGH)
    assert (tmp_path / "min_freq").read_text() == f"{MIDDLE}\n"


def test_max_is_written_though_min_failed(tmp_path: Path) -> None:
    node = broken(tmp_path, "min_freq")
    with pytest.raises(IsADirectoryError, match="min_freq"):
        write_range(node, LOW, HIGH)
    assert (tmp_path / "max_freq").read_text() == f"{HIGH}\n"


def test_the_first_of_two_failures_is_raised(tmp_path: Path) -> None:
    node = broken(tmp_path, "min_freq")
    os.unlink(tmp_path / "max_freq")
    os.symlink("/dev/full", tmp_path / "max_freq")  # reads endless zeros, takes no byte
    with pytest.raises(OSError, match="max_freq") as caught:
        write_range(node, LOW, HIGH)
    assert caught.value.errno == errno.ENOSPC


def test_a_write_that_blocks_does_not_block_the_interpreter(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    os.unlink(tmp_path / "min_freq")
    os.mkfifo(tmp_path / "min_freq")
    writer = threading.Thread(target=write_range, args=(node, MIDDLE, HIGH))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    with open(tmp_path / "min_freq") as reader:
        assert reader.read() == f"{MIDDLE}\n"
    writer.join()


# The actuator's thread.


@contextmanager
def running(
    node: str, allowed: tuple[int, ...] = TABLE, timeout_ns: int = 100 * MS
) -> Iterator[Actuator]:
    actuator = Actuator(node, allowed, timeout_ns)
    actuator.start()
    try:
        yield actuator
    finally:
        assert actuator.stop(20.0)


def finish(actuator: Actuator) -> list[Transition]:
    wait_for(lambda: not actuator.pending)
    return actuator.drain()


def test_a_request_is_written_and_watched_until_the_clock_is_there(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=LOW)
    begin_ns = time.monotonic_ns()
    with running(node, timeout_ns=20_000 * MS) as actuator:
        actuator.request(MIDDLE, HIGH)
        wait_for(lambda: (tmp_path / "min_freq").read_text() == f"{MIDDLE}\n")
        assert actuator.pending, "the clock is still low"
        assert actuator.drain() == []
        raised_ns = time.monotonic_ns()
        (tmp_path / "cur_freq").write_text(f"{HIGH}\n")
        (transition,) = finish(actuator)
    assert (tmp_path / "max_freq").read_text() == f"{HIGH}\n"
    assert transition.achieved_ns is not None
    assert begin_ns <= transition.requested_ns <= transition.begun_ns <= transition.issued_ns
    assert transition.issued_ns <= transition.achieved_ns
    assert raised_ns <= transition.achieved_ns <= time.monotonic_ns()
    assert (transition.min_hz, transition.max_hz) == (MIDDLE, HIGH)
    assert (transition.achieved_hz, transition.errno) == (HIGH, 0)


@pytest.mark.parametrize("cur_hz", [MIDDLE, HIGH])
def test_both_ends_of_the_range_count_as_achieved(tmp_path: Path, cur_hz: int) -> None:
    with running(make_node(tmp_path, cur_hz=cur_hz)) as actuator:
        actuator.request(MIDDLE, HIGH)
        (transition,) = finish(actuator)
    assert transition.achieved_ns is not None
    assert transition.achieved_hz == cur_hz


@pytest.mark.parametrize("cur_hz", [MIDDLE - 1, HIGH + 1])
def test_a_clock_that_stays_elsewhere_times_out_and_is_told(tmp_path: Path, cur_hz: int) -> None:
    with running(make_node(tmp_path, cur_hz=cur_hz), timeout_ns=30 * MS) as actuator:
        actuator.request(MIDDLE, HIGH)
        (transition,) = finish(actuator)
        assert time.monotonic_ns() - transition.issued_ns >= 30 * MS
    assert transition.achieved_ns is None
    assert transition.achieved_hz == cur_hz


def test_an_unreadable_clock_is_missing_not_zero(tmp_path: Path) -> None:
    with running(broken(tmp_path, "cur_freq"), timeout_ns=MS) as actuator:
        actuator.request(LOW, HIGH)
        (transition,) = finish(actuator)
    assert (transition.achieved_ns, transition.achieved_hz) == (None, None)
    assert transition.errno == 0


def test_a_failed_write_is_kept_and_not_retried(tmp_path: Path) -> None:
    node = broken(tmp_path, "min_freq")
    with running(node, timeout_ns=MS) as actuator:
        actuator.request(MIDDLE, HIGH)
        (transition,) = finish(actuator)
        os.rmdir(tmp_path / "min_freq")
        assert transition.errno == errno.EISDIR
        assert finish(actuator) == []
    assert not (tmp_path / "min_freq").exists()
    assert (tmp_path / "max_freq").read_text() == f"{HIGH}\n"


def test_another_writers_maximum_is_not_written_over(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=LOW)
    (tmp_path / "max_freq").write_text(f"{HIGH}\n")
    before = (tmp_path / "min_freq").read_text(), (tmp_path / "max_freq").read_text()
    with running(node, timeout_ns=MS) as actuator:
        actuator.request(MIDDLE, MIDDLE, TOP)
        (transition,) = finish(actuator)
        assert (transition.errno, transition.achieved_hz) == (errno.ECANCELED, None)
        after = (tmp_path / "min_freq").read_text(), (tmp_path / "max_freq").read_text()
        assert after == before
        actuator.request(MIDDLE, MIDDLE, HIGH)
        (transition,) = finish(actuator)
    assert transition.errno == 0
    assert (tmp_path / "max_freq").read_text() == f"{MIDDLE}\n"


def test_the_latest_of_several_waiting_requests_wins(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=TOP)
    with running(node, timeout_ns=300 * MS) as actuator:
        actuator.request(LOW, LOW)
        wait_for(lambda: (tmp_path / "max_freq").read_text() == f"{LOW}\n")
        # The first is being watched for 300 ms: these three wait behind it.
        actuator.request(MIDDLE, MIDDLE)
        actuator.request(HIGH, HIGH)
        actuator.request(TOP, TOP)
        transitions = finish(actuator)
    assert [t.max_hz for t in transitions] == [LOW, TOP]


def test_stop_finishes_what_was_asked_for(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=TOP)
    actuator = Actuator(node, TABLE, 20 * MS)
    actuator.start()
    actuator.request(LOW, LOW)
    actuator.request(MIDDLE, MIDDLE)
    assert actuator.stop(20.0)
    assert not actuator.pending
    assert actuator.drain()[-1].max_hz == MIDDLE
    assert (tmp_path / "max_freq").read_text() == f"{MIDDLE}\n"


def test_requests_outside_the_table_are_refused(tmp_path: Path) -> None:
    with running(make_node(tmp_path)) as actuator:
        with pytest.raises(ValueError, match="950000000 Hz is not in the board's table"):
            actuator.request(LOW, 950_000_000)
        with pytest.raises(ValueError, match="0 Hz is not"):
            actuator.request(0, LOW)
        with pytest.raises(ValueError, match="expected 0 <= min_hz <= max_hz"):
            actuator.request(HIGH, LOW)
        assert not actuator.pending
        assert actuator.drain() == []


def test_a_request_needs_a_started_actuator(tmp_path: Path) -> None:
    actuator = Actuator(make_node(tmp_path, cur_hz=LOW), TABLE)
    assert actuator.stop(), "nothing to stop"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not started"):
            actuator.request(LOW, HIGH)
        actuator.start()
        with pytest.raises(RuntimeError, match="running"):
            actuator.start()
        actuator.request(LOW, HIGH)
        assert len(finish(actuator)) == 1
        assert actuator.stop(20.0)


def test_the_newest_1024_transitions_are_kept(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=0)
    with running(node, allowed=tuple(range(1, 1101)), timeout_ns=0) as actuator:
        for value in range(1, 1101):
            actuator.request(value, value)
            while actuator.pending:
                time.sleep(0)
        transitions = actuator.drain()
    assert [t.max_hz for t in transitions] == list(range(77, 1101))
    assert actuator.drain() == []


def test_a_thread_hung_in_a_file_blocks_nobody(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    os.unlink(tmp_path / "max_freq")
    os.mkfifo(tmp_path / "max_freq")
    actuator = Actuator(node, TABLE, MS)
    actuator.start()
    actuator.request(LOW, HIGH)  # hangs: nobody writes to the pipe
    assert not actuator.stop(0.1)
    assert actuator.pending
    assert actuator.drain() == []
    with pytest.raises(RuntimeError, match="not started"):
        actuator.request(LOW, LOW)
    with pytest.raises(RuntimeError, match="running"):
        actuator.start()
    pipe = os.open(tmp_path / "max_freq", os.O_RDWR)
    assert actuator.stop(20.0)
    assert os.read(pipe, 100) == b"612000000\n"
    os.close(pipe)


def test_threads_that_ask_at_once_are_all_served_or_superseded(tmp_path: Path) -> None:
    def ask(value: int) -> None:
        for _ in range(200):
            actuator.request(value, value)
            drained.extend(actuator.drain())

    drained: list[Transition] = []
    with running(make_node(tmp_path, cur_hz=LOW), timeout_ns=0) as actuator:
        threads = [threading.Thread(target=ask, args=(value,)) for value in TABLE]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        drained += finish(actuator)
    last = max(drained, key=lambda t: t.requested_ns)
    assert (tmp_path / "max_freq").read_text() == f"{last.max_hz}\n"
    assert (tmp_path / "min_freq").read_text() == f"{last.min_hz}\n"


def test_no_descriptor_or_thread_is_left_behind(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=LOW)
    restarted = Actuator(node, TABLE)
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    for _ in range(50):
        for actuator in (restarted, Actuator(node, TABLE)):
            actuator.start()
            actuator.request(LOW, HIGH)
            assert actuator.stop(20.0)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_waiting_actuator_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = "import sys; from orin_gov._actuator import Actuator; Actuator(sys.argv[1], [1]).start()"
    command = [sys.executable, "-c", code, make_node(tmp_path)]
    assert subprocess.run(command, timeout=60).returncode == 0
