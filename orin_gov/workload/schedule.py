"""When to count a step: early, then so rarely that counting costs next to nothing."""

import math
from collections import deque
from statistics import median

FIRST = 3
"""The first step counted; those before it warm up."""

EVERY = 500
"""Steps between two counts, at least."""

COST = 0.002
"""The share of the run time that counting may cost."""

OTHER_SHAPE = 1.5
"""Work per step that has grown or shrunk so much since the last count calls for another one."""

RECENT = 16
"""Work and time of a step are medians over so many: their lengths vary from batch to batch."""


class Schedule:
    """Told of every step's end, it says whether the next one is to be counted.

    The first count is made on credit: it repays within `interval` steps. Thread-safety: none.
    """

    def __init__(self) -> None:
        self._busy_s: deque[float] = deque(maxlen=RECENT)
        self._work: deque[float] = deque(maxlen=RECENT)
        self._steps = 0
        self._counted_at: int | None = None
        self._counted_work = self._counted_s = 0.0
        self._least_extra_s = 0.0

    def end_step(self, busy_s: float, work: float, extra_s: float | None) -> bool:
        """Take in a step's time in its phases and its work (0: unknown); say whether to count.

        `extra_s` is what counting added to it at least, None where it was not counted.
        """
        self._steps += 1
        if extra_s is None:
            self._busy_s.append(busy_s)
            self._work.append(work)
        else:
            self._counted_at, self._counted_work = self._steps, work
            self._counted_s, self._least_extra_s = busy_s, extra_s
            self._work.clear()
        return self._is_due()

    @property
    def extra_s(self) -> float:
        """What the last count has cost, as told by the steps around it, or by itself if more."""
        if not self._busy_s or not self._least_extra_s:
            return self._least_extra_s
        return max(self._least_extra_s, self._counted_s - median(self._busy_s))

    @property
    def interval(self) -> int:
        """Steps after which the last count's extra time is within its share of the run's."""
        usual_s = median(self._busy_s) if self._busy_s else 0.0
        return math.ceil(self.extra_s / (COST * usual_s)) if usual_s > 0 else EVERY

    def _is_due(self) -> bool:
        if self._counted_at is None:
            return self._steps >= FIRST - 1
        since = self._steps + 1 - self._counted_at  # as the next step ends
        least = self.interval
        return since >= max(EVERY, least) or (since >= least and self._has_another_shape())

    def _has_another_shape(self) -> bool:
        if len(self._work) < RECENT or not self._counted_work:
            return False
        ratio = median(self._work) / self._counted_work
        return not 1 / OTHER_SHAPE <= ratio <= OTHER_SHAPE
