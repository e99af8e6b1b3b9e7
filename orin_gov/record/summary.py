"""The summary of a run: what it took, what was saved, and how well that is known."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from orin_gov._actuator import Transition
from orin_gov._sampler import RailQuality
from orin_gov.board.probe import Board
from orin_gov.engine import EpochRecord, Tally
from orin_gov.policy.decision import State
from orin_gov.policy.objective import Objective
from orin_gov.policy.saving import (
    AgainstTop,
    Change,
    Expected,
    against_top,
    saving,
    why_no_saving,
)
from orin_gov.policy.window import Window


def summarize(
    tally: Tally,
    board: Board,
    objective: Objective,
    quality: Sequence[RailQuality],
    sweeps: int,
    elapsed_s: float,
    dropped_marks: int,
    believed_top: Expected | None = None,
) -> dict[str, Any]:
    """Return the figures of a run as a tree of plain values: SI units, shares, None for missing.

    `believed_top` is what the governor believes of the highest operating point.
    """
    governed, baseline = split_windows(tally.epochs)
    found = saving(governed, baseline)
    measured = tally.steps_with_energy
    return {
        "board": board.identity.title,
        "virtual": board.identity.virtual,
        "elapsed_s": elapsed_s,
        "epochs": len(tally.epochs),
        "steps": tally.steps,
        "step_time_s": tally.step_time_s / tally.steps if tally.steps else None,
        "step_energy_j": tally.step_energy_j / measured if measured else None,
        "steps_time_s": tally.step_time_s if tally.steps else None,
        "steps_energy_j": tally.step_energy_j if measured else None,
        "steps_with_energy": measured,
        "unit": governed[-1].unit if governed else baseline[-1].unit if baseline else None,
        "energy_change": _as_dict(found.energy),
        "time_change": _as_dict(found.time),
        "two_rail_energy_change": _as_dict(found.two_rail_energy),
        "against_top": _as_dict(against_top(governed, baseline, believed_top)),
        "why_no_saving": why_no_saving(len(governed), len(baseline), found.energy),
        "windows_governed": len(governed),
        "windows_baseline": len(baseline),
        "windows_disturbed": sum(bool(epoch.window.disturbed) for epoch in tally.epochs),
        "max_slowdown": objective.max_slowdown,
        "clock_s": {str(hz): seconds for hz, seconds in sorted(tally.clock_s.items())},
        "frequency_changes": len(tally.transitions),
        "switch_s": _latencies(tally.transitions),
        "over_current_events": _sums([epoch.over_current for epoch in tally.epochs]),
        "warnings": list(tally.warnings),
        "sampler": {
            "sweeps": sweeps,
            "rate_hz": sweeps / elapsed_s if elapsed_s else None,
            "averaging": board.averaging,
            "time_constant_s": board.time_constant_s,
            "resolves_phases": board.resolves_phases,
            "rails": {
                rail.label: dict(each._asdict())
                for rail, each in zip(board.rails, quality, strict=True)
            },
        },
        "dropped_marks": dropped_marks,
    }


def split_windows(epochs: Sequence[EpochRecord]) -> tuple[list[Window], list[Window]]:
    """Return the governed windows and the baseline windows; warm-up is in neither.

    Where the unit of work has changed, only windows of the last unit can be compared; what heat or
    over-current has touched cannot be compared at all.
    """
    unit = epochs[-1].window.unit if epochs else None
    comparable = [
        epoch for epoch in epochs if epoch.window.unit == unit and not epoch.window.disturbed
    ]
    governed = [epoch.window for epoch in comparable if epoch.window.target_hz is not None]
    # After a fallback, or where nothing is better, the board's own governor rules again: windows to
    # compare with as well.
    own = (State.BASELINE, State.FALLBACK, State.HOLD)
    baseline = [
        epoch.window
        for epoch in comparable
        if epoch.state in own and epoch.window.target_hz is None
    ]
    return governed, baseline


def _latencies(transitions: Sequence[Transition]) -> dict[str, float] | None:
    """Return how long this run's frequency changes took, from request to effect, in seconds."""
    taken = [
        (each.achieved_ns - each.requested_ns) * 1e-9
        for each in transitions
        if each.achieved_ns is not None
    ]
    if not taken:
        return None
    p50, p99 = np.percentile(taken, (50, 99)).tolist()
    return {"n": len(taken), "p50": p50, "p99": p99}


def _sums(counts: Sequence[Mapping[str, int | None]]) -> dict[str, int | None]:
    """Add up counts by name; None where one is missing."""
    totals: dict[str, int | None] = {}
    for name, count in (item for each in counts for item in each.items()):
        before = totals.get(name, 0)
        totals[name] = None if before is None or count is None else before + count
    return totals


def _as_dict(found: Change | AgainstTop | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
