"""A line in the work, by least squares: what a step takes, from sums that add up.

Time and energy of a step have a part that is the same for every step (optimizer, launches) and one
that grows with its tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

import numpy as np


class Sums(NamedTuple):
    """All that a line needs of many steps: x is their work, y what they took of time or energy."""

    n: float
    x: float
    y: float
    xx: float
    xy: float

    def and_of(self, other: "Sums") -> "Sums":
        """Return the sums of these steps and the others."""
        return Sums(*map(add, self, other))


NO_STEPS = Sums(0.0, 0.0, 0.0, 0.0, 0.0)


def sums_of(works: Sequence[float], values: Sequence[float]) -> Sums:
    """Return the sums of steps given by their works and what each took."""
    x, y = np.asarray(works, dtype=float), np.asarray(values, dtype=float)
    return Sums(len(x), float(x.sum()), float(y.sum()), float(x @ x), float(x @ y))


@dataclass(frozen=True)
class Line:
    """A quantity of `steps` steps that did `work`: per_step * steps + per_unit * work."""

    per_step: float
    per_unit: float

    def of(self, steps: int, work: float) -> float:
        """Return what the line expects of so many steps that did so much work."""
        return self.per_step * steps + self.per_unit * work


def line_through(sums: Sums) -> Line:
    """Fit a line by least squares, with neither part negative.

    Between constant and proportional, then: outside the works seen, neither runs away.
    """
    n, x, y, xx, xy = sums
    if x <= 0:
        return Line(y / n, 0.0)  # no work to be told apart by
    spread = xx - x * x / n
    # What is left of a difference of two sums is no spread where it is as small as their rounding.
    if spread <= 1e-12 * xx:
        return Line(0.0, y / x)  # all alike: nothing tells the parts apart
    slope = (xy - x * y / n) / spread
    if slope < 0:
        return Line(y / n, 0.0)
    per_step = (y - slope * x) / n
    if per_step < 0:
        return Line(0.0, xy / xx)
    return Line(per_step, slope)


def relative_error(works: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the standard error of the mean value about its line, as a share of that mean."""
    line = line_through(sums_of(works, values))
    freedom = len(works) - (2 if line.per_step and line.per_unit else 1)
    if freedom < 1:
        return None
    x, y = np.asarray(works, dtype=float), np.asarray(values, dtype=float)
    residual = y - line.per_step - line.per_unit * x
    return float(np.sqrt(residual @ residual / freedom / len(y)) / y.mean())
