"""Falling back: after promises missed, the board's own governor has it for a while."""

MISSES_ALLOWED = 2
FALLBACK_WINDOWS = 20
"""After a fallback the governor tries again after so many windows, then twice as many, ..."""


class Fallback:
    """Counts the misses in a row, and the windows to sit out. Not thread-safe."""

    def __init__(self) -> None:
        self._misses = self._before = self._left = 0

    def missed(self) -> bool:
        """Count a miss; tell whether it is one too many, and from now on is sat out."""
        self._misses += 1
        if self._misses < MISSES_ALLOWED:
            return False
        self._left = FALLBACK_WINDOWS << min(self._before, 16)
        self._before += 1
        return True

    def kept(self) -> None:
        """A promise was kept."""
        self._misses = 0

    def for_good(self) -> None:
        """Never try again."""
        self._left = -1

    def sit_out(self) -> str | None:
        """Let a window pass; return in words what is waited for, None where it is over."""
        if self._left < 0:
            return "the board's own governor to the end"
        self._left -= 1
        if self._left > 0:
            return f"{self._left} windows until the next try"
        self._misses = 0
        return None
