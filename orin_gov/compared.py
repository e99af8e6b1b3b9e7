"""Of the windows at one operating point what the saving compares, in memory that does not grow.

Numbers in one table: a window as an object takes ten times as much, and objects that stay, made
among others that go, leave holes in the heap of a run that lasts for days.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from orin_gov.measured import known
from orin_gov.policy.line import NO_STEPS, Sums
from orin_gov.policy.reference import step_sums
from orin_gov.policy.saving import TWO_RAILS
from orin_gov.policy.window import StepSums, Window

MOST_WINDOWS = 250
"""Windows kept for the comparison at each operating point; where there are more, neighbours become
one, as if the decision epoch had been twice as long."""

Rows = npt.NDArray[np.void]

NUMBERS = {
    "start_ns": "i8",
    "end_ns": "i8",
    "duration_s": "f8",
    "steps": "i8",
    "work": "f8",
    "energy_j": "f8",
}
ROW = np.dtype(
    [
        *NUMBERS.items(),
        ("rails_j", "f8", len(TWO_RAILS)),
        ("time", "f8", len(NO_STEPS)),
        ("energy", "f8", len(NO_STEPS)),
    ]
)
"""A window in numbers: as a Window has them, and the sums over its steps; NaN stands for None."""

SUMMED = ("duration_s", "steps", "work", "energy_j", "rails_j", "time", "energy")


class Series:
    """The windows at one operating point: all of them, or neighbours joined, two, four, ... to one.

    All stand for as many, so that they scatter alike: the saving's interval rests on that.
    Thread-safety: one thread adds, any may ask.
    """

    def __init__(self, unit: str, target_hz: int | None) -> None:
        self.count = 0
        self._unit, self._target_hz = unit, target_hz
        self._table = np.zeros(MOST_WINDOWS, ROW)
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
        row = _row(window)
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
        time: list[float],
        energy: list[float],
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
            sums=StepSums(Sums(*time), None if math.isnan(energy[0]) else Sums(*energy)),
        )


def _row(window: Window) -> Rows:
    numbers = [_number(getattr(window, name)) for name in NUMBERS]
    rails_j = [_number(window.rail_energy_j.get(rail)) for rail in TWO_RAILS]
    sums = step_sums(window)
    return np.array((*numbers, rails_j, sums.time, sums.energy or [math.nan] * len(NO_STEPS)), ROW)


def _joined(first: Any, second: Any) -> Rows:
    """Return two windows at one operating point as one; what one of them lacks is missing."""
    joined = np.array(first)
    joined["end_ns"] = second["end_ns"]
    for name in SUMMED:
        joined[name] += second[name]
    return joined


def _number(value: float | None) -> float:
    return math.nan if value is None else value
