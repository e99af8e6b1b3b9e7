"""What a run asks from window to window: the governor, or anything that decides in its place."""

from collections.abc import Sequence
from typing import Protocol

from orin_gov.policy.decision import Decision, Outcome
from orin_gov.policy.window import Window


class Decider(Protocol):
    """Decides each window's operating point. orin_gov.policy.governor.Governor is one."""

    def first(self) -> Decision:
        """What the first window is measured at."""

    def outcome(self, window: Window) -> Outcome:
        """How a window compares with the baseline."""

    def decide(self, window: Window) -> Decision:
        """What the next window is measured at."""

    def fall_back(self) -> None:
        """Be told that the board was left to its own governor for good."""

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Be told that the operating points have changed, and why; what to do instead."""
