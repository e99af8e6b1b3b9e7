"""How much of a run recurring baseline windows may take, and when the next one is due."""

from orin_gov.errors import UsageError
from orin_gov.policy.window import Window

BASELINE_SHARE = 0.05
"""The share of steps that recurring baseline windows take, at most."""

MOST_SHARE = 0.5

PRECISE, PRECISE_SHARE = 0.003, 0.2
"""Once the gain is known to this standard error and the machine is steady, so much of it is enough."""


class Upkeep:
    """The steps owed to baseline windows. Not thread-safe.

    Raises:
        UsageError: the share is no share, or leaves less than half of the run to be governed.
    """

    def __init__(self, share: float) -> None:
        if not 0 <= share <= MOST_SHARE:
            raise UsageError(
                f"the share of baseline windows is {share:.3g}, expected 0 to {MOST_SHARE} (50 %)"
            )
        self._share = share
        self._owed = 0.0

    def add(self, window: Window, gain_error: float | None) -> None:
        """Take in a governed window; `gain_error` is how well the gain is known, None if hardly."""
        precise = gain_error is not None and gain_error < PRECISE
        self._owed += self._share * (PRECISE_SHARE if precise else 1.0) * size_of(window)

    def pay(self, window: Window) -> None:
        """Take in a baseline window."""
        self._owed = max(self._owed - size_of(window), 0.0)

    def demand(self, window: Window) -> None:
        """Owe at least a baseline window such as this."""
        self._owed = max(self._owed, size_of(window))

    def is_due(self, window: Window) -> bool:
        """Tell whether a baseline window such as this is due."""
        return self._owed >= size_of(window)


def size_of(window: Window) -> float:
    """How much of the run a window is: in steps, or in seconds where none are seen."""
    return window.steps or window.duration_s
