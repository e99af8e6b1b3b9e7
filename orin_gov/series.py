"""The windows at one operating point that a run keeps, in memory that does not grow with it."""

import numpy as np

from orin_gov.policy.compared import ROW, Rows, joined, rows_of
from orin_gov.policy.window import Window

MOST_WINDOWS = 250
"""Windows kept for the comparison in each series; where there are more, neighbours become one, as if
the decision epoch had been twice as long."""


class Series:
    """The windows at one operating point: all of them, or neighbours joined, two, four, ... to one.

    All stand for as many, so that they scatter alike: the saving's interval rests on that.
    Thread-safety: one thread adds, any may ask.
    """

    def __init__(self) -> None:
        self.count = 0
        self._table = np.zeros(MOST_WINDOWS, ROW)
        self._kept = self._table[:0]
        self._stands_for = 1
        self._in_last = 0

    @property
    def rows(self) -> Rows:
        """The windows in order of time."""
        return self._kept.copy()

    def add(self, window: Window) -> None:
        """Add a window, in order of time."""
        self.count += 1
        row = rows_of([window])
        if len(self._kept) and self._in_last < self._stands_for:
            self._kept[-1:] = joined(self._kept[-1:], row)
            self._in_last += 1
            return
        if len(self._kept) == len(self._table):
            self._halve()
        count = len(self._kept)
        self._table[count] = row[0]
        self._kept = self._table[: count + 1]
        self._in_last = 1

    def _halve(self) -> None:
        """Make one of every two neighbours, in a table of its own: the old one may be read."""
        pairs = joined(self._kept[::2], self._kept[1::2])
        self._table = np.zeros(len(self._table), ROW)
        self._table[: len(pairs)] = pairs
        self._kept = self._table[: len(pairs)]
        self._stands_for *= 2
