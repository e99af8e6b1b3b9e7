"""The sweep: measures every operating point in turn, in place of a governor that chooses.

One decision epoch is one measurement. Points are interleaved: every round visits each of them once,
in a new random order, so that what drifts falls on all alike. Windows that warm the board up, or
that let it cool down, are no measurements.
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window

WARM_UP = 2
"""Windows at the start that measure nothing: allocators, tuning of kernels and the die settle."""

WAIT_ABOVE_C, WAIT_UNTIL_C, ABORT_ABOVE_C = 75.0, 70.0, 85.0
"""The thermal protocol of the published sweeps: cool down from 75 to 70 deg C, give up at 85."""


ALL_MEASURED = "all is measured"


@dataclass(frozen=True)
class Stop:
    """One measurement to take: an operating point (None: the board's own governor) in a round."""

    target_hz: int | None
    round: int


def plan(points: Sequence[int | None], rounds: int, seed: int) -> list[Stop]:
    """All measurements in their order."""
    rng = random.Random(seed)
    return [
        Stop(target, number)
        for number in range(rounds)
        for target in rng.sample(points, len(points))
    ]


class Sweep:
    """Visits the stops that are not `done`, and tells `record` of each one's window.

    `thermometer` gives the GPU's temperature (deg C), or None where there is none. Not thread-safe.
    """

    def __init__(
        self,
        stops: Sequence[Stop],
        done: Collection[Stop],
        coolest_hz: int,
        thermometer: Callable[[], float | None],
        record: Callable[[Stop, Window, float | None], None],
    ) -> None:
        self._left = [stop for stop in stops if stop not in done]
        self._total = len(stops)
        self._coolest_hz = coolest_hz
        self._thermometer, self._record = thermometer, record
        self._warming = WARM_UP
        self._cooling = False
        self.ended: str | None = None if self._left else ALL_MEASURED

    @property
    def left(self) -> int:
        """How many measurements are still to be taken."""
        return len(self._left)

    def first(self) -> Decision:
        """Warm up at the first stop."""
        return self._go()

    def outcome(self, window: Window) -> Outcome:
        """Nothing: a sweep compares at its end."""
        return Outcome(None, None, None)

    def fall_back(self) -> None:
        """Measure no more."""
        self.ended = self.ended or "the board was left to its own governor"

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Measure no more: under another cap the curves would not be one board's."""
        self.ended = self.ended or told
        return self._go()

    def decide(self, window: Window) -> Decision:
        """Take the window in, and go on to the next stop."""
        temperature_c = self._thermometer()
        if self.ended is None and window.disturbed is None:
            self._take(window, temperature_c)
        if self.ended is None and temperature_c is not None:
            self._watch(temperature_c)
        return self._go()

    def _take(self, window: Window, temperature_c: float | None) -> None:
        if self._cooling:
            return
        if self._warming:
            self._warming -= 1
            return
        stop = self._left.pop(0)
        self._record(stop, window, temperature_c)
        if not self._left:
            self.ended = ALL_MEASURED

    def _watch(self, temperature_c: float) -> None:
        if temperature_c > ABORT_ABOVE_C:
            self.ended = f"the GPU has {temperature_c:.0f} deg C, over {ABORT_ABOVE_C:.0f}"
        elif temperature_c > WAIT_ABOVE_C:
            self._cooling = True
        elif temperature_c <= WAIT_UNTIL_C:
            self._cooling = False

    def _go(self) -> Decision:
        if self.ended is not None:
            return Decision(State.SWEEP, None, self.ended)
        if self._cooling:
            return Decision(State.SWEEP, self._coolest_hz, "cooling down")
        stop, number = self._left[0], self._total - len(self._left) + 1
        told = "warming up" if self._warming else f"measurement {number} of {self._total}"
        return Decision(State.SWEEP, stop.target_hz, told)
