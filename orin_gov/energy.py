"""The energy timeline: how many joules each rail took between any two moments."""

from collections import deque

import numpy as np
import numpy.typing as npt

from orin_gov._sampler import Samples

LONGEST_HOLE = 0.05
"""A rail's energy over a span counts as missing where more than this share was not measured."""

KEEP_NS = 120_000_000_000

SILENT_NS = 1_000_000_000
"""A rail without a reading for so long is not waited for, nor looked for before a span."""

Floats = npt.NDArray[np.float64]


class EnergyTimeline:
    """Cumulative energy by rail over the last two minutes, from the sampler's drained samples."""

    def __init__(self, rails: tuple[str, ...]) -> None:
        self.rails = rails
        self._chunks: deque[Samples] = deque()
        self._read_until_ns = np.zeros(len(rails), dtype=np.int64)

    def append(self, samples: Samples) -> None:
        """Add what the sampler drained; times must go on from the last call's."""
        if not len(samples.t_ns):
            return
        self._chunks.append(samples)
        read_ns = np.where(np.isnan(samples.power_w), 0, samples.t_ns[:, None])
        self._read_until_ns = np.maximum(self._read_until_ns, read_ns.max(axis=0))
        while len(self._chunks) > 1 and self._chunks[1].t_ns[0] < samples.t_ns[-1] - KEEP_NS:
            self._chunks.popleft()

    @property
    def covered_until_ns(self) -> int | None:
        """Time until which every rail that is being read has been read, or None before the first."""
        if not self._chunks:
            return None
        newest_ns = int(self._chunks[-1].t_ns[-1])
        spoke = self._read_until_ns[self._read_until_ns > newest_ns - SILENT_NS]
        return int(spoke.min()) if len(spoke) else newest_ns

    def between(self, edges_ns: npt.NDArray[np.int64]) -> Floats:
        """Return joules, shape [spans, rails], of the spans given as edges [spans, 2].

        NaN stands where a rail was not measured for more than 5 % of a span, or a span lies outside
        what is kept.
        """
        joules = np.full((len(edges_ns), len(self.rails)), np.nan)
        chunks = self._chunks_since(int(edges_ns.min()) - SILENT_NS) if len(edges_ns) else []
        if not chunks:
            return joules
        t_ns = np.concatenate([chunk.t_ns for chunk in chunks])
        power = np.concatenate([chunk.power_w for chunk in chunks])
        energy = np.concatenate([chunk.energy_j for chunk in chunks])
        missing = np.concatenate([chunk.missing_ns for chunk in chunks])
        for rail in range(len(self.rails)):
            # Only at a reading is a rail's sum up to date; in between it is a line.
            read = ~np.isnan(power[:, rail])
            if read.any():
                joules[:, rail] = _between(
                    edges_ns, t_ns[read], energy[read, rail], missing[read, rail]
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
) -> Floats:
    """Return one rail's joules of each span, from its sums at its readings."""
    outside = (edges_ns[:, 0] < t_ns[0]) | (edges_ns[:, 1] > t_ns[-1])
    # Relative times keep nanoseconds exact in the interpolation's floating point.
    edges = (np.clip(edges_ns, t_ns[0], t_ns[-1]) - t_ns[0]).astype(np.float64)
    times = (t_ns - t_ns[0]).astype(np.float64)
    begin, end = edges[:, 0], edges[:, 1]
    energy = np.interp(end, times, energy_j) - np.interp(begin, times, energy_j)
    hole = np.interp(end, times, missing_ns) - np.interp(begin, times, missing_ns)
    return np.where(outside | (hole > LONGEST_HOLE * (end - begin)), np.nan, energy)
