"""The energy timeline: how many joules each rail took between any two moments."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orin_gov._sampler import Samples
from orin_gov.recent import RecentSamples

LONGEST_HOLE = 0.05
"""A rail's energy over a span counts as missing where more than this share was not measured."""

KEEP_NS = 120_000_000_000

MOST_KEPT_NS = 900_000_000_000
"""Samples are kept for as long as a step or a window lasts, but no longer: some 30 MB at 200 Hz."""

SILENT_NS = 1_000_000_000
"""A rail without a reading for so long is not waited for, nor looked for before a span."""

CYCLE_NS = 6_600_000
"""One conversion cycle of an INA3221 at its reset configuration (3 channels, 1.1 + 1.1 ms each)."""

REACH = 2.5
"""A step of the power is estimated from readings up to so many conversion cycles away."""

PERCENTILES = (1.0, 99.0)
"""What stands for the lowest and the highest power: one odd reading in a hundred does not."""

Floats = npt.NDArray[np.float64]


class EnergyTimeline:
    """Cumulative energy by rail over the last minutes, from the sampler's drained samples.

    `cycle_ns` is the sensors' conversion cycle; 0 takes a reading for the power at its very moment.
    A reading shows the mean over a cycle, and does so for the next cycle: it is late by one cycle
    on average, half of it each, and times are corrected by that. What a step of the power has
    blurred is put back by `between`.
    """

    def __init__(self, rails: tuple[str, ...], cycle_ns: int = 0) -> None:
        self.rails = rails
        self._cycle_ns = cycle_ns
        self._recent = RecentSamples(len(rails), KEEP_NS)
        self._read_until_ns = np.zeros(len(rails), dtype=np.int64)

    def append(self, samples: Samples, since_ns: int | None = None) -> None:
        """Add what the sampler drained; times must go on from the last call's.

        Two minutes are kept, or all since `since_ns`, from which on spans will be asked for.
        """
        if not len(samples.t_ns):
            return
        samples = samples._replace(t_ns=samples.t_ns - self._cycle_ns)
        if since_ns is not None:
            since_ns -= max(self.lag_ns, SILENT_NS)  # what `between` looks at before a span
            since_ns = max(since_ns, int(samples.t_ns[-1]) - MOST_KEPT_NS)
        self._recent.append(samples, since_ns)
        if np.isnan(samples.power_w[-1]).any():
            read_ns = np.where(np.isnan(samples.power_w), 0, samples.t_ns[:, None])
            self._read_until_ns = np.maximum(self._read_until_ns, read_ns.max(axis=0))
        else:
            self._read_until_ns[:] = samples.t_ns[-1]

    @property
    def lag_ns(self) -> int:
        """How long after a moment the readings come by which `between` knows it."""
        return round((1 + REACH) * self._cycle_ns)

    @property
    def covered_until_ns(self) -> int | None:
        """Time until which every rail that still speaks was read; None before the first sample."""
        newest_ns = self._recent.newest_ns
        if newest_ns is None:
            return None
        spoke = [read for read in self._read_until_ns.tolist() if read > newest_ns - SILENT_NS]
        return min(spoke, default=newest_ns) - round(REACH * self._cycle_ns)

    def between(self, edges_ns: npt.NDArray[np.int64]) -> Floats:
        """Return joules, shape [spans, rails], of the spans given as edges [spans, 2].

        NaN stands where a rail was not measured for more than 5 % of a span (for less, it is taken
        to have gone on as in the rest), or a span lies outside what is kept. Edges are taken for
        moments at which the power may step, as between phases.
        """
        joules = np.full((len(edges_ns), len(self.rails)), np.nan)
        if not len(joules) or not len(self._recent):
            return joules
        first_ns = int(edges_ns.min())
        samples = self._recent.since(first_ns - self.lag_ns)
        if not np.isnan(samples.power_w).any():
            t_ns, _, energy_j, missing_ns = samples
            return _between(edges_ns, t_ns, energy_j, missing_ns, self._cycle_ns)
        # Only at a reading is a rail's sum up to date; in between it is a line.
        samples = self._recent.since(first_ns - SILENT_NS)
        reads = ~np.isnan(samples.power_w)
        for rail in range(len(self.rails)):
            read = reads[:, rail]
            if read.any():
                t_ns = samples.t_ns[read]
                energy_j, missing_ns = samples.energy_j[read], samples.missing_ns[read]
                found = _between(edges_ns, t_ns, energy_j, missing_ns, self._cycle_ns)
                joules[:, rail] = found[:, rail]
        return joules

    def changes(self, begin_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
        """Return how often each rail's reading changed between two moments, [rails]."""
        power_w = self._recent.within(begin_ns, end_ns).power_w
        return np.array(
            [np.count_nonzero(np.diff(of[~np.isnan(of)])) for of in power_w.T], np.int64
        )

    def power_range_w(
        self, begin_ns: int, end_ns: int, total: Sequence[str] | None
    ) -> tuple[float, float] | None:
        """Return the 1st and 99th percentile of the power sampled between two moments.

        It is that of the rails in `total` together; None where they were not sampled.
        """
        if not total or not set(total) <= set(self.rails):
            return None
        columns = [self.rails.index(label) for label in total]
        module_w = self._recent.within(begin_ns, end_ns).power_w[:, columns].sum(axis=1)
        module_w = module_w[~np.isnan(module_w)]
        if not len(module_w):
            return None
        # np.percentile does the same; the first time it takes a tenth of a second for its imports.
        places = np.array(PERCENTILES) / 100 * (len(module_w) - 1)
        low_w, high_w = np.interp(places, np.arange(len(module_w)), np.sort(module_w)).tolist()
        return low_w, high_w


def _between(
    edges_ns: npt.NDArray[np.int64],
    t_ns: npt.NDArray[np.int64],
    energy_j: Floats,
    missing_ns: Floats,
    cycle_ns: int,
) -> Floats:
    """Return joules, [spans, rails], from the sums [readings, rails] of rails read at one time."""
    at_ns = edges_ns.T  # all that begin, then all that end
    far_ns = round(REACH * cycle_ns)
    around_ns = np.array([0, -far_ns, -cycle_ns, cycle_ns, far_ns])
    places_ns = around_ns[:, None, None] + at_ns
    sums_j, lacking_ns = _at(places_ns, t_ns, energy_j, missing_ns)
    energy = sums_j[0]
    if cycle_ns and len(t_ns) > 1:
        whole = (places_ns[1] >= t_ns[0]) & (places_ns[4] <= t_ns[-1])
        known = whole[..., None] & (lacking_ns[1] == lacking_ns[4])
        step_w = _step_w(sums_j[1:], (far_ns - cycle_ns) * 1e-9)
        energy = energy - np.where(known, step_w * _spread_s(t_ns, cycle_ns), 0.0)
    begin_ns, end_ns = at_ns
    share = (lacking_ns[0, 1] - lacking_ns[0, 0]) / np.maximum(end_ns - begin_ns, 1)[:, None]
    # A short hole is taken for as hungry as the rest, or a starved sampler would find savings.
    filled = 1.0 - np.minimum(np.maximum(share, 0.0), LONGEST_HOLE)
    outside = (begin_ns < t_ns[0]) | (end_ns > t_ns[-1])
    unknown = outside[:, None] | (share > LONGEST_HOLE)
    return np.where(unknown, np.nan, (energy[1] - energy[0]) / filled)


def _at(
    at_ns: npt.NDArray[np.int64], t_ns: npt.NDArray[np.int64], *sums: Floats
) -> tuple[Floats, ...]:
    """Interpolate each of `sums`, [readings, rails], at times of any shape: [..., rails].

    Beyond the first and the last reading theirs stand. As np.interp does, but for all rails at once
    and without a copy of all readings: of a second at 1 kHz a step needs a few dozen.
    """
    last = len(t_ns) - 1
    after = np.minimum(np.maximum(np.searchsorted(t_ns, at_ns), min(1, last)), last)
    before = np.maximum(after - 1, 0)
    # Differences of integers keep nanoseconds exact.
    share = (at_ns - t_ns[before]) / np.maximum(t_ns[after] - t_ns[before], 1)
    share = np.minimum(np.maximum(share, 0.0), 1.0)[..., None]
    return tuple(each[before] + share * (each[after] - each[before]) for each in sums)


def _step_w(sums_j: Floats, length_s: float) -> Floats:
    """Return by how much power steps at a moment, from sums far before, before, after, far after."""
    return np.asarray(((sums_j[3] - sums_j[2]) - (sums_j[1] - sums_j[0])) / length_s)


def _spread_s(t_ns: npt.NDArray[np.int64], cycle_ns: int) -> float:
    """Return by how many seconds times a step of the power the sum is too high at the step.

    The mean over a cycle, its hold for a cycle, and the line between readings spread a step over
    time: what lies after it is seen before it, (P_after - P_before) times half the mean distance
    that it was spread by. That is a sixth of the cycle and, at right angles to it, of the spacing
    of the readings (the triangular kernels of both). The step is taken from the readings near by,
    beyond the blur; it is 0 where they are not all there.
    """
    return float(np.hypot(cycle_ns, _usual_spacing(t_ns))) / 6 * 1e-9


def _usual_spacing(t_ns: npt.NDArray[np.int64]) -> float:
    """Return the median of the differences; np.median takes five times as long."""
    spacings, middle = np.diff(t_ns), (len(t_ns) - 1) // 2
    return float(np.partition(spacings, middle)[middle])
