"""What the engine has seen last, kept for those who only look: the view, `orin-gov top`."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from orin_gov._sampler import Samples
from orin_gov.energy import Floats
from orin_gov.measured import MeasuredStep
from orin_gov.policy.decision import Decision

KEPT_STEPS = 24
"""Steps whose phases and pace are shown: long enough to be calm, short enough to follow."""


class Sight:
    """The last readings, steps and the decision in force.

    Thread-safety: the engine's thread alone writes; each attribute is replaced as a whole, so that
    any thread may read it. Power is in watts and energy in joules since the start, by rail in the
    board's order; NaN in `power_w` is a rail that could not be read.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.clock_hz: int | None = None
        self.load: float | None = None
        self.power_w: tuple[float, ...] = ()
        self.energy_j: tuple[float, ...] = ()
        self.measured_s: tuple[float, ...] = ()
        self.span_s = 0.0
        self.steps: tuple[MeasuredStep, ...] = ()
        self._recent: deque[MeasuredStep] = deque(maxlen=KEPT_STEPS)
        self._first_ns: int | None = None
        self._begun_ns = self._read_ns = np.zeros(0)

    def poll(self, clock_hz: int | None, load: float | None) -> None:
        """Take in a reading of the clock and the load."""
        self.clock_hz, self.load = clock_hz, load

    def samples(self, samples: Samples) -> None:
        """Take in what the sampler drained."""
        if not len(samples.t_ns):
            return
        if self._first_ns is None:
            self._first_ns = int(samples.t_ns[0])
            self._begun_ns = np.full(samples.power_w.shape[1], np.inf)
            self._read_ns = -self._begun_ns
        span_ns = int(samples.t_ns[-1]) - self._first_ns
        lacking_ns = samples.missing_ns[-1] + self._unread_ns(samples, self._first_ns)
        self.span_s = span_ns * 1e-9
        self.power_w = tuple(samples.power_w[-1].tolist())
        self.energy_j = tuple(samples.energy_j[-1].tolist())
        self.measured_s = tuple((np.maximum(span_ns - lacking_ns, 0.0) * 1e-9).tolist())

    def _unread_ns(self, samples: Samples, since_ns: int) -> Floats:
        """Return how long each rail has gone unread, before its first reading and after its last."""
        read, t_ns = ~np.isnan(samples.power_w), samples.t_ns[:, None]
        first_ns, last_ns = np.where(read, t_ns, np.inf), np.where(read, t_ns, -np.inf)
        self._begun_ns = np.minimum(self._begun_ns, first_ns.min(axis=0))
        self._read_ns = np.maximum(self._read_ns, last_ns.max(axis=0))
        return np.asarray(self._begun_ns - since_ns + samples.t_ns[-1] - self._read_ns)

    def module_energy_j(self, rails: Sequence[str], total: Sequence[str] | None) -> float | None:
        """Return joules of the `total` rails since the start, as if gaps had taken the mean power.

        None where one of them has no reading.
        """
        known = dict(zip(rails, zip(self.energy_j, self.measured_s, strict=True), strict=False))
        if not total or not all(known.get(rail, (0.0, 0.0))[1] > 0 for rail in total):
            return None
        return sum(known[rail][0] / known[rail][1] * self.span_s for rail in total)

    def step(self, measured: MeasuredStep) -> None:
        """Take in a measured step."""
        self._recent.append(measured)
        self.steps = tuple(self._recent)
