"""A virtual board stretches phases: the producer is held until its clock would be through."""

import math
import signal
import threading
import time
from collections.abc import Callable

import pytest
from rings import UNIT_STRETCH, records

from orin_gov._phases import PhaseRing
from orin_gov.phases import BACKWARD, FORWARD, IDLE, PHASES


def stretch_of(phase: int, factor: float) -> list[float]:
    factors = list(UNIT_STRETCH)
    factors[phase] = factor
    return factors


def busy(duration_s: float) -> float:
    """Compute for `duration_s`; return the seconds it really took."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < duration_s:
        pass
    return time.perf_counter() - begin


def keeps_time(measure: Callable[[], tuple[float, float]], within: float) -> bool:
    """Whether what is measured (seconds, and those expected) fits in one of some tries.

    Others may hold the processor; what is wrong is wrong each time.
    """
    return any(
        abs(lasted - expected) < within for lasted, expected in (measure() for _ in range(6))
    )


def test_a_stretched_phase_lasts_its_factor_longer(producer: PhaseRing) -> None:
    producer.set_stretch(stretch_of(FORWARD, 2.5))

    def measure() -> tuple[float, float]:
        producer.mark(FORWARD)
        worked = busy(0.1)
        producer.mark(BACKWARD)
        busy(0.1)
        producer.mark(IDLE)
        forward, backward, idle = [t for t, _, _ in records(producer)]
        assert (idle - backward) * 1e-9 >= 0.1
        return (backward - forward) * 1e-9, 2.5 * worked

    assert keeps_time(measure, 0.02)


def test_short_stretched_phases_add_up_to_their_factor(producer: PhaseRing) -> None:
    producer.set_stretch([2.0] * len(PHASES))

    def measure() -> tuple[float, float]:
        begin = time.perf_counter()
        producer.mark(IDLE)
        worked = 0.0
        for _ in range(1000):
            worked += busy(0.0002)
            producer.mark(FORWARD)
        records(producer)
        return (time.perf_counter() - begin) / worked, 2.0

    # Each sleep alone is late by some 0.05 ms: without a carry that would be 12 % more.
    assert keeps_time(measure, 0.16)


def test_a_faster_clock_ends_a_stretched_phase_at_once(fd: int, producer: PhaseRing) -> None:
    supervisor = PhaseRing(fd)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    marking = threading.Thread(target=producer.mark, args=(IDLE,))
    marking.start()
    marking.join(0.1)
    assert marking.is_alive(), "50 ms of work take 50 s at this clock"
    supervisor.set_stretch(UNIT_STRETCH)
    marking.join(5.0)
    assert not marking.is_alive()
    assert [kind for _, kind, _ in records(producer)] == [FORWARD, IDLE]


def test_a_slower_clock_lengthens_what_is_left_of_the_phase(fd: int, producer: PhaseRing) -> None:
    def measure() -> tuple[float, float]:
        producer.set_stretch(stretch_of(FORWARD, 2.0))
        begin = time.monotonic()
        producer.mark(FORWARD)
        busy(0.2)
        marking = threading.Thread(target=producer.mark, args=(IDLE,))
        marking.start()
        marking.join(0.1)
        PhaseRing(fd).set_stretch(stretch_of(FORWARD, 4.0))
        changed = time.monotonic()
        marking.join()
        end_s = records(producer)[1][0] * 1e-9
        # Half was left after 0.2 s; what of it was not done by then takes four times as long.
        left_s = 0.1 - (changed - begin - 0.2) / 2.0
        return end_s - changed, 4.0 * left_s

    assert keeps_time(measure, 0.05)


def test_a_signal_interrupts_a_stretched_phase(producer: PhaseRing) -> None:
    def on_alarm(*_: object) -> None:
        raise InterruptedError

    previous = signal.signal(signal.SIGALRM, on_alarm)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedError):
            producer.mark(IDLE)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert time.monotonic() - begin < 5.0


@pytest.mark.parametrize(
    "factors",
    [[1.0] * 6, [1.0] * 8, [0.99] + [1.0] * 6, [math.nan] + [1.0] * 6, [math.inf] + [1.0] * 6],
)
def test_factors_that_are_no_slowdown_are_refused(
    producer: PhaseRing, factors: list[float]
) -> None:
    with pytest.raises(ValueError, match="7 finite numbers of at least 1"):
        producer.set_stretch(factors)
    assert producer.stretch == UNIT_STRETCH


def test_closing_while_a_mark_sleeps_is_safe(fd: int, producer: PhaseRing) -> None:
    viewer = PhaseRing(fd)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    marking = threading.Thread(target=producer.mark, args=(IDLE,))
    marking.start()
    marking.join(0.05)
    producer.close()
    viewer.set_stretch(UNIT_STRETCH)
    marking.join(5.0)
    assert not marking.is_alive()
    assert [kind for _, kind, _ in records(viewer)] == [FORWARD]


def test_a_turn_waits_for_a_stretched_phase_as_a_mark_does(producer: PhaseRing) -> None:
    producer.set_stretch(stretch_of(FORWARD, 3.0))
    begin_ns = producer.turn(FORWARD)
    busy(0.05)
    assert producer.turn(IDLE) - begin_ns >= 0.15e9
