"""What is observed of a run, each in plain values: conditions, saving, rails, steps, decisions."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from orin_gov.board.conditions import is_cooled, read_over_current, read_temperatures, risen
from orin_gov.board.probe import Board
from orin_gov.measured import MeasuredStep
from orin_gov.policy.decision import Decision
from orin_gov.policy.saving import relative_to_baseline
from orin_gov.tally import EpochRecord, Tally
from orin_gov.view.state import Effect, RailState

SLOW_NS = 2_000_000_000
"""Temperatures, over-current counters and the board's governor are read so often."""

COMPARE_S = 10.0
COMPARE_SHARE = 200
"""The saving is computed anew after 10 s, or 200 times the processor time it took: it grows."""


class Conditions:
    """What changes slowly, or costs much to read: temperatures, alarms, the board's governor."""

    def __init__(self, board: Board) -> None:
        self.temperature_c: Mapping[str, float | None] = {}
        self.governor: str | None = None
        self.alarms: list[str] = []
        self._events = read_over_current(board.root)
        self._looked_ns: int | None = None

    def look(self, board: Board, now_ns: int) -> None:
        """Read them again where the last time is long ago."""
        if self._looked_ns is not None and now_ns - self._looked_ns < SLOW_NS:
            return
        self._looked_ns = now_ns
        self.temperature_c = read_temperatures(board.root)
        self.governor = board.gpu.governor() if board.gpu else None
        events = read_over_current(board.root)
        rises = {name: risen(self._events.get(name), now) for name, now in events.items()}
        self.alarms = [
            f"{name}: {rise} over-current events" for name, rise in rises.items() if rise
        ]
        if board.gpu and is_cooled(board.root, board.gpu):
            self.alarms.append("the GPU is being cooled, its clock capped")


class Comparison:
    """The change against the baseline so far, with its interval, computed now and then."""

    def __init__(self) -> None:
        self.energy: Mapping[str, float] | None = None
        self.time: Mapping[str, float] | None = None
        self.governed = self.baseline = 0
        self._seen = 0
        self._next_s = 0.0

    def look(self, tally: Tally) -> None:
        """Compare anew where there are new epochs, and it is time."""
        if tally.epochs == self._seen or time.monotonic() < self._next_s:
            return
        began_s = time.thread_time()
        self._seen = tally.epochs
        self.governed, self.baseline = tally.counts()
        changes = relative_to_baseline(*tally.windows())
        self.energy, self.time = (asdict(each) if each else None for each in changes)
        took_s = time.thread_time() - began_s
        self._next_s = time.monotonic() + max(COMPARE_S, COMPARE_SHARE * took_s)


def rail_states(
    board: Board, power_w: Sequence[float], energy_j: Sequence[float], measured_s: Sequence[float]
) -> dict[str, RailState]:
    """Return each rail's state by label; all is missing before the first samples."""
    missing = RailState(None, None, None)
    states = {rail.label: missing for rail in board.rails}
    for rail, now_w, joules, seconds in zip(
        board.rails, power_w, energy_j, measured_s, strict=False
    ):
        mean_w = joules / seconds if seconds > 0 else None
        states[rail.label] = RailState(None if math.isnan(now_w) else now_w, mean_w, joules)
    return states


def total_state(total: Sequence[str] | None, rails: Mapping[str, RailState]) -> RailState:
    """Return the module's state: the sum of the rails of its total, where all of them are known."""
    parts = [rails[label] for label in total or () if label in rails]
    if not total or len(parts) < len(total):
        return RailState(None, None, None)
    columns = zip(*((part.power_w, part.mean_w, part.energy_j) for part in parts), strict=True)
    return RailState(*(_sum(column) for column in columns))


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def pace(steps: Sequence[MeasuredStep]) -> float | None:
    """Return steps a second over the last steps, what stands between them left out."""
    taken_s = sum(each.step.duration_s for each in steps)
    return len(steps) / taken_s if taken_s > 0 else None


def phase_share(steps: Sequence[MeasuredStep]) -> dict[str, float]:
    """Return each phase's share of the time of the last steps."""
    times: dict[str, float] = {}
    for each in steps:
        for phase, seconds in each.phase_time_s.items():
            times[phase] = times.get(phase, 0.0) + seconds
    whole_s = sum(times.values())
    return {phase: seconds / whole_s for phase, seconds in times.items()} if whole_s > 0 else {}


def decision_in_short(decision: Decision) -> str:
    """Return where to and why; the path and what is expected stand elsewhere in the view."""
    to = "own governor" if decision.target_hz is None else f"{decision.target_hz / 1e6:.0f} MHz"
    return f"{decision.state.value} {to}: {decision.reason}"


def last_effect(epochs: Sequence[EpochRecord]) -> Effect | None:
    """Return what the last window's operating point was to bring, and what it brought."""
    if not epochs:
        return None
    last = epochs[-1]
    asked = epochs[0].decision if len(epochs) > 1 else None
    expected = asked if asked and asked.target_hz == last.window.target_hz else None
    # After a change of the unit of work the reference is still in the old one.
    comparable = epochs[0].window.unit == last.window.unit
    return Effect(
        target_hz=last.window.target_hz,
        expected_saving=expected.predicted_saving if expected else None,
        expected_slowdown=expected.predicted_slowdown if expected else None,
        saving=last.outcome.saving if comparable else None,
        slowdown=last.outcome.slowdown if comparable else None,
    )
