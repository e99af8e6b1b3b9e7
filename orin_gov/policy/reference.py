"""The reference: what the baseline took, as a law of the work in a step.

Time and energy per step are lines in the work, fitted on the baseline's own steps, so that short and
long sentences look like neither savings nor slowdowns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from orin_gov.policy.line import NO_STEPS, Sums, line_through, sums_of
from orin_gov.policy.window import StepSample, Window


class StepSums(NamedTuple):
    """Of the steps of a window: the sums of their times over their work, and of their energies.

    None: one of the energies was not measured.
    """

    time: Sums
    energy: Sums | None


@dataclass
class Reference:
    """Baseline windows and the laws fitted on them; nothing but `add` changes it."""

    windows: list[Window] = field(default_factory=list)
    _time: Sums = NO_STEPS
    _energy: Sums = NO_STEPS

    def add(self, window: Window) -> None:
        """Add a baseline window; one without work teaches nothing and is left out."""
        if not window.work:
            return
        self.windows.append(window)
        sums = step_sums(window)
        self._time = self._time.and_of(sums.time)
        if sums.energy is not None:
            self._energy = self._energy.and_of(sums.energy)

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


def step_sums(window: Window) -> StepSums:
    """Return the sums over the window's steps; no energies where one is missing: it may be the
    dearest."""
    samples = samples_of(window)
    works = [each.work for each in samples]
    energies = [each.energy_j for each in samples if each.energy_j is not None]
    known = len(energies) == len(works)
    times = sums_of(works, [each.time_s for each in samples])
    return StepSums(times, sums_of(works, energies) if known else None)


def _mean_error(errors: Sequence[float]) -> float:
    return float(np.hypot.reduce(errors)) / len(errors) if errors else 0.0


def _ratio(value: float | None, sums: Sums, window: Window) -> float | None:
    if value is None or not window.work or not sums.n:
        return None
    expected = line_through(sums).of(window.steps, window.work)
    return value / expected if expected else None
