"""Of the windows at one operating point what the saving compares, in memory that does not grow.

Numbers in one table: a window as an object takes ten times as much, and objects that stay, made
among others that go, leave holes in the heap of a run that lasts for days.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from orin_gov.measured import known
from orin_gov.policy.saving import TWO_RAILS
from orin_gov.policy.window import StepSample, Window

MOST_WINDOWS = 250
"""Windows kept for the comparison at each operating point; where there are more, neighbours become
one, as if the decision epoch had been twice as long."""

MOST_SAMPLES = 20
"""Steps kept of such a window: they tell how time and energy grow with the work."""

Rows = npt.NDArray[np.void]

NUMBERS = ("start_ns", "end_ns", "duration_s", "steps", "work", "energy_j")
SUMMED = ("duration_s", "steps", "work", "energy_j", "rails_j")


class Series:
    """The windows at one operating point: all of them, or neighbours joined, two, four, ... to one.

    All stand for as many, so that they scatter alike: the saving's interval rests on that.
    Thread-safety: one thread adds, any may ask.
    """

    def __init__(self, unit: str, target_hz: int | None) -> None:
        self.count = 0
        self._unit, self._target_hz = unit, target_hz
        self._table = _table(MOST_SAMPLES if target_hz is None else 0)
        self._kept = self._table[:0]
        self._stands_for = 1
        self._in_last = 0

    @property
    def windows(self) -> list[Window]:
        """The windows in order of time, without what the saving does not compare."""
        return [self._window(*numbers) for numbers in self._kept.tolist()]

    def add(self, window: Window) -> None:
        """Add a window, in order of time."""
        self.count += 1
        row = _row(window, self._table.dtype)
        if len(self._kept) and self._in_last < self._stands_for:
            self._kept[-1] = _joined(self._kept[-1], row)
            self._in_last += 1
            return
        if len(self._kept) == len(self._table):
            self._halve()
        count = len(self._kept)
        self._table[count] = row
        self._kept = self._table[: count + 1]
        self._in_last = 1

    def _halve(self) -> None:
        """Make one of every two neighbours, in a table of its own: the old one may be read."""
        pairs = list(zip(self._kept[::2], self._kept[1::2], strict=True))
        self._table = np.zeros_like(self._table)
        for at, pair in enumerate(pairs):
            self._table[at] = _joined(*pair)
        self._kept = self._table[: len(pairs)]
        self._stands_for *= 2

    def _window(
        self,
        start_ns: int,
        end_ns: int,
        duration_s: float,
        steps: int,
        work: float,
        energy_j: float,
        rails_j: list[float],
        samples: list[list[float]],
    ) -> Window:
        return Window(
            start_ns=start_ns,
            end_ns=end_ns,
            duration_s=duration_s,
            target_hz=self._target_hz,
            steps=steps,
            work=known(work),
            unit=self._unit,
            energy_j=known(energy_j),
            rail_energy_j=dict(zip(TWO_RAILS, map(known, rails_j), strict=True)),
            samples=[StepSample(w, t, known(j)) for w, t, j in samples if not math.isnan(w)],
        )


def _table(samples: int) -> Rows:
    """Return a table of rows, each with room for so many steps; NaN stands for None."""
    kinds = {name: "i8" if name in ("start_ns", "end_ns", "steps") else "f8" for name in NUMBERS}
    arrays: list[Any] = [("rails_j", "f8", len(TWO_RAILS)), ("samples", "f8", (samples, 3))]
    return np.zeros(MOST_WINDOWS, np.dtype([*kinds.items(), *arrays]))


def _row(window: Window, like: np.dtype[np.void]) -> Rows:
    numbers = [_number(getattr(window, name)) for name in NUMBERS]
    rails_j = [_number(window.rail_energy_j.get(rail)) for rail in TWO_RAILS]
    steps = ((each.work, each.time_s, _number(each.energy_j)) for each in window.samples)
    return np.array((*numbers, rails_j, _thinned(steps, like)), like)


def _joined(first: Any, second: Any) -> Rows:
    """Return two windows at one operating point as one; what one of them lacks is missing."""
    joined = np.array(first)
    joined["end_ns"] = second["end_ns"]
    for name in SUMMED:
        joined[name] += second[name]
    steps = [*first["samples"], *second["samples"]]
    joined["samples"] = _thinned((each for each in steps if not math.isnan(each[0])), joined.dtype)
    return joined


def _thinned(steps: Iterable[Any], like: np.dtype[np.void]) -> npt.NDArray[np.float64]:
    """Return some of the steps, evenly chosen, and NaN for those there are fewer."""
    found = np.full(like["samples"].shape, math.nan)
    if len(found):
        every = list(steps)
        chosen = every[:: max(1, -(-len(every) // len(found)))]
        found[: len(chosen)] = chosen or math.nan
    return found


def _number(value: float | None) -> float:
    return math.nan if value is None else value
