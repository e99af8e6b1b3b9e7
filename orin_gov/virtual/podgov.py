"""nvhost_podgov: the governor that a Jetson in MAXN really runs under, step by step.

Source: drivers/devfreq/governor_pod_scaling.c of NVIDIA's public kernel trees (constants and rules
as published; the optional history of the recent maximum is left out). Its fixed point is a GPU that
is busy 70 % of the time, so that host-bound work does not run at the top clock.
"""

from bisect import bisect_left
from collections.abc import Sequence

POLLING_NS = 25_000_000
"""How often devfreq asks the governor."""

_BLOCK_WINDOW_NS = 50_000_000
_LOAD_MAX = 900
_LOAD_TARGET = 700
_BIAS = 0.8
_DAMP = 0.7
_SMOOTH = 10


def round_up(table: Sequence[int], frequency_hz: float) -> int:
    """The lowest entry of the ascending table at or above a frequency, else the highest (nvgpu)."""
    return table[min(bisect_left(table, frequency_hz), len(table) - 1)]


class Podgov:
    """The governor's state over one ascending table of frequencies (Hz); starts at the lowest.

    Thread-safety: none; one caller.
    """

    def __init__(self, table: Sequence[int]) -> None:
        self._table = tuple(table)
        self._target_hz = self._table[0]
        self._average_hz = float(self._target_hz)
        self._cycles = 0.0
        self._changed_ns: int | None = None

    def step(self, load_permille: float, now_ns: int, min_hz: int, max_hz: int) -> int:
        """The clock (Hz) to run at next, from the load (0 to 1000) since the last call.

        To be called every `POLLING_NS`. The result is an entry of the table in [min_hz, max_hz],
        where such an entry exists.
        """
        current_hz = self._target_hz
        self._cycles = (_SMOOTH * self._cycles + current_hz * load_permille / 1000) / (_SMOOTH + 1)
        self._average_hz = (_SMOOTH * self._average_hz + current_hz) / (_SMOOTH + 1)
        if self._changed_ns is None or now_ns - self._changed_ns >= _BLOCK_WINDOW_NS:
            self._target_hz = self._propose(load_permille)
        self._target_hz = round_up(self._table, max(min_hz, min(self._target_hz, max_hz)))
        if self._target_hz != current_hz:
            self._changed_ns = now_ns
        return self._target_hz

    def _propose(self, load_permille: float) -> int:
        """The clock the load asks for, before the range is applied."""
        current_hz = self._target_hz
        largest_hz = self._table[-1] / 3
        if load_permille > _LOAD_MAX:
            return round_up(self._table, current_hz + largest_hz)
        busy = 1000 * self._cycles / current_hz
        boost_hz = _BIAS * current_hz * (busy - _LOAD_TARGET) / _LOAD_TARGET
        wanted_hz = current_hz + max(-largest_hz, min(boost_hz, largest_hz))
        return round_up(self._table, _DAMP * wanted_hz + (1 - _DAMP) * self._average_hz)
