"""The belief: a policy's expectation, corrected by what the windows of this run have measured.

Energy and time at every operating point are jointly normal, in logarithms against the baseline
(see answer.py). Workloads deviate from a leaf of the tree in few ways, so a window at one operating
point tells of the others as well. Two numbers more say how far the machine itself has moved since
the reference was frozen, as a random walk: baseline windows measure them alone, all others with
their point. This is the Kalman filter of that model.
"""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from orin_gov.policy.answer import Answer, Floats, Prior
from orin_gov.policy.saving import Expected

STEADY_WALK = 0.0005
"""By how much a steady machine moves from window to window (standard deviation, relative)."""

NEIGHBOURS = 3.0
"""So many operating points further, an unexpected difference is half as likely the same."""

GUESS, GUESS_STEPS = 0.01, 2.0


class Belief:
    """Means and covariance of energy and time at `n` operating points, and of the machine's walk.

    Not thread-safe.
    """

    def __init__(self, prior: Prior, reference_error: float) -> None:
        n = len(prior.answer.energy)
        self._n = n
        self._prior = prior.answer.joined
        self._mean = np.concatenate([self._prior, np.zeros(2)])
        self._cov = np.zeros((2 * n + 2, 2 * n + 2))
        self._cov[: 2 * n, : 2 * n] = prior.covariance
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
    ) -> None:
        """Take in a window's log ratios to the reference and their standard errors.

        `point` is the operating point's index, None for the board's own governor.
        """
        for half, value, error in ((0, energy, energy_error), (1, time, time_error)):
            if value is not None and math.isfinite(value):
                self._take(self._seen(point, half), value, error)

    def surprise(
        self,
        point: int | None,
        energy: float | None,
        time: float | None,
        energy_error: float,
        time_error: float,
    ) -> tuple[float, float]:
        """Return how far what `observe` would take in lies from what is expected, at the worse.

        In standard deviations, and as a logarithm.
        """
        deviations, largest = 0.0, 0.0
        for half, value, error in ((0, energy, energy_error), (1, time, time_error)):
            if value is not None and math.isfinite(value):
                seen = self._seen(point, half)
                residual = abs(value - float(seen @ self._mean))
                variance = float(seen @ self._cov @ seen) + error**2
                deviations = max(deviations, residual / math.sqrt(variance))
                largest = max(largest, residual)
        return deviations, largest

    def rebase(
        self,
        energy: float,
        time: float,
        energy_error: float,
        time_error: float,
    ) -> None:
        """The board's own governor has become another one, at these log ratios to the reference.

        They are of windows that are a new reference from now on, and have these standard errors;
        what is known of the operating points stays, told against the new one.
        """
        n, size = self._n, len(self._mean)
        onto, errors = np.zeros((size, size)), np.zeros((size, 2))
        for half, ratio in ((0, energy), (1, time)):
            mine = slice(half * n, (half + 1) * n)
            onto[mine, mine] = np.eye(n)
            onto[mine, 2 * n + half] = 1.0
            errors[mine, half], errors[2 * n + half, half] = 1.0, -1.0
            self._mean[mine] += self._mean[2 * n + half] - ratio
        self._mean[2 * n :] = 0.0
        variances = np.diag([energy_error**2, time_error**2])
        self._cov = onto @ self._cov @ onto.T + errors @ variances @ errors.T

    def of(self, places: Sequence[int]) -> "Belief":
        """What is believed of some of the operating points alone."""
        n = self._n
        kept = [*places, *(n + place for place in places), 2 * n, 2 * n + 1]
        part = copy(self)
        part._n = len(places)
        part._prior, part._mean = self._prior[kept[:-2]], self._mean[kept]
        part._cov = self._cov[np.ix_(kept, kept)]
        return part

    def recall(self, known: "Belief", points: Iterable[int], error: float) -> None:
        """Take over from `known` how far the machine has moved, and what it knew of `points`."""
        n = 2 * self._n
        self._mean[n:], self._cov[n:, n:] = known._mean[n:], known._cov[n:, n:]
        for place in (half * self._n + point for point in points for half in (0, 1)):
            self._take(np.eye(n + 2)[place], float(known._mean[place]), error)

    def _take(self, seen: Floats, value: float, error: float) -> None:
        projected = self._cov @ seen
        variance = float(seen @ projected) + error**2
        residual = value - float(seen @ self._mean)
        self._mean += projected * (residual / variance)
        self._cov -= np.outer(projected, projected) / variance

    def _seen(self, point: int | None, half: int) -> Floats:
        """What a window measures of the state: the machine, and its point if it has one."""
        seen = np.zeros(len(self._mean))
        seen[2 * self._n + half] = 1.0
        if point is not None:
            seen[half * self._n + point] = 1.0
        return seen

    def widen_smoothly(self, share: float) -> None:
        """Doubt what was expected of the clocks as a whole: what holds for one is likely to hold
        for its neighbours as well."""
        points = np.arange(self._n)
        alike = 0.5 ** (((points[:, None] - points[None, :]) / NEIGHBOURS) ** 2)
        self._cov[:-2, :-2] += share**2 * np.kron(np.eye(2), alike)

    def widen_at(self, point: int, share: float) -> None:
        """Doubt one operating point: of the others it tells little from now on."""
        for place in (point, self._n + point):
            self._cov[place, place] += share**2

    @property
    def answer(self) -> Answer:
        """The means now, energy and time, against the board's own governor now."""
        return Answer(self._mean[: self._n].copy(), self._mean[self._n : 2 * self._n].copy())

    @property
    def lesson(self) -> Answer:
        """How far this run's operating points have turned out to be from what was expected."""
        off = self._mean[: 2 * self._n] - self._prior
        return Answer(off[: self._n], off[self._n :])

    @property
    def machine(self) -> tuple[float, float]:
        """How far the machine has moved since the reference: log energy and log time."""
        return float(self._mean[-2]), float(self._mean[-1])

    @property
    def machine_error(self) -> float:
        """The standard deviation of the latter."""
        return math.sqrt(max(0.0, float(self._cov[-1, -1])))

    @property
    def time_error(self) -> Floats:
        """The standard deviation of each operating point's time."""
        spread = np.diag(self._cov)[self._n : 2 * self._n]
        return np.asarray(np.sqrt(np.maximum(spread, 0.0)))

    def expected(self, point: int, target_hz: int) -> Expected:
        """What is believed of one operating point, whose clock is `target_hz`."""
        errors = np.sqrt(np.maximum(np.diag(self._cov), 0.0))
        n = self._n
        means = self._mean[[point, n + point]].tolist()
        return Expected(target_hz, *means, *errors[[point, n + point]].tolist())

    def objective(self, exponent: int) -> Floats:
        """The mean of energy x time^exponent at each operating point, in logarithms."""
        return np.asarray(self._mean[: self._n] + exponent * self._mean[self._n : 2 * self._n])

    def difference_error(self, exponent: int, one: int | None) -> Floats:
        """The standard deviation of each point's objective against that of point `one`.

        None as `one` is the board's own governor, whose objective is 0 by definition.
        """
        cov = self._objective_cov(exponent)
        variance = np.diag(cov).copy()
        if one is not None:
            variance += cov[one, one] - 2 * cov[one]
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def told_by_a_window(self, exponent: int, one: int | None, error: float) -> Floats:
        """By how much (standard deviation) a window at each point will move the mean of its
        objective against that of point `one` (None: the board's own governor).

        `error` is the standard error of the window's objective. A point that is well known moves
        nothing, however little is known of the other.
        """
        cov, moving = self._objective_cov(exponent), self._cov[:, -2] + exponent * self._cov[:, -1]
        n = self._n
        machine = moving[:n] + exponent * moving[n : 2 * n]
        moved = np.diag(cov) + machine
        if one is not None:
            moved = moved - cov[one] - machine[one]
        variance = np.diag(cov) + 2 * machine + moving[-2] + exponent * moving[-1] + error**2
        return np.asarray(np.abs(moved) / np.sqrt(np.maximum(variance, 1e-18)))

    def _objective_cov(self, exponent: int) -> Floats:
        """The covariance of energy x time^exponent at all operating points, [n, n]."""
        n, cov = self._n, self._cov
        energy, both, time = cov[:n, :n], cov[:n, n : 2 * n], cov[n : 2 * n, n : 2 * n]
        return np.asarray(energy + exponent * (both + both.T) + exponent**2 * time)


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
