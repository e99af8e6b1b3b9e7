"""Of the windows at one operating point what the saving compares, in memory that does not grow."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from orin_gov.measured import add_known, known
from orin_gov.policy.saving import TWO_RAILS
from orin_gov.policy.window import StepSample, Surroundings, Window

MOST_WINDOWS = 250
"""Windows kept for the comparison at each operating point; where there are more, neighbours become
one, as if the decision epoch had been twice as long."""

MOST_SAMPLES = 20
"""Steps kept of such a window: they tell how time and energy grow with the work."""

NOTHING: Mapping[str, float] = MappingProxyType({})

_EMPTY: Mapping[str, Any] = {
    "phase_time_s": NOTHING,
    "phase_energy_j": NOTHING,
    "operations_per_step": NOTHING,
    "bytes_per_step": NOTHING,
    "launches_per_step": NOTHING,
    "surroundings": Surroundings(),
}
"""What a window has no need of once it is put away, shared by all of them."""


class Series:
    """The windows at one operating point: all of them, or neighbours joined, two, four, ... to one.

    All stand for as many, so that they scatter alike: the saving's interval rests on that.
    """

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self.count = 0
        self._stands_for = 1
        self._in_last = 0

    def add(self, window: Window) -> None:
        """Add a window, in order of time."""
        window = _compared_part(window)
        self.count += 1
        if self.windows and self._in_last < self._stands_for:
            self.windows[-1] = _joined(self.windows[-1], window)
            self._in_last += 1
            return
        if len(self.windows) >= MOST_WINDOWS:
            pairs = zip(self.windows[::2], self.windows[1::2], strict=True)
            self.windows = [_joined(*pair) for pair in pairs]
            self._stands_for *= 2
        self.windows.append(window)
        self._in_last = 1


def _compared_part(window: Window) -> Window:
    joules = window.rail_energy_j
    return Window(
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        duration_s=window.duration_s,
        target_hz=window.target_hz,
        steps=window.steps,
        work=window.work,
        unit=window.unit,
        energy_j=window.energy_j,
        rail_energy_j={rail: joules[rail] for rail in TWO_RAILS if rail in joules} or NOTHING,
        samples=_Packed(window.samples) if window.target_hz is None else (),
        **_EMPTY,
    )


def _joined(first: Window, second: Window) -> Window:
    """Return two windows at one operating point as one."""
    rails = first.rail_energy_j.keys() & second.rail_energy_j.keys()
    return replace(
        first,
        end_ns=second.end_ns,
        duration_s=first.duration_s + second.duration_s,
        steps=first.steps + second.steps,
        work=add_known(first.work, second.work),
        energy_j=add_known(first.energy_j, second.energy_j),
        rail_energy_j={
            rail: add_known(first.rail_energy_j[rail], second.rail_energy_j[rail]) for rail in rails
        }
        or NOTHING,
        samples=_Packed([*first.samples, *second.samples]),
    )


class _Packed(Sequence[StepSample]):
    """Some of a window's steps, evenly chosen, in an eighth of what the objects take.

    A run keeps thousands of them, and they would be most of what it keeps. NaN stands for None.
    """

    __slots__ = ("_numbers",)

    def __init__(self, samples: Sequence[StepSample]) -> None:
        every = max(1, -(-len(samples) // MOST_SAMPLES))
        rows = [
            (each.work, each.time_s, math.nan if each.energy_j is None else each.energy_j)
            for each in samples[::every]
        ]
        self._numbers = array("d", chain.from_iterable(rows))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        work, time_s, energy_j = self._numbers[3 * (at % len(self)) :][:3]
        return StepSample(work, time_s, known(energy_j))
