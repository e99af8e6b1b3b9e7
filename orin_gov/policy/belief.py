"""The belief: a policy's expectation, corrected by what the windows of this run have measured.

Energy and time at every operating point are jointly normal, in logarithms against the baseline
(see answer.py). Workloads deviate from a leaf of the tree in few ways, so a window at one operating
point tells of the others as well. Two numbers more say how far the machine itself has moved since
the reference was frozen, as a random walk: baseline windows measure them alone, all others with
their point. This is the Kalman filter of that model.
"""

import math
from dataclasses import dataclass

import numpy as np

from orin_gov.policy.answer import Answer, Floats, Prior

STEADY_WALK = 0.0005
"""By how much a steady machine moves from window to window (standard deviation, relative)."""

GUESS, GUESS_STEPS = 0.01, 2.0


class Belief:
    """Means and covariance of energy and time at `n` operating points, and of the machine's walk.

    Not thread-safe.
    """

    def __init__(self, prior: Prior, reference_error: float) -> None:
        n = len(prior.answer.energy)
        self._n = n
        self._mean = np.concatenate([prior.answer.joined, np.zeros(2)])
        self._cov = np.zeros((2 * n + 2, 2 * n + 2))
        self._cov[: 2 * n, : 2 * n] = prior.deviations.T @ prior.deviations
        self._cov[: 2 * n, : 2 * n] += prior.rest**2 * np.eye(2 * n)
        self._cov[2 * n :, 2 * n :] = reference_error**2 * np.eye(2)

    def pass_window(self, walk: float = STEADY_WALK) -> None:
        """Let a window pass, in which the machine may have moved by `walk`."""
        # What slows the machine costs it energy as well, so both move largely as one.
        self._cov[-2:, -2:] += walk**2 * np.array([[1.0, 0.8], [0.8, 1.0]])

    def observe(
        self,
        point: int | None,
        energy: float | None,
        time: float | None,
        energy_error: float,
        time_error: float,
    ) -> float:
        """Take in a window's log ratios to the reference and their standard errors.

        `point` is the operating point's index, None for the board's own governor. Returns how many
        standard deviations the worse of the two lies from what was expected.
        """
        surprise = 0.0
        for half, value, error in ((0, energy, energy_error), (1, time, time_error)):
            if value is not None and math.isfinite(value):
                surprise = max(surprise, self._take(point, half, value, error))
        return surprise

    def _take(self, point: int | None, half: int, value: float, error: float) -> float:
        seen = np.zeros(len(self._mean))
        seen[2 * self._n + half] = 1.0
        if point is not None:
            seen[half * self._n + point] = 1.0
        projected = self._cov @ seen
        variance = float(seen @ projected) + error**2
        residual = value - float(seen @ self._mean)
        self._mean += projected * (residual / variance)
        self._cov -= np.outer(projected, projected) / variance
        return abs(residual) / math.sqrt(variance)

    def widen(self, share: float) -> None:
        """Doubt all operating points anew: something has changed. `share` is relative."""
        n = 2 * self._n
        self._cov[:n, :n] += share**2 * (0.5 + 0.5 * np.eye(n))

    @property
    def answer(self) -> Answer:
        """The means now, energy and time, against the board's own governor now."""
        return Answer(self._mean[: self._n].copy(), self._mean[self._n : 2 * self._n].copy())

    @property
    def machine(self) -> tuple[float, float]:
        """How far the machine has moved since the reference: log energy and log time."""
        return float(self._mean[-2]), float(self._mean[-1])

    @property
    def time_error(self) -> Floats:
        """The standard deviation of each operating point's time."""
        spread = np.diag(self._cov)[self._n : 2 * self._n]
        return np.asarray(np.sqrt(np.maximum(spread, 0.0)))

    def objective(self, exponent: int) -> Floats:
        """The mean of energy x time^exponent at each operating point, in logarithms."""
        return np.asarray(self._mean[: self._n] + exponent * self._mean[self._n : 2 * self._n])

    def difference_error(self, exponent: int, one: int | None) -> Floats:
        """The standard deviation of each point's objective against that of point `one`.

        None as `one` is the board's own governor, whose objective is 0 by definition.
        """
        n = self._n
        rows = np.zeros((n, len(self._mean)))
        rows[np.arange(n), np.arange(n)] = 1.0
        rows[np.arange(n), n + np.arange(n)] = exponent
        if one is not None:
            rows = rows - rows[one]
        variance = np.einsum("ij,jk,ik->i", rows, self._cov, rows)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def log_ratio(ratio: float | None) -> float | None:
    """Return the logarithm of a ratio, or None where it is missing or no positive number."""
    return math.log(ratio) if ratio is not None and 0.0 < ratio < math.inf else None


@dataclass
class Scatter:
    """How steps of equal work scatter, pooled over windows: of one window's few it is a guess.

    It starts as if `GUESS_STEPS` steps had scattered by `GUESS` (relative).
    """

    squares: float = GUESS**2 * GUESS_STEPS
    freedom: float = GUESS_STEPS

    def add(self, error: float | None, steps: int) -> None:
        """Take in the relative standard error of the mean of a window's `steps` steps."""
        if error is not None and steps > 1 and math.isfinite(error):
            self.squares += error**2 * steps * (steps - 1)
            self.freedom += steps - 1

    def of(self, steps: int) -> float:
        """Return the relative standard error of the mean of so many steps."""
        return math.sqrt(self.squares / self.freedom / max(1, steps))
