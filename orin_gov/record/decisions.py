"""A decision epoch as one line of decisions.jsonl."""

from orin_gov.tally import EpochRecord


def as_json(record: EpochRecord) -> dict[str, object]:
    """Return the epoch as what decisions.jsonl holds: SI units, shares, None for missing."""
    window, outcome, decision = record.window, record.outcome, record.decision
    return {
        "epoch": record.number,
        "measured": {
            "state": record.state.value,
            "target_hz": window.target_hz,
            "clock_hz": window.frequency_hz,
            "begin_ns": window.start_ns,
            "end_ns": window.end_ns,
            "duration_s": window.duration_s,
            "steps": window.steps,
            "work": window.work,
            "unit": window.unit,
            "energy_j": window.energy_j,
            "load": window.load,
            "coarseness": window.coarseness,
            "phase_time_s": dict(window.phase_time_s),
            "phase_energy_j": dict(window.phase_energy_j),
            "operations_per_step": dict(window.operations_per_step),
            "bytes_per_step": dict(window.bytes_per_step),
            "launches_per_step": dict(window.launches_per_step),
            "operations_by_shapes": window.by_shapes,
            "sensitivity": window.sensitivity,
            "power_range_w": window.power_range_w,
            "surroundings": vars(window.surroundings),
            "rail_energy_j": dict(window.rail_energy_j),
            "slowdown": outcome.slowdown,
            "saving": outcome.saving,
            "over_current_events": dict(record.over_current),
            "disturbed": window.disturbed,
        },
        "decision": {
            "state": decision.state.value,
            "target_hz": decision.target_hz,
            "reason": decision.reason,
            "path": list(decision.path),
            "predicted_saving": decision.predicted_saving,
            "predicted_slowdown": decision.predicted_slowdown,
        },
    }
