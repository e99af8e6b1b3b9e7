"""Falling back: after promises missed, the board's own governor has it for a while."""

from orin_gov.policy.decision import Decision, State

MISSES_ALLOWED = 2
FALLBACK_WINDOWS = 20
"""After a fallback the governor tries again after so many windows, then twice as many, ..."""


class Fallback:
    """Counts the misses in a row, and the windows to sit out. Not thread-safe."""

    def __init__(self) -> None:
        self._misses = self._before = self._left = 0

    def missed(self, told: str) -> Decision | None:
        """Count a miss; return the fallback where it is one too many, from now on sat out."""
        self._misses += 1
        if self._misses < MISSES_ALLOWED:
            return None
        self._left = FALLBACK_WINDOWS << min(self._before, 16)
        self._before += 1
        return _fallback(f"{told}; missed twice, falling back")

    def kept(self) -> None:
        """A promise was kept."""
        self._misses = 0

    def for_good(self) -> None:
        """Never try again."""
        self._left = -1

    def sit_out(self) -> Decision | None:
        """Let a window pass; return what is waited for, None where it is over."""
        if self._left < 0:
            return _fallback("the board's own governor to the end")
        self._left -= 1
        if self._left > 0:
            return _fallback(f"{self._left} windows until the next try")
        self._misses = 0
        return None


def _fallback(told: str) -> Decision:
    return Decision(State.FALLBACK, None, told)
