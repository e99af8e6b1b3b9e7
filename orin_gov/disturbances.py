"""Which windows heat or over-current has touched: looked for once a second, told window by window.

The counters of over-current move in batches, about 2 s after the events: what is seen at one look
happened since 2 s before the last one. A window that has ended by then is told of late.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.gpu import Gpu
from orin_gov.board.throttling import Throttling

LOOK_NS = 1_000_000_000
PUBLISHED_NS = 2_000_000_000
"""How late an event may show in its counter."""

REMEMBERED = 4096
CHRONIC = 5
"""So many windows in a row with events: they are this board's normal state under this load."""


@dataclass(frozen=True)
class Disturbance:
    """What slowed the board between two moments of CLOCK_MONOTONIC."""

    begin_ns: int
    end_ns: int
    told: str
    heat: bool


class Disturbances:
    """What has slowed the board so far. Thread-safety: none; the engine's thread owns it."""

    def __init__(self, root: Path, gpu: Gpu | None, now_ns: int) -> None:
        self._throttling = Throttling(root, gpu)
        self._looked_ns = now_ns
        self._found: deque[Disturbance] = deque(maxlen=REMEMBERED)
        self._in_a_row = 0
        self._chronic = False

    def look(self, now_ns: int) -> None:
        """Look, where the last look was a second ago."""
        if now_ns - self._looked_ns < LOOK_NS:
            return
        since_ns, self._looked_ns = self._looked_ns, now_ns
        if heat := self._throttling.heat():
            self._found.append(Disturbance(since_ns, now_ns, heat, True))
        if events := self._throttling.events():
            told = ", ".join(f"{name.upper()} {count}" for name, count in events.items())
            begin_ns = since_ns - PUBLISHED_NS
            self._found.append(Disturbance(begin_ns, now_ns, f"over-current events: {told}", False))

    def within(self, begin_ns: int, end_ns: int) -> str | None:
        """Return in words what touched the window, or None."""
        for each in self._found:
            touched = each.begin_ns < end_ns and begin_ns < each.end_ns
            if touched and (each.heat or not self._chronic):
                return each.told
        return None

    def judge(self, told: str | None) -> str | None:
        """Count windows in a row that were `told` of; return a warning once they are the rule.

        A board whose over-current protection acts all the time would never be governed else.
        """
        self._in_a_row = 0 if told is None else self._in_a_row + 1
        if self._chronic or told is None or self._in_a_row < CHRONIC or self._is_hot():
            return None
        self._chronic = True
        return f"{told}, in every window: from here on they count as this board's normal state"

    def _is_hot(self) -> bool:
        return any(each.heat for each in list(self._found)[-CHRONIC:])
