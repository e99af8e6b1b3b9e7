"""A decider that decides the same all along: what others are compared with."""

from collections.abc import Sequence

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window


class Pinned:
    """Stays at one operating point, or with None under the board's own governor."""

    def __init__(self, target_hz: int | None) -> None:
        state = State.BASELINE if target_hz is None else State.SWEEP
        self._decision = Decision(state, target_hz, "pinned")

    def first(self) -> Decision:
        """The operating point."""
        return self._decision

    def outcome(self, window: Window) -> Outcome:
        """Nothing: there is no baseline."""
        return Outcome(None, None, None)

    def decide(self, window: Window) -> Decision:
        """The operating point."""
        return self._decision

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """The operating point, whatever others there are."""
        return self._decision

    def fall_back(self) -> None:
        """Nothing: there is nothing else to decide."""
