"""Marking phases: whatever breaks into it, the next phase is marked."""

import os
import signal
from collections.abc import Iterator

import pytest

from orin_gov._phases import PhaseRing
from orin_gov.phases import BACKWARD, FORWARD, IDLE, PHASES
from orin_gov.workload.marker import Marker
from orin_gov.workload.ring import make_ring


class LateError(Exception):
    """What a script's own alarm raises."""


@pytest.fixture
def ring() -> Iterator[PhaseRing]:
    descriptor = make_ring()
    made = PhaseRing(descriptor)
    os.close(descriptor)
    yield made
    made.close()


@pytest.fixture
def marker(ring: PhaseRing) -> Marker:
    made = Marker()
    made.use(ring)
    return made


@pytest.fixture
def alarm() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_handler_that_raises_while_a_phase_is_left_does_not_end_marking(
    ring: PhaseRing, marker: Marker, alarm: None
) -> None:
    """On a virtual board, leaving a phase sleeps until it has lasted as long as at its clock."""
    assert marker.enter(FORWARD)
    ring.set_stretch([1e9] * len(PHASES))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(LateError):
        marker.leave()
    ring.set_stretch([1.0] * len(PHASES))
    with marker.phase(BACKWARD):
        assert ring.current_phase == BACKWARD
    assert ring.current_phase == IDLE


def test_a_handler_that_raises_while_a_phase_is_entered_does_not_end_marking(
    ring: PhaseRing, marker: Marker, alarm: None
) -> None:
    assert marker.enter(FORWARD)
    marker.leave()
    ring.set_stretch([1e9] * len(PHASES))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(LateError):
        marker.enter(FORWARD)
    ring.set_stretch([1.0] * len(PHASES))
    assert marker.enter(BACKWARD)
    marker.leave()
