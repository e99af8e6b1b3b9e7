"""Marking phases: whatever breaks into it, the next phase is marked."""

import os
import signal
import subprocess
import sys
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


FORKED = """
import os
from orin_gov._phases import PhaseRing
from orin_gov.phases import FORWARD, OPTIMIZER
from orin_gov.workload.ring import make_ring
from orin_gov.workload.session import attach, detach

def maps():
    with open("/proc/self/maps") as file:
        return file.read().count("orin_gov-phases")

for _ in range(3):
    descriptor = make_ring()
    reader = PhaseRing(descriptor)
    marker = attach(descriptor)
    with marker.phase(FORWARD):
        pid = os.fork()  # the child leaves the phase that its parent is in
        if pid:
            os.waitpid(pid, 0)
            assert reader.current_phase == FORWARD
    if pid == 0:
        with marker.phase(OPTIMIZER):
            marker.step()
        os._exit(0)
    print(reader.marks, maps())
    detach()
    del reader
print(maps())
"""


def test_a_child_forked_in_a_phase_marks_nothing_and_rings_that_were_left_are_gone() -> None:
    """A ring is a megabyte and more; a search over settings enters the library many times."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["2 2", "2 2", "2 2", "0"], done.stderr
