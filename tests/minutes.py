"""A minute of constant power, and steps within it, for the tests of what is made of them."""

import numpy as np

from orin_gov._sampler import Samples
from orin_gov.energy import EnergyTimeline
from orin_gov.phases import BACKWARD, DATA, FORWARD
from orin_gov.workload.tracker import Span, Step

S = 1_000_000_000
START_NS = 5000 * S
RAILS = ("GPU", "CPU", "inside")
POWER_W = (20.0, 5.0, 1.0)
TOTAL = ("GPU", "CPU")


def timeline(unread: frozenset[str] = frozenset()) -> EnergyTimeline:
    """Return a minute of constant power, read every 10 ms."""
    t_ns = START_NS + np.arange(6000, dtype=np.int64) * (S // 100)
    power = np.tile(POWER_W, (6000, 1))
    energy = power * ((t_ns - START_NS) * 1e-9)[:, None]
    for rail in unread:
        power[:, RAILS.index(rail)] = np.nan
        energy[:, RAILS.index(rail)] = 0.0
    found = EnergyTimeline(RAILS)
    found.append(Samples(t_ns, power, energy, np.zeros_like(power)))
    return found


def step(number: int, begin_s: float, *seconds: float, work: float | None = 8.0) -> Step:
    """Return a step of data, forward and backward of so many seconds."""
    spans, now = [], START_NS + round(begin_s * S)
    for phase, length in zip((DATA, FORWARD, BACKWARD), seconds, strict=False):
        spans.append(Span(phase, now, now + round(length * S)))
        now = spans[-1].end_ns
    return Step(number, tuple(spans), work)
