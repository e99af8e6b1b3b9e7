"""The answer: how the energy and the time of a workload's step follow the clock.

Both are natural logarithms of the ratio to the board's own governor in the same run, at each of a
few clocks: 0 is as under that governor, -0.1 about 10 % less. Logarithms, since ratios multiply.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """Logarithms of energy and time against the baseline, [clocks] each."""

    energy: Floats
    time: Floats

    @property
    def joined(self) -> Floats:
        """Energy, then time: [2 * clocks]."""
        return np.concatenate([self.energy, self.time])


@dataclass(frozen=True)
class Prior:
    """What a policy expects before a point is measured: the mean, and the covariance of energy and
    time at the clocks, [2 * clocks, 2 * clocks]."""

    answer: Answer
    covariance: Floats

    def shifted(self, by: Answer, share: float) -> "Prior":
        """The same with its mean moved by a share of `by`."""
        energy = self.answer.energy + share * by.energy
        return Prior(Answer(energy, self.answer.time + share * by.time), self.covariance)


def smooth_doubt(clocks: Sequence[float], size: float, reach: float) -> Floats:
    """Return the covariance of a smooth error of standard deviation `size`, [clocks, clocks].

    Clocks that differ by a factor of e^`reach` err by half as much alike as the same one does.
    """
    logs = np.log(np.asarray(clocks))
    return np.asarray(size**2 * 0.5 ** (((logs[:, None] - logs[None, :]) / reach) ** 2))


def at_clocks(knots: Sequence[float], values: Floats, clocks: Sequence[float]) -> Floats:
    """Interpolate `values`, [..., knots] over ascending clock shares, at other clock shares.

    Beyond the knots the nearest one's value stands: a policy knows nothing further out.
    """
    rows = np.atleast_2d(values)
    found = np.array([np.interp(clocks, knots, row) for row in rows])
    return found.reshape(*values.shape[:-1], len(clocks))


def answer_at_clocks(knots: Sequence[float], answer: Answer, clocks: Sequence[float]) -> Answer:
    """Interpolate an answer at other clocks."""
    return Answer(at_clocks(knots, answer.energy, clocks), at_clocks(knots, answer.time, clocks))


def halves_at_clocks(knots: Sequence[float], joined: Floats, clocks: Sequence[float]) -> Floats:
    """The same for rows of energy, then time: [..., 2 * knots] to [..., 2 * clocks]."""
    n = len(knots)
    energy = at_clocks(knots, joined[..., :n], clocks)
    return np.concatenate([energy, at_clocks(knots, joined[..., n:], clocks)], axis=-1)
