"""Figures from many values: means and quantiles with bootstrap intervals (seeded)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from bench._figures import RESAMPLES, Figure


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


def by_job(names: Sequence[str], values: Sequence[float]) -> list[float]:
    """The mean of each job's values: its seeds are no jobs of their own."""
    of = defaultdict(list)
    for name, value in zip(names, values, strict=True):
        of[name].append(value)
    return [float(np.mean(each)) for each in of.values()]
