"""Bayesian optimisation of the clock, as the Jetson papers do it: a rival for the bench."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench._rival import Search, Trial
from orin_gov.policy.window import Window

_FIRST = (1.0, 0.5, 0.0)
"""Where in the table the first points lie; a model takes three."""

_MOST = 7
_LEAST_GAIN = 0.0003
"""It ends after so many points, or where no more than such a gain is to be expected."""

_WINDOW_NOISE = 0.005
"""Standard deviation of a window's energy against the baseline, as the deciders' windows scatter."""

_LENGTH = 0.25
"""Over which share of the top clock the curve bends: too few points are measured to learn it. Both
are what serves this rival best among 0.15 to 0.7 and 0.0003 to 0.001 on the measured grid."""

Floats = npt.NDArray[np.float64]


def bayesian_optimisation(
    points_hz: Sequence[int], baseline: Sequence[Window], max_slowdown: float
) -> Search:
    """Gaussian process and expected improvement, times the probability of keeping the budget.

    After BoFL (Middleware '22) and PolyThrottle (arXiv 2310.19991: constrained, few samples); their
    code is not public, kernel (Matern 5/2) and stopping are ours.
    """
    x = np.array(points_hz, dtype=float) / points_hz[-1]
    trials: dict[int, Trial] = {}
    last = len(points_hz) - 1
    for place in dict.fromkeys(round(share * last) for share in _FIRST):
        trials[place] = yield points_hz[place]
    while len(trials) < min(_MOST, len(points_hz)):
        gain = _expected_gain(x, trials, max_slowdown)
        gain[list(trials)] = 0.0
        if gain.max() < _LEAST_GAIN:
            break
        place = int(gain.argmax())
        trials[place] = yield points_hz[place]
    return points_hz[min(trials, key=lambda index: trials[index].value)]


def _expected_gain(x: Floats, trials: dict[int, Trial], max_slowdown: float) -> Floats:
    """Expected improvement at each point under the budget."""
    kept = [trial.objective for trial in trials.values() if trial.slowdown <= max_slowdown]
    mean, deviation = _model(x, {i: trial.objective for i, trial in trials.items()})
    best = min(kept, default=float(mean.max()))
    z = (best - mean) / deviation
    gain = (best - mean) * _normal_cdf(z) + deviation * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    slow, slow_deviation = _model(x, {i: trial.slowdown for i, trial in trials.items()})
    return np.asarray(gain * _normal_cdf((max_slowdown - slow) / slow_deviation))


def _model(x: Floats, known: dict[int, float]) -> tuple[Floats, Floats]:
    """Mean and standard deviation at each x of a Gaussian process through what is known."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern

    values = np.array(list(known.values()))
    scale = max(float(values.std()), _WINDOW_NOISE)
    process: Any = GaussianProcessRegressor(
        Matern(_LENGTH, nu=2.5), alpha=(_WINDOW_NOISE / scale) ** 2, optimizer=None
    )
    process.fit(x[list(known), None], (values - values.mean()) / scale)
    mean, deviation = process.predict(x[:, None], return_std=True)
    return mean * scale + values.mean(), np.maximum(deviation * scale, 1e-9)


def _normal_cdf(z: Floats) -> Floats:
    return np.array([0.5 * (1 + math.erf(each / math.sqrt(2))) for each in z])
