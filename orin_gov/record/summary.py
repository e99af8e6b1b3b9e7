"""The summary of a run: what it took, what was saved, and how well that is known."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from orin_gov._sampler import RailQuality
from orin_gov.board.probe import Board
from orin_gov.engine import EpochRecord, Tally
from orin_gov.policy.governor import State
from orin_gov.policy.objective import Objective
from orin_gov.policy.saving import Change, relative_to_baseline
from orin_gov.policy.window import Window


def summarize(
    tally: Tally,
    board: Board,
    objective: Objective,
    quality: Sequence[RailQuality],
    sweeps: int,
    elapsed_s: float,
    dropped_marks: int,
) -> dict[str, Any]:
    """Return the figures of a run as a tree of plain values: SI units, shares, None for missing."""
    governed, baseline = split_windows(tally.epochs)
    energy_change, time_change = relative_to_baseline(governed, baseline)
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
        "energy_change": _as_dict(energy_change),
        "time_change": _as_dict(time_change),
        "windows_governed": len(governed),
        "windows_baseline": len(baseline),
        "max_slowdown": objective.max_slowdown,
        "clock_s": {str(hz): seconds for hz, seconds in sorted(tally.clock_s.items())},
        "frequency_changes": len(tally.transitions),
        "warnings": list(tally.warnings),
        "sampler": {
            "sweeps": sweeps,
            "rate_hz": sweeps / elapsed_s if elapsed_s else None,
            "averaging": board.averaging,
            "rails": {
                rail.label: dict(each._asdict())
                for rail, each in zip(board.rails, quality, strict=True)
            },
        },
        "dropped_marks": dropped_marks,
    }


def split_windows(epochs: Sequence[EpochRecord]) -> tuple[list[Window], list[Window]]:
    """Return the governed windows and the baseline windows; warm-up is in neither.

    Where the unit of work has changed, only windows of the last unit can be compared.
    """
    comparable = [epoch for epoch in epochs if epoch.window.unit == epochs[-1].window.unit]
    governed = [epoch.window for epoch in comparable if epoch.window.target_hz is not None]
    baseline = [epoch.window for epoch in comparable if epoch.state is State.BASELINE]
    return governed, baseline


def _as_dict(found: Change | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
