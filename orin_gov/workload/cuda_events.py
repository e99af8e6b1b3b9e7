"""Phase edges in the GPU's own time: CUDA launches kernels long before they run.

Each mark records an event on the current stream. Once the stream has come to it, which is asked
now and then and never waited for, the mark goes to the ring with the time at which that was. The
GPU's clock is not the host's: an event comes so long after the one before it as the GPU says, but
not before it was recorded, and not after it was found to have come. So the two clocks cannot drift
apart.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

MOST_WAITING = 4096
"""Marks that wait for the GPU, at most; beyond, the host's time must do."""


class Event(Protocol):
    """What is used of torch.cuda.Event."""

    def record(self) -> None:
        """Put the event into the current stream."""

    def query(self) -> bool:
        """Tell whether the stream has come to it."""

    def elapsed_time(self, later: "Event", /) -> float:
        """Milliseconds from this event to a later one; both have come."""


class EventMarks:
    """Marks on their way to the ring, in order; `put` is the ring's.

    Thread-safety: none; the training thread.
    """

    def __init__(
        self,
        put: Callable[[int, int, float], None],
        make_event: Callable[[], Event],
        is_usable: Callable[[], bool],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._put, self._make_event = put, make_event
        self._is_usable, self._now_ns = is_usable, now_ns
        self._waiting: deque[tuple[Event | None, int, int, float]] = deque()
        self._spare: list[Event] = []
        self._event: Event | None = None  # the last that has come,
        self._event_ns = self._put_ns = 0  # when it did, and the last record's time

    def mark(self, t_ns: int, kind: int) -> None:
        """Mark a phase that begins at `t_ns` on the host, and where the stream is then."""
        self._waiting.append((self._record(), t_ns, kind, 0.0))
        self._pass_on()

    def follow(self, t_ns: int, kind: int, value: float) -> None:
        """Put a record right behind the marks so far."""
        self._waiting.append((None, t_ns, kind, value))
        self._pass_on()

    def flush(self) -> None:
        """Put all that waits, with the host's time where the GPU's is not known yet."""
        while self._waiting:
            self._deliver(self._waiting[0][1])

    def _give_up(self) -> None:
        """Go on without events: CUDA has failed, and tells the script so at its next call."""
        self._is_usable = _never
        self.flush()

    def _record(self) -> Event | None:
        try:
            if not self._is_usable():
                return None
            event = self._spare.pop() if self._spare else self._make_event()
            event.record()
            return event
        except RuntimeError:
            self._give_up()
            return None

    def _pass_on(self) -> None:
        try:
            while self._waiting:
                event, t_ns, _, _ = self._waiting[0]
                if event is None:
                    self._deliver(t_ns)
                elif self._is_usable() and event.query():
                    self._deliver(self._came_ns(event, t_ns))
                    self._come(event)
                else:
                    break
        except RuntimeError:
            self._give_up()
        if len(self._waiting) > MOST_WAITING:
            self.flush()

    def _came_ns(self, event: Event, recorded_ns: int) -> int:
        came_ns = recorded_ns
        if self._event is not None:
            came_ns = self._event_ns + round(self._event.elapsed_time(event) * 1e6)
        return min(max(came_ns, recorded_ns), self._now_ns())

    def _come(self, event: Event) -> None:
        if self._event is not None:
            self._spare.append(self._event)
        self._event, self._event_ns = event, self._put_ns

    def _deliver(self, t_ns: int) -> None:
        """Put the record that has waited longest, no earlier than the one before it."""
        _, _, kind, value = self._waiting.popleft()
        self._put_ns = max(t_ns, self._put_ns)
        self._put(self._put_ns, kind, value)


def _never() -> bool:
    return False


def _is_usable() -> bool:
    """Tell whether an event may be used now: it must not be what initialises CUDA, nor be captured
    into a graph."""
    return torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()


def cuda_event_marks(put: Callable[[int, int, float], None]) -> EventMarks | None:
    """Return marks by CUDA's events, or None where this torch has no CUDA."""
    if torch.version.cuda is None:
        return None
    return EventMarks(put, lambda: torch.cuda.Event(enable_timing=True), _is_usable)
