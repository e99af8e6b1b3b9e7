"""nvhost_podgov: the governor that a Jetson in MAXN really runs under, step by step.

Source: governor_pod_scaling.c of NVIDIA's public kernel modules (JetPack 6), with its constants, its
order and its whole numbers (MHz, permille). Its fixed point is a GPU that is busy 70 % of the time,
so that host-bound work does not run at the top clock. Where the kernel is built with a history, a
recent burst counts instead of the average; whether JetPack 6 is built so is not public.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

POLLING_NS = 25_000_000
"""How often devfreq asks the governor."""

HISTORY_MAX = 100
"""The most polls that a kernel with a history looks back: 2.5 s."""

_BLOCK_WINDOW_NS = 50_000_000
_LOAD_MAX = 900
_LOAD_TARGET = 700
_BIAS = 80
_DAMP = 7
_SMOOTH = 10
_MHZ = 1_000_000


def round_up(table: Sequence[int], frequency_hz: float) -> int:
    """The lowest entry of the ascending table at or above a frequency, else the highest (nvgpu)."""
    return table[min(bisect_left(table, frequency_hz), len(table) - 1)]


class Podgov:
    """The governor's state over one ascending table of frequencies (Hz); starts at the lowest.

    `history` is over how many polls it looks for the highest load; 0, the default, for none.

    Thread-safety: none; one caller.
    """

    def __init__(self, table: Sequence[int], history: int = 0) -> None:
        self._table = tuple(table)
        self._clock_hz = self._table[0]
        self._cycles_average = 0
        self._request_average = 0
        self._history: deque[int] = deque(maxlen=min(history, HISTORY_MAX))
        self._changed_ns: int | None = None

    def step(self, load_permille: float, now_ns: int, min_hz: int, max_hz: int) -> int:
        """The clock (Hz) to run at next, from the load (0 to 1000) since the last call.

        To be called every `POLLING_NS`. The result is an entry of the table in [min_hz, max_hz],
        where such an entry exists.
        """
        load = int(load_permille)
        cycles = self._clock_hz * load // 1000
        self._cycles_average = (_SMOOTH * self._cycles_average + cycles) // (_SMOOTH + 1)
        self._history.append(cycles)
        if self._changed_ns is None or now_ns - self._changed_ns >= _BLOCK_WINDOW_NS:
            clock_hz = self._propose(load, max_hz)
            blocked_from_ns = now_ns
        else:
            clock_hz, blocked_from_ns = self._clock_hz, self._changed_ns
        clock_hz = round_up(self._table, max(min_hz, min(clock_hz, max_hz)))
        if clock_hz != self._clock_hz:
            self._changed_ns = blocked_from_ns
        self._clock_hz = clock_hz
        return clock_hz

    def _propose(self, load: int, max_hz: int) -> int:
        """The clock (Hz) that the load asks for, before the range and the table are applied."""
        clock_mhz = self._clock_hz // _MHZ
        largest_mhz = max_hz // 3 // _MHZ
        if load > _LOAD_MAX:
            boost_mhz, damp = largest_mhz, 10
        else:
            cycles = max(self._history, default=self._cycles_average)
            above = 1000 * cycles // self._clock_hz - _LOAD_TARGET
            boost_mhz = int(above * _BIAS * clock_mhz / (100 * _LOAD_TARGET))  # cut, as C does
            boost_mhz, damp = min(boost_mhz, largest_mhz), _DAMP
        request_mhz = clock_mhz + boost_mhz
        self._request_average = (_SMOOTH * self._request_average + request_mhz) // (_SMOOTH + 1)
        damped_mhz = (damp * request_mhz + (10 - damp) * self._request_average) // 10
        return damped_mhz * _MHZ
