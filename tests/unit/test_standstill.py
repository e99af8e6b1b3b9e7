"""Pauses are noticed by the clocks that count them, and by no other."""

import threading
import time

import pytest

from orin_gov import standstill
from orin_gov.ending import Ending
from orin_gov.standstill import STOOD_NS, Standstill

S = 1_000_000_000


def test_looks_that_come_in_time_are_no_pause() -> None:
    looking = Standstill(0)
    assert [looking.look(n * S // 10) for n in range(1, 20)] == [None] * 19


def test_a_look_that_comes_late_tells_how_long_nobody_looked() -> None:
    looking = Standstill(0)
    assert looking.look(STOOD_NS) is None
    pause = looking.look(13 * S)
    assert pause is not None
    assert (pause.seconds, pause.suspended) == (12.0, False)
    assert pause.told.startswith("the governor stood still for 12 s")
    assert looking.look(13 * S + 1) is None


def test_time_that_only_the_clock_of_the_boot_counts_is_a_suspend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = [(4 * S, 5 * S)]  # this one was held up as well
    monkeypatch.setattr(standstill, "ahead_ns", lambda: ahead[-1])
    looking = Standstill(0)
    ahead.append((5 * S + 50, 6 * S))  # a reading that was held up in between
    assert looking.look(S // 10) is None
    ahead.append((65 * S, 65 * S + 10))
    pause = looking.look(S // 5)
    assert pause is not None
    assert pause.suspended
    assert pause.seconds == pytest.approx(59.0)
    assert pause.told == "the machine was suspended for 59 s"
    assert looking.look(S // 4) is None


def test_a_machine_that_is_awake_has_both_clocks_alike() -> None:
    before = standstill.ahead_ns()
    began_ns = time.monotonic_ns()
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    ended_ns = time.monotonic_ns()
    after = standstill.ahead_ns()
    assert before[0] <= boot_ns - began_ns
    assert boot_ns - ended_ns <= after[1]
    assert after[0] - before[1] < standstill.SUSPENDED_NS


def test_who_waits_to_be_told_to_end_is_told_or_waits_to_the_end() -> None:
    ending = Ending()
    began_s = time.monotonic()
    assert not ending.wait(0.05)
    assert time.monotonic() - began_s >= 0.05
    teller = threading.Thread(target=ending.set)
    teller.start()
    assert ending.wait(60.0)
    assert ending.wait(60.0), "told once is told for good"
    teller.join()
