"""The energy timeline: how many joules each rail took between any two moments."""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orin_gov._sampler import Samples

LONGEST_HOLE = 0.05
"""A rail's energy over a span counts as missing where more than this share was not measured."""

KEEP_NS = 120_000_000_000

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
    """Cumulative energy by rail over the last two minutes, from the sampler's drained samples.

    `cycle_ns` is the sensors' conversion cycle; 0 takes a reading for the power at its very moment.
    A reading shows the mean over a cycle, and does so for the next cycle: it is late by one cycle
    on average, half of it each, and times are corrected by that. What a step of the power has
    blurred is put back by `between`.
    """

    def __init__(self, rails: tuple[str, ...], cycle_ns: int = 0) -> None:
        self.rails = rails
        self._cycle_ns = cycle_ns
        self._chunks: deque[Samples] = deque()
        self._read_until_ns = np.zeros(len(rails), dtype=np.int64)

    def append(self, samples: Samples) -> None:
        """Add what the sampler drained; times must go on from the last call's."""
        if not len(samples.t_ns):
            return
        samples = samples._replace(t_ns=samples.t_ns - self._cycle_ns)
        self._chunks.append(samples)
        if np.isnan(samples.power_w[-1]).any():
            read_ns = np.where(np.isnan(samples.power_w), 0, samples.t_ns[:, None])
            self._read_until_ns = np.maximum(self._read_until_ns, read_ns.max(axis=0))
        else:
            self._read_until_ns[:] = samples.t_ns[-1]
        while len(self._chunks) > 1 and self._chunks[1].t_ns[0] < samples.t_ns[-1] - KEEP_NS:
            self._chunks.popleft()

    @property
    def lag_ns(self) -> int:
        """How long after a moment the readings come by which `between` knows it."""
        return round((1 + REACH) * self._cycle_ns)

    @property
    def covered_until_ns(self) -> int | None:
        """Time until which every rail that still speaks was read; None before the first sample."""
        if not self._chunks:
            return None
        newest_ns = int(self._chunks[-1].t_ns[-1])
        spoke = self._read_until_ns[self._read_until_ns > newest_ns - SILENT_NS]
        until_ns = int(spoke.min()) if len(spoke) else newest_ns
        return until_ns - round(REACH * self._cycle_ns)

    def between(self, edges_ns: npt.NDArray[np.int64]) -> Floats:
        """Return joules, shape [spans, rails], of the spans given as edges [spans, 2].

        NaN stands where a rail was not measured for more than 5 % of a span (for less, it is taken
        to have gone on as in the rest), or a span lies outside what is kept. Edges are taken for
        moments at which the power may step, as between phases.
        """
        joules = np.full((len(edges_ns), len(self.rails)), np.nan)
        chunks = self._chunks_since(int(edges_ns.min()) - SILENT_NS) if len(edges_ns) else []
        if not chunks:
            return joules
        t_ns = np.concatenate([chunk.t_ns for chunk in chunks])
        power = np.concatenate([chunk.power_w for chunk in chunks])
        energy = np.concatenate([chunk.energy_j for chunk in chunks])
        missing = np.concatenate([chunk.missing_ns for chunk in chunks])
        reads = ~np.isnan(power)
        for rail in range(len(self.rails)):
            # Only at a reading is a rail's sum up to date; in between it is a line.
            read = reads[:, rail]
            if read.any():
                joules[:, rail] = _between(
                    edges_ns, t_ns[read], energy[read, rail], missing[read, rail], self._cycle_ns
                )
        return joules

    def changes(self, begin_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
        """Return how often each rail's reading changed between two moments, [rails]."""
        power = [
            chunk.power_w[(chunk.t_ns >= begin_ns) & (chunk.t_ns <= end_ns)]
            for chunk in self._chunks_since(begin_ns)
        ]
        counts = np.zeros(len(self.rails), dtype=np.int64)
        if power:
            joined = np.concatenate(power)
            for rail in range(len(self.rails)):
                read = joined[~np.isnan(joined[:, rail]), rail]
                counts[rail] = np.count_nonzero(np.diff(read))
        return counts

    def power_range_w(
        self, begin_ns: int, end_ns: int, total: Sequence[str] | None
    ) -> tuple[float, float] | None:
        """Return the 1st and 99th percentile of the power sampled between two moments.

        It is that of the rails in `total` together; None where they were not sampled.
        """
        if not total or not set(total) <= set(self.rails):
            return None
        columns = [self.rails.index(label) for label in total]
        power = [
            chunk.power_w[(chunk.t_ns >= begin_ns) & (chunk.t_ns <= end_ns)][:, columns]
            for chunk in self._chunks_since(begin_ns)
        ]
        module_w = np.concatenate(power).sum(axis=1) if power else np.zeros(0)
        module_w = module_w[~np.isnan(module_w)]
        if not len(module_w):
            return None
        # np.percentile does the same; the first time it takes a tenth of a second for its imports.
        places = np.array(PERCENTILES) / 100 * (len(module_w) - 1)
        low_w, high_w = np.interp(places, np.arange(len(module_w)), np.sort(module_w)).tolist()
        return low_w, high_w

    def _chunks_since(self, begin_ns: int) -> list[Samples]:
        chunks: list[Samples] = []
        for chunk in reversed(self._chunks):
            if chunk.t_ns[-1] < begin_ns:
                break
            chunks.append(chunk)
        return chunks[::-1]


def _between(
    edges_ns: npt.NDArray[np.int64],
    t_ns: npt.NDArray[np.int64],
    energy_j: Floats,
    missing_ns: Floats,
    cycle_ns: int,
) -> Floats:
    """Return one rail's joules of each span, from its sums at its readings."""
    outside = (edges_ns[:, 0] < t_ns[0]) | (edges_ns[:, 1] > t_ns[-1])
    # Relative times keep nanoseconds exact in the interpolation's floating point.
    edges = (np.clip(edges_ns, t_ns[0], t_ns[-1]) - t_ns[0]).astype(np.float64)
    times = (t_ns - t_ns[0]).astype(np.float64)
    at = edges.ravel()
    energy = np.interp(at, times, energy_j)
    if cycle_ns:
        energy -= _blur(at, times, energy_j, missing_ns, cycle_ns)
    begin_j, end_j = energy.reshape(edges.shape).T
    begin_missing_ns, end_missing_ns = np.interp(at, times, missing_ns).reshape(edges.shape).T
    share = (end_missing_ns - begin_missing_ns) / np.maximum(edges[:, 1] - edges[:, 0], 1.0)
    hole = share > LONGEST_HOLE
    # A short hole is taken for as hungry as the rest, or a starved sampler would find savings.
    joules = (end_j - begin_j) / (1.0 - np.clip(share, 0.0, LONGEST_HOLE))
    return np.where(outside | hole, np.nan, joules)


def _blur(at: Floats, times: Floats, energy_j: Floats, missing_ns: Floats, cycle_ns: int) -> Floats:
    """Return the joules by which the sums are too high at moments where the power steps, shape [n].

    The mean over a cycle, its hold for a cycle, and the line between readings spread a step over
    time: what lies after it is seen before it, (P_after - P_before) times half the mean distance
    that it was spread by. That is a sixth of the cycle and, at right angles to it, of the spacing
    of the readings (the triangular kernels of both). The step is taken from the readings near by,
    beyond the blur; it is 0 where they are not all there.
    """
    near, far = cycle_ns, REACH * cycle_ns
    places = np.stack([at - far, at - near, at + near, at + far])
    sums = np.interp(places, times, energy_j)
    step_w = ((sums[3] - sums[2]) - (sums[1] - sums[0])) / (far - near) * 1e9
    holes = np.diff(np.interp(places[[0, 3]], times, missing_ns), axis=0)[0]
    known = (places[0] >= times[0]) & (places[3] <= times[-1]) & (holes == 0.0)
    spread_ns = np.hypot(cycle_ns, _usual_spacing(times)) / 6 if len(times) > 1 else 0.0
    return np.where(known, step_w, 0.0) * spread_ns * 1e-9


def _usual_spacing(times: Floats) -> float:
    """Return the median of the differences; np.median takes five times as long."""
    spacings, middle = np.diff(times), (len(times) - 1) // 2
    return float(np.partition(spacings, middle)[middle])
