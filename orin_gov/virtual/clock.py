"""The GPU's clock in virtual time: pinned to an operating point, or under podgov."""

import numpy as np

from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.podgov import POLLING_NS, Podgov

_POLL_S = POLLING_NS * 1e-9
_NEVER_S = float("inf")
_SAME_S = 1e-9
_FORGOTTEN = 60
"""Polls after which podgov's averages tell nothing of what was before: (10/11)^60 is 0.3 %."""


class VirtualClock:
    """Time and the clock's frequency, with everything that is about to change it.

    Podgov governs at first, from the lowest clock. Not thread-safe.
    """

    def __init__(self, board: BoardModel, rng: np.random.Generator) -> None:
        self._board, self._rng = board, rng
        self._table, self._cap_hz = board.frequencies_hz, board.cap_hz
        self._podgov = Podgov(self._table)
        self._request: tuple[float, int | None] = (_NEVER_S, None)
        self._coming: tuple[float, int] = (_NEVER_S, self._table[0])
        self._poll_s = _POLL_S
        self._busy_s = 0.0
        self.now_s = 0.0
        self.hz = self._table[0]
        self.pinned_hz: int | None = None
        self.pinned_load = 1.0  # the GPU's busy share while pinned, kept by who runs the steps
        self.next_s = _POLL_S

    @property
    def is_settled(self) -> bool:
        """Whether nothing will change the clock until it is asked to."""
        return self.next_s == _NEVER_S

    @property
    def is_asked(self) -> bool:
        """Whether a request is on its way."""
        return self._request[0] < _NEVER_S

    def ask(self, target_hz: int | None, delay_s: float) -> None:
        """Ask for an operating point, or with None for podgov, after a delay; the writes take
        their time from then on."""
        latency_s = self._latency_s(target_hz or self.hz)
        self._request = (self.now_s + delay_s + latency_s, target_hz)
        self._plan()

    def settle(self) -> None:
        """Let what was asked for take effect at once."""
        self._obey()
        self._plan()

    def pass_over(self, seconds: float) -> None:
        """Let time pass in which nothing changes the clock."""
        self.now_s += seconds

    def go_on(self, seconds: float, load: float) -> None:
        """Let time pass, at most until `next_s`, with the GPU busy for a share of it."""
        self.now_s += seconds
        self._busy_s += seconds * load
        if self.now_s < self.next_s - _SAME_S:
            return
        self.now_s = self.next_s
        if self.now_s >= self._request[0]:
            self._obey()
        elif self.now_s >= self._coming[0]:
            self.hz = self._coming[1]
            self._coming = (_NEVER_S, self.hz)
        else:
            self._poll()
        self._plan()

    def _obey(self) -> None:
        target_hz = self._request[1]
        self._request = (_NEVER_S, None)
        self._coming = (_NEVER_S, self.hz)
        if target_hz is None:
            self._hand_to_podgov()
        else:
            self._poll_s = _NEVER_S
            self.hz = target_hz
        self.pinned_hz = target_hz

    def _hand_to_podgov(self) -> None:
        """Give podgov the averages it has kept while its range was a single clock."""
        if self.pinned_hz is not None:
            load = self.pinned_load
            for _ in range(_FORGOTTEN):
                self._podgov.step(load * 1000, 0, self.hz, self.hz)
        self._busy_s = 0.0
        self._poll_s = self.now_s + _POLL_S

    def _poll(self) -> None:
        load_permille = min(1000.0, 1000.0 * self._busy_s / _POLL_S)
        now_ns = round(self.now_s * 1e9)
        target_hz = self._podgov.step(load_permille, now_ns, self._table[0], self._cap_hz)
        if target_hz != self._coming[1]:
            self._coming = (self.now_s + self._latency_s(target_hz), target_hz)
        self._busy_s = 0.0
        self._poll_s = self.now_s + _POLL_S

    def _latency_s(self, target_hz: int) -> float:
        return self._board.switch_latency_s(self.hz, target_hz, self._rng.random())

    def _plan(self) -> None:
        self.next_s = min(self._request[0], self._coming[0], self._poll_s)
