"""The summary of a run: what it took, what was saved, and how well that is known."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from orin_gov._sampler import RailQuality
from orin_gov.board.probe import Board
from orin_gov.policy.objective import Objective
from orin_gov.policy.saving import (
    AgainstTop,
    Change,
    Expected,
    against_top,
    saving,
    why_no_saving,
)
from orin_gov.tally import Tally


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
    governed, baseline = tally.compared()
    counts = tally.counts()
    found = saving(governed, baseline)
    measured = tally.steps_with_energy
    return {
        "board": board.identity.title,
        "virtual": board.identity.virtual,
        "elapsed_s": elapsed_s,
        "epochs": tally.epochs,
        "steps": tally.steps,
        "step_time_s": tally.step_time_s / tally.steps if tally.steps else None,
        "step_energy_j": tally.step_energy_j / measured if measured else None,
        "steps_time_s": tally.step_time_s if tally.steps else None,
        "steps_energy_j": tally.step_energy_j if measured else None,
        "steps_with_energy": measured,
        "unit": tally.unit if len(governed) + len(baseline) else None,
        "energy_change": _as_dict(found.energy),
        "time_change": _as_dict(found.time),
        "two_rail_energy_change": _as_dict(found.two_rail_energy),
        "against_top": _as_dict(against_top(governed, baseline, believed_top)),
        "why_no_saving": why_no_saving(*counts, found.energy),
        "windows_governed": counts[0],
        "windows_baseline": counts[1],
        "windows_disturbed": tally.disturbed,
        "max_slowdown": objective.max_slowdown,
        "clock_s": {str(hz): seconds for hz, seconds in sorted(tally.clock_s.items())},
        "frequency_changes": tally.clock_changes,
        "switch_s": _latencies([*tally.latencies_s]),
        "over_current_events": dict(tally.over_current),
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


def _latencies(taken_s: Sequence[float]) -> dict[str, float] | None:
    """Return how long this run's frequency changes took, from request to effect, in seconds."""
    if not taken_s:
        return None
    p50, p99 = np.percentile(taken_s, (50, 99)).tolist()
    return {"n": len(taken_s), "p50": p50, "p99": p99}


def _as_dict(found: Change | AgainstTop | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
