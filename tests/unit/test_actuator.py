"""The actuator's thread: requests, what became of them, and its end."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nodes import HIGH, LOW, MIDDLE, MS, TABLE, TOP, broken, make_node
from trees import eventually

from orin_gov._actuator import Actuator, Transition


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
    assert eventually(lambda: not actuator.pending)
    return actuator.drain()


def test_a_request_is_written_and_watched_until_the_clock_is_there(tmp_path: Path) -> None:
    node = make_node(tmp_path, cur_hz=LOW)
    begin_ns = time.monotonic_ns()
    with running(node, timeout_ns=20_000 * MS) as actuator:
        actuator.request(MIDDLE, HIGH)
        assert eventually(lambda: (tmp_path / "min_freq").read_text() == f"{MIDDLE}\n")
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
        assert eventually(lambda: (tmp_path / "max_freq").read_text() == f"{LOW}\n")
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
