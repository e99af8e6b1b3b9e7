"""What windows tell only together: how time follows the clock, and the highest rates seen."""

import math
from collections import deque
from dataclasses import dataclass, replace

from orin_gov.policy.window import Surroundings, Window

APART = 1.1
"""Clocks closer than this ratio tell noise rather than a sensitivity."""

ALIKE = 1.25
"""Windows whose work per step differs by more than this ratio are of different steps."""

KEPT = 32

LEAST, MOST = -0.5, 1.5
"""Time follows a clock in proportion at most, and does not run against it: beyond is noise."""

BUSY_CYCLE = "busy cycle"
"""Work that is counted in the clock's own cycles tells nothing of the clock."""


@dataclass(frozen=True)
class _Seen:
    clock_hz: float
    time_per_work_s: float
    work_per_step: float
    unit: str

    def is_alike(self, other: "_Seen") -> bool:
        ratio = self.work_per_step / other.work_per_step
        return self.unit == other.unit and 1 / ALIKE <= ratio <= ALIKE

    def is_apart(self, other: "_Seen") -> bool:
        return not 1 / APART < self.clock_hz / other.clock_hz < APART


class History:
    """Adds to each window what takes the windows before it. Pure; not thread-safe."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque(maxlen=KEPT)
        self._peak_operations = self._peak_bytes = 0.0

    def complete(self, window: Window, surroundings: Surroundings) -> Window:
        """Return the window with its surroundings, its sensitivity and the peaks to compare with.

        The latest earlier window of such steps at another clock tells the sensitivity.
        """
        self._see_rates(window)
        return replace(
            window,
            sensitivity=self._sensitivity(window),
            surroundings=replace(
                surroundings,
                peak_operations_per_cycle=surroundings.peak_operations_per_cycle
                or self._peak_operations
                or None,
                peak_bytes_per_s=surroundings.peak_bytes_per_s or self._peak_bytes or None,
            ),
        )

    def _see_rates(self, window: Window) -> None:
        for phase, time_s in window.phase_time_s.items():
            if time_s <= 0:
                continue
            steps_a_second = window.steps / time_s
            operations = window.operations_per_step.get(phase, 0.0) * steps_a_second
            moved = window.bytes_per_step.get(phase, 0.0) * steps_a_second
            self._peak_bytes = max(self._peak_bytes, moved)
            if window.frequency_hz:
                rate = operations / window.frequency_hz
                self._peak_operations = max(self._peak_operations, rate)

    def _sensitivity(self, window: Window) -> float | None:
        time_per_work_s, clock_hz = window.time_per_work_s, window.frequency_hz
        if not time_per_work_s or not clock_hz or not window.work or window.unit == BUSY_CYCLE:
            return None
        now = _Seen(clock_hz, time_per_work_s, window.work / max(1, window.steps), window.unit)
        usable = (each for each in reversed(self._seen) if each.is_alike(now))
        other = next((each for each in usable if each.is_apart(now)), None)
        self._seen.append(now)
        if other is None:
            return None
        slower = math.log(now.time_per_work_s / other.time_per_work_s)
        found = slower / math.log(other.clock_hz / now.clock_hz)
        return found if LEAST <= found <= MOST else None
