"""Marking which phase the training thread is in: the outermost one counts, the rest is inside it."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orin_gov._phases import PhaseRing
from orin_gov.phases import IDLE


class Marker:
    """Writes phase marks to a ring; one phase at a time.

    Whatever begins inside a running phase, in this thread or another, belongs to it: the recomputing
    forward of gradient checkpointing is backward, a submodule's forward is its parent's. Holding the
    phase lock is being the outermost; it also keeps the ring's producer single.
    """

    def __init__(self, ring: PhaseRing) -> None:
        self._ring = ring
        self._outermost = threading.Lock()
        self._work = 0.0
        self._claimed = False
        self.explicit_steps = False

    def enter(self, phase: int) -> bool:
        """Begin `phase`; False (and nothing to leave) inside another one or in another process."""
        if not self._outermost.acquire(blocking=False):
            return False
        # The first process to mark owns the ring: a launcher that imports torch never does.
        if not self._claimed and not self._ring.claim():
            self._outermost.release()
            return False
        self._claimed = True
        self._ring.mark(phase)
        return True

    def leave(self) -> None:
        """End the phase that `enter` began."""
        self._ring.mark(IDLE)
        self._outermost.release()

    @contextmanager
    def phase(self, phase: int) -> Iterator[None]:
        """Mark the body of a with statement as `phase`."""
        entered = self.enter(phase)
        try:
            yield
        finally:
            if entered:
                self.leave()

    def add_work(self, units: float) -> None:
        """Add tokens or samples to the step under way."""
        self._work += units

    def step(self) -> None:
        """Mark the end of an optimizer step; its work is what was added since the last."""
        if self._claimed:
            self._ring.step(self._work if self._work > 0 else math.nan)
        self._work = 0.0
