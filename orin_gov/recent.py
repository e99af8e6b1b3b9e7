"""The samples of the last while, in arrays that stay: a run allocates nothing for them as it goes on.

Chunks as they are drained, kept for minutes between what lives for moments, would leave the heap in
pieces, and would have to be joined for every question.
"""

import mmap

import numpy as np

from orin_gov._sampler import Samples

FIRST_ROWS = 1024
SPARE = 1.05
"""Least room there is for what is kept; with less, the arrays are doubled.

Most of the time there is more: a sampler that gets faster, as others leave the machine, costs none.
"""


class RecentSamples:
    """Samples of the last `keep_ns`, or of longer where asked to. Not thread-safe."""

    def __init__(self, rails: int, keep_ns: int) -> None:
        self._rails, self._keep_ns = rails, keep_ns
        self._begin = self._end = 0
        self._kept = _room(FIRST_ROWS, rails)

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def newest_ns(self) -> int | None:
        """Time of the newest sample; None before the first."""
        return int(self._kept.t_ns[self._end - 1]) if len(self) else None

    def append(self, samples: Samples, since_ns: int | None = None) -> None:
        """Add samples, which go on from the last call's, and let go of what is too old.

        Those from `since_ns` on stay, however old.
        """
        count = len(samples.t_ns)
        if not count:
            return
        if self._end + count > len(self._kept.t_ns):
            self._make_room(count)
        for column, new in zip(self._kept, samples, strict=True):
            column[self._end : self._end + count] = new
        self._end += count
        oldest_ns = self._kept.t_ns[self._end - 1] - self._keep_ns
        if since_ns is not None:
            oldest_ns = min(oldest_ns, since_ns)
        self._begin += int(np.searchsorted(self._kept.t_ns[self._begin : self._end], oldest_ns))

    def since(self, begin_ns: int) -> Samples:
        """Return the samples from the last one at or before `begin_ns` on.

        They are views: the next `append` may change them.
        """
        live = self._kept.t_ns[self._begin : self._end]
        first = self._begin + max(0, int(np.searchsorted(live, begin_ns, side="right")) - 1)
        return _rows(self._kept, first, self._end)

    def within(self, begin_ns: int, end_ns: int) -> Samples:
        """Return the samples at both moments and between them, as views like `since`."""
        live = self._kept.t_ns[self._begin : self._end]
        first = self._begin + int(np.searchsorted(live, begin_ns))
        last = self._begin + int(np.searchsorted(live, end_ns, side="right"))
        return _rows(self._kept, first, last)

    def _make_room(self, count: int) -> None:
        """Move what is kept to the front, of larger arrays where it fills these."""
        old, rows = _rows(self._kept, self._begin, self._end), len(self._kept.t_ns)
        while rows < SPARE * (len(self) + count):
            rows *= 2
        if rows > len(self._kept.t_ns):
            self._kept = _room(rows, self._rails)
        for column, kept in zip(self._kept, old, strict=True):
            column[: len(kept)] = kept
        self._begin, self._end = 0, len(old.t_ns)


def _rows(of: Samples, first: int, last: int) -> Samples:
    part = slice(first, last)
    return Samples(of.t_ns[part], of.power_w[part], of.energy_j[part], of.missing_ns[part])


def _room(rows: int, rails: int) -> Samples:
    """Return columns of so many rows, at least one; each rail's values lie side by side.

    Each has memory of its own from the kernel: on the heap, smaller ones that were outgrown would
    leave holes that nothing else fills.
    """

    def column(count: int) -> mmap.mmap:
        return mmap.mmap(-1, 8 * max(1, count), mmap.MAP_PRIVATE)

    t_ns = np.frombuffer(column(rows), dtype=np.int64)
    power_w, energy_j, missing_ns = (
        np.frombuffer(column(rails * rows))[: rails * rows].reshape(rails, rows).T for _ in range(3)
    )
    return Samples(t_ns, power_w, energy_j, missing_ns)
