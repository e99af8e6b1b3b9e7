"""Standing still: the process stopped or starved of time, or the whole machine suspended."""

import time
from dataclasses import dataclass

STOOD_NS = 1_000_000_000
"""A look that comes so much later than the last one: something stood still in between."""

SUSPENDED_NS = 100_000_000
"""Less than this between the two clocks is the time it takes to read them."""


@dataclass(frozen=True)
class Pause:
    """What was noticed: how long it was, and whether the machine itself was suspended."""

    seconds: float
    suspended: bool

    @property
    def told(self) -> str:
        """The pause in words."""
        if self.suspended:
            return f"the machine was suspended for {self.seconds:.3g} s"
        return (
            f"the governor stood still for {self.seconds:.3g} s (stopped, or without a processor)"
        )


class Standstill:
    """Notices pauses between one look and the next; the wall clock has no part in it.

    CLOCK_MONOTONIC, by which everything is timed, stands still while the machine is suspended;
    CLOCK_BOOTTIME goes on. Thread-safety: none.
    """

    def __init__(self, now_ns: int) -> None:
        self._looked_ns = now_ns
        self._ahead_ns = ahead_ns()[1]

    def look(self, now_ns: int) -> Pause | None:
        """Return the pause since the last look, where there was one."""
        stood_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        least_ns, most_ns = ahead_ns()
        suspended_ns, self._ahead_ns = least_ns - self._ahead_ns, most_ns
        if suspended_ns > SUSPENDED_NS:
            return Pause(suspended_ns * 1e-9, True)
        return Pause(stood_ns * 1e-9, False) if stood_ns > STOOD_NS else None


def ahead_ns() -> tuple[int, int]:
    """Return the least and the most by which CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC."""
    before_ns = time.monotonic_ns()
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return boot_ns - time.monotonic_ns(), boot_ns - before_ns
