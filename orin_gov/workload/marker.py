"""Marking which phase the training thread is in: the outermost counts, the rest is inside it."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from orin_gov._phases import STEP, PhaseRing
from orin_gov.counts import kind_of
from orin_gov.phases import BACKWARD, EPOCH_END, FORWARD, IDLE, OPTIMIZER

COMPUTING = frozenset({FORWARD, BACKWARD, OPTIMIZER})
"""The phases whose time tells what counting costs."""

StepWatch = Callable[[float, float], Mapping[tuple[int, int], float]]
"""Told of each step's end: seconds in its computing phases, and its work (0: unknown). Returns the
counts of the step by phase and quantity (orin_gov.counts), none where it was not counted."""


class Edges(Protocol):
    """Marks on their way to the ring: orin_gov.workload.cuda_events.EventMarks is one."""

    def mark(self, t_ns: int, kind: int) -> None:
        """Mark a phase that begins at `t_ns`."""

    def follow(self, t_ns: int, kind: int, value: float) -> None:
        """Put a record right behind the marks so far."""

    def flush(self) -> None:
        """Put all that waits."""


def _count_nothing(busy_s: float, work: float) -> Mapping[tuple[int, int], float]:
    return {}


class Marker:
    """Writes phase marks to a ring; one phase at a time.

    Whatever begins inside a running phase, in this thread or another, belongs to it: the
    recomputing forward of gradient checkpointing is backward, a submodule's forward is its
    parent's. Holding the phase lock is being the outermost; it also keeps the ring's producer
    single.
    """

    def __init__(self) -> None:
        self._ring: PhaseRing | None = None
        self._outermost = threading.Lock()
        self._work = 0.0
        self._phase, self._entered_ns, self._busy_ns = IDLE, 0, 0
        self._watch: StepWatch = _count_nothing
        self._edges: Edges | None = None
        self.explicit_steps = False

    def watch_steps(self, watch: StepWatch) -> None:
        """Tell `watch` of each step's end from now on, and mark the counts that it returns."""
        self._watch = watch

    def mark_by(self, edges: "Edges | None") -> None:
        """Have marks wait for the GPU's own time from now on; None takes the host's."""
        self._edges = edges

    def put(self, t_ns: int, kind: int, value: float) -> None:
        """Put a record into the ring as it stands; `edges` end up here."""
        if self._ring is not None:
            self._ring.put(t_ns, kind, value)

    def use(self, ring: PhaseRing | None) -> None:
        """Mark to `ring` from now on; None marks nowhere."""
        if self._edges is not None:
            self._edges.flush()
        self._ring = ring

    def leave_to_parent(self) -> None:
        """In a forked child, leave the phase under way to the parent, whose ring it is."""
        if self._ring is not None:
            self._ring.disable()

    def enter(self, phase: int) -> bool:
        """Begin `phase`; False (and nothing to leave) inside another one or without a ring."""
        ring = self._ring
        if ring is None or not self._outermost.acquire(blocking=False):
            return False
        # The first process to mark owns the ring: a launcher that only imports torch never does.
        if not ring.claim():
            self._outermost.release()
            return False
        entered = False
        try:
            self._mark(ring, phase)
            self._phase, self._entered_ns = phase, time.monotonic_ns()
            entered = True
        finally:
            # The script's own signal handlers run here as anywhere, and may raise.
            if not entered:
                self._outermost.release()
        return True

    def leave(self) -> None:
        """End the phase that `enter` began."""
        try:
            if self._phase in COMPUTING:
                self._busy_ns += time.monotonic_ns() - self._entered_ns
            if self._ring is not None:
                self._mark(self._ring, IDLE)
        finally:
            self._outermost.release()

    def _mark(self, ring: PhaseRing, phase: int) -> None:
        if self._edges is None:
            ring.mark(phase)
        elif t_ns := ring.turn(phase):
            self._edges.mark(t_ns, phase)

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

    def end_epoch(self) -> None:
        """Mark that the data of a training epoch have come to their end."""
        if self._ring is not None:
            put = self._edges.follow if self._edges is not None else self._ring.put
            put(time.monotonic_ns(), EPOCH_END, 0.0)

    def step(self) -> None:
        """Mark the end of an optimizer step; its work is what was added since the last."""
        ring = self._ring
        if ring is not None:
            counts = self._watch(self._busy_ns * 1e-9, self._work)
            put = self._edges.follow if self._edges is not None else ring.put
            for (phase, quantity), count in counts.items():
                put(time.monotonic_ns(), kind_of(phase, quantity), count)
            put(time.monotonic_ns(), STEP, self._work if self._work > 0 else math.nan)
        self._work, self._busy_ns = 0.0, 0
