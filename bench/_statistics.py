"""Figures from many values: means and quantiles with bootstrap intervals (seeded)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from bench._figures import RESAMPLES, Figure

Floats = npt.NDArray[np.float64]


def mean_figure(
    name: str, values: Iterable[float], unit: str = "%", bar: str | None = None
) -> Figure:
    """The mean of `values` with its 95 % bootstrap interval (seeded)."""
    data = np.asarray(list(values), dtype=float)
    picks = np.random.default_rng(0).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(data[picks].mean(axis=1), (0.025, 0.975))
    return Figure(name, float(data.mean()), unit, len(data), (float(low), float(high)), bar)


def quantile_figure(
    name: str, values: Iterable[float], share: float, unit: str, bar: str | None = None
) -> Figure:
    """A quantile of `values` with its 95 % bootstrap interval (seeded)."""
    data = np.asarray(list(values), dtype=float)
    rng = np.random.default_rng(0)
    found = [np.quantile(data[rng.integers(0, len(data), len(data))], share) for _ in range(500)]
    low, high = np.quantile(found, (0.025, 0.975))
    value = float(np.quantile(data, share))
    return Figure(name, value, unit, len(data), (float(low), float(high)), bar)


def worst_figure(
    name: str, jobs: Sequence[str], values: Sequence[float], unit: str = "%", bar: str | None = None
) -> Figure:
    """The worst job's mean over its seeds; the interval is over seeds (bootstrap, seeded)."""
    of = _of_jobs(jobs, values)
    rng = np.random.default_rng(0)
    means = [
        each[rng.integers(0, len(each), (2000, len(each)))].mean(axis=1) for each in of.values()
    ]
    low, high = np.quantile(np.max(means, axis=0), (0.025, 0.975))
    worst = max(float(each.mean()) for each in of.values())
    return Figure(name, worst, unit, len(values), (float(low), float(high)), bar)


def by_job(names: Sequence[str], values: Sequence[float]) -> list[float]:
    """The mean of each job's values: its seeds are no jobs of their own."""
    return [float(each.mean()) for each in _of_jobs(names, values).values()]


def _of_jobs(names: Sequence[str], values: Sequence[float]) -> dict[str, Floats]:
    of = defaultdict(list)
    for name, value in zip(names, values, strict=True):
        of[name].append(value)
    return {name: np.array(each) for name, each in of.items()}
