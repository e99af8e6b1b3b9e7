"""The saving and its confidence interval: governed windows against baseline windows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from orin_gov.policy.reference import Reference
from orin_gov.policy.window import Window

CONFIDENCE = 0.95
DRAWS = 400_000


@dataclass(frozen=True)
class Change:
    """A relative change against the baseline (-0.12 is 12 % less) with its 95 % interval."""

    value: float
    low: float
    high: float
    n_governed: int
    n_baseline: int


def change(governed: Sequence[float], baseline: Sequence[float]) -> Change | None:
    """Compare two samples of a positive quantity per unit of work, one value a window.

    Welch's interval on the difference of mean logarithms, so that a ratio is what is compared.
    Returns None with fewer than two values on either side: they carry no interval.
    """
    if min(len(governed), len(baseline)) < 2:
        return None
    a, b = np.log(np.asarray(governed)), np.log(np.asarray(baseline))
    var_a, var_b = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    spread = var_a + var_b
    half = 0.0
    if spread > 0:
        freedom = spread**2 / (var_a**2 / (len(a) - 1) + var_b**2 / (len(b) - 1))
        half = _t_quantile(float(freedom)) * math.sqrt(spread)
    difference = float(a.mean() - b.mean())
    return Change(
        value=math.expm1(difference),
        low=math.expm1(difference - half),
        high=math.expm1(difference + half),
        n_governed=len(a),
        n_baseline=len(b),
    )


def _t_quantile(freedom: float) -> float:
    # Drawn rather than computed: numpy has no t quantile, and SciPy is much for one line.
    draws = np.random.default_rng(0).standard_t(freedom, DRAWS)
    return float(np.quantile(np.abs(draws), CONFIDENCE))


def relative_to_baseline(
    governed: Sequence[Window], baseline: Sequence[Window]
) -> tuple[Change | None, Change | None]:
    """Return the change of energy and of time, each window against all baseline windows."""
    counted = [window for window in baseline if window.work]
    reference = Reference(counted[:-1])  # fitted once, with the last: a day has many
    for window in counted[-1:]:
        reference.add(window)
    energy, time = (
        change(_known(map(of, governed)), _known(map(of, baseline)))
        for of in (reference.relative_energy, reference.relative_time)
    )
    return energy, time


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and value > 0]
