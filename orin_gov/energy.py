"""The energy timeline: how many joules each rail took between any two moments."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orin_gov._sampler import Samples

LONGEST_HOLE = 0.05
"""A rail's energy over a span counts as missing where more than this share was not measured."""

KEEP_NS = 120_000_000_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Chunk:
    t_ns: npt.NDArray[np.int64]
    energy_j: Floats
    missing_ns: Floats
    unread: Floats  # how many samples so far lacked a reading, by rail
    count: Floats  # how many samples so far


class EnergyTimeline:
    """Cumulative energy by rail over the last two minutes, from the sampler's drained samples."""

    def __init__(self, rails: tuple[str, ...]) -> None:
        self.rails = rails
        self._chunks: deque[_Chunk] = deque()
        self._count = 0.0
        self._unread = np.zeros(len(rails))

    def append(self, samples: Samples) -> None:
        """Add what the sampler drained; times must go on from the last call's."""
        if not len(samples.t_ns):
            return
        unread = self._unread + np.cumsum(np.isnan(samples.power_w), axis=0)
        count = self._count + np.arange(1, len(samples.t_ns) + 1, dtype=np.float64)
        self._chunks.append(
            _Chunk(samples.t_ns, samples.energy_j, samples.missing_ns, unread, count)
        )
        self._unread, self._count = unread[-1], float(count[-1])
        while len(self._chunks) > 1 and self._chunks[1].t_ns[0] < samples.t_ns[-1] - KEEP_NS:
            self._chunks.popleft()

    @property
    def covered_until_ns(self) -> int | None:
        """Time of the newest sample, or None before the first."""
        return int(self._chunks[-1].t_ns[-1]) if self._chunks else None

    def between(self, edges_ns: npt.NDArray[np.int64]) -> Floats:
        """Return joules, shape [spans, rails], of the spans given as edges [spans, 2].

        NaN stands where a rail was not measured for more than 5 % of a span, or a span lies outside
        what is kept.
        """
        if not self._chunks or not len(self.rails):
            return np.full((len(edges_ns), len(self.rails)), np.nan)
        t_ns = np.concatenate([chunk.t_ns for chunk in self._chunks])
        energy = _differences(edges_ns, t_ns, [chunk.energy_j for chunk in self._chunks])
        hole = _differences(edges_ns, t_ns, [chunk.missing_ns for chunk in self._chunks])
        unread = _differences(edges_ns, t_ns, [chunk.unread for chunk in self._chunks])
        count = _differences(edges_ns, t_ns, [chunk.count[:, None] for chunk in self._chunks])
        length_ns = (edges_ns[:, 1] - edges_ns[:, 0])[:, None]
        outside = (edges_ns[:, :1] < t_ns[0]) | (edges_ns[:, 1:] > t_ns[-1])
        bad = outside | (hole > LONGEST_HOLE * length_ns) | (unread > LONGEST_HOLE * count + 1e-9)
        return np.where(bad, np.nan, energy)


def _differences(
    edges_ns: npt.NDArray[np.int64], t_ns: npt.NDArray[np.int64], parts: list[Floats]
) -> Floats:
    values = np.concatenate(parts)
    # Relative times keep nanoseconds exact in the interpolation's floating point.
    edges, times = (edges_ns - t_ns[0]).astype(np.float64), (t_ns - t_ns[0]).astype(np.float64)
    columns = [
        np.interp(edges[:, 1], times, column) - np.interp(edges[:, 0], times, column)
        for column in values.T
    ]
    return np.stack(columns, axis=1)
