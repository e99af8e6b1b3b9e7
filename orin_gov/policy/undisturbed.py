"""A decider that learns only from undisturbed windows, and goes lower where it is too hot."""

from collections.abc import Sequence
from dataclasses import replace

from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.governor import Governor
from orin_gov.policy.saving import Expected
from orin_gov.policy.window import Window

LONGEST_REST = 16
"""Windows at the lower clock before the other is tried again: 1, 2, 4 ... and at last so many."""


class Undisturbed:
    """Passes undisturbed windows on to `decider`; what it asked for is asked again after others.

    Where a window at a clock of ours was disturbed, the next ones are run at a lower clock: at most
    the one that was reached, which is the cap's. Thread-safety: none.
    """

    def __init__(self, decider: Decider, points_hz: Sequence[int]) -> None:
        self._decider = decider
        self._points = tuple(points_hz)
        self._asked = decider.first()
        self._rest = self._left = 0
        self._lower_hz: int | None = None

    def first(self) -> Decision:
        """What the decider asks for first."""
        self._asked = self._decider.first()
        return self._asked

    def outcome(self, window: Window) -> Outcome:
        """How the window compares."""
        return self._decider.outcome(window)

    def fall_back(self) -> None:
        """Pass it on."""
        self._decider.fall_back()
        self._asked = Decision(State.FALLBACK, None, "the board was left to its own governor")
        self._lower_hz = None

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Pass it on."""
        self._points = tuple(points_hz)
        self._lower_hz = None
        self._asked = self._decider.set_points(points_hz, told, advise)
        return self._asked

    def believed_top(self) -> Expected | None:
        """What the governor believes of its highest operating point, where there is a governor."""
        return self._decider.believed_top() if isinstance(self._decider, Governor) else None

    def decide(self, window: Window) -> Decision:
        """Return what to do next, given the window measured under the last decision."""
        if window.disturbed and self._asked.state not in (State.WARMUP, State.FALLBACK):
            return self._after_disturbed(window, f"{window.disturbed}; the window does not count")
        if self._lower_hz is not None:
            return self._at_rest(self._lower_hz)
        self._asked = self._decider.decide(window)
        self._rest = self._rest if window.target_hz is None else 0
        return self._asked

    def _after_disturbed(self, window: Window, told: str) -> Decision:
        target_hz = self._asked.target_hz
        if target_hz is None or window.target_hz is None:
            return replace(self._asked, reason=f"{told}, measured once more")
        if self._lower_hz is not None:
            return self._go_to(self._lower_hz, f"{told}; staying lower")
        self._rest = min(2 * self._rest or 1, LONGEST_REST)
        self._left = self._rest
        reached_hz = window.frequency_hz or target_hz
        lower = [hz for hz in self._points if hz < target_hz and hz <= reached_hz]
        self._lower_hz = lower[-1] if lower else self._points[0]
        return self._go_to(self._lower_hz, f"{told}; going lower")

    def _at_rest(self, lower_hz: int) -> Decision:
        """A window without disturbance at the lower clock: its result was not asked for."""
        self._left -= 1
        if self._left > 0:
            return self._go_to(lower_hz, f"undisturbed; {self._left} more windows lower")
        self._lower_hz = None
        return replace(self._asked, reason="undisturbed again; back")

    def _go_to(self, target_hz: int, reason: str) -> Decision:
        return Decision(self._asked.state, target_hz, reason)
