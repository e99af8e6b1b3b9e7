"""The reference: what the baseline took, as a law of the work in a step.

A step has a part that is the same for every step (optimizer, launches) and one that grows with its
tokens. Time and energy per step are lines in the work, fitted on the baseline's own steps, so that
short and long sentences look like neither savings nor slowdowns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from orin_gov.policy.window import StepSample, Window


@dataclass(frozen=True)
class Line:
    """A quantity of `steps` steps that did `work`: per_step * steps + per_unit * work."""

    per_step: float
    per_unit: float

    def of(self, window: Window) -> float | None:
        """Return what the line expects of the window, or None where its work is not known."""
        if not window.work:
            return None
        return self.per_step * window.steps + self.per_unit * window.work


def fit_line(works: Sequence[float], values: Sequence[float]) -> Line:
    """Fit values to works by least squares, with neither part negative.

    Between constant and proportional, then: outside the works seen, neither runs away.
    """
    x, y = np.asarray(works, dtype=float), np.asarray(values, dtype=float)
    dx = x - x.mean()
    spread = float(dx @ dx)
    if spread <= 1e-12 * float(x @ x):
        return Line(0.0, float(y.sum() / x.sum()))  # all alike: nothing tells the parts apart
    slope = float(dx @ y) / spread
    if slope < 0:
        return Line(float(y.mean()), 0.0)
    per_step = float(y.mean()) - slope * float(x.mean())
    if per_step < 0:
        return Line(0.0, float((x @ y) / (x @ x)))
    return Line(per_step, slope)


def relative_error(works: Sequence[float], times_s: Sequence[float]) -> float | None:
    """Return the standard error of the mean step time about its line, as a share of that mean."""
    line = fit_line(works, times_s)
    freedom = len(works) - (2 if line.per_step and line.per_unit else 1)
    if freedom < 1:
        return None
    x, y = np.asarray(works, dtype=float), np.asarray(times_s, dtype=float)
    residual = y - line.per_step - line.per_unit * x
    return float(np.sqrt(residual @ residual / freedom / len(y)) / y.mean())


@dataclass
class Reference:
    """Baseline windows and the laws fitted on them; nothing but `add` changes it."""

    windows: list[Window] = field(default_factory=list)
    _time: Line | None = None
    _energy: Line | None = None

    def add(self, window: Window) -> None:
        """Add a baseline window; one without work teaches nothing and is left out."""
        if not window.work:
            return
        self.windows.append(window)
        samples = [sample for each in self.windows for sample in samples_of(each)]
        self._time = fit_line([each.work for each in samples], [each.time_s for each in samples])
        measured = [pair for each in self.windows for pair in _energies(each)]
        self._energy = fit_line(*zip(*measured, strict=True)) if measured else None

    def relative_time(self, window: Window) -> float | None:
        """Return the window's time against what the reference expects (1 = as in the baseline)."""
        return _ratio(window.duration_s, self._time, window)

    def relative_energy(self, window: Window) -> float | None:
        """Return the window's energy against what the reference expects; None where missing."""
        return _ratio(window.energy_j, self._energy, window)

    @property
    def noise(self) -> float:
        """Relative standard error of the reference's time."""
        return _mean_error([window.noise or 0.0 for window in self.windows])

    @property
    def spread(self) -> float:
        """How much the baseline's windows differ among themselves: standard deviation, relative."""
        ratios = [self.relative_time(window) or 1.0 for window in self.windows]
        return float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0

    @property
    def coarseness(self) -> float:
        """Relative standard error of the reference's energy, from the sensors' resolution."""
        return _mean_error([window.coarseness or 0.0 for window in self.windows])


def samples_of(window: Window) -> Sequence[StepSample]:
    """Return the window's steps; where they were not seen one by one, their mean."""
    if window.samples:
        return window.samples
    n = max(1, window.steps)
    energy_j = None if window.energy_j is None else window.energy_j / n
    return [StepSample((window.work or 0.0) / n, window.duration_s / n, energy_j)]


def _energies(window: Window) -> list[tuple[float, float]]:
    """Work and joules of the window's steps; none where one is missing: it may be the dearest."""
    pairs = [(each.work, each.energy_j) for each in samples_of(window)]
    known = [(work, joules) for work, joules in pairs if joules is not None]
    return known if len(known) == len(pairs) else []


def _mean_error(errors: Sequence[float]) -> float:
    return float(np.hypot.reduce(errors)) / len(errors) if errors else 0.0


def _ratio(value: float | None, line: Line | None, window: Window) -> float | None:
    expected = None if line is None else line.of(window)
    return value / expected if value is not None and expected else None
