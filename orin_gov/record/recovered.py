"""The figures of a run that has no summary, from what it had written."""

from typing import Any

import numpy as np
import pyarrow as pa

from orin_gov.policy.decision import State
from orin_gov.policy.saving import relative_to_baseline
from orin_gov.policy.window import Window
from orin_gov.record.run import Run

OWN_STATES = (State.BASELINE.value, State.FALLBACK.value)


def figures_of(run: Run) -> dict[str, Any]:
    """Return the run's summary, or what of it can be told from its records."""
    return run.summary if run.summary is not None else recover(run)


def recover(run: Run) -> dict[str, Any]:
    """Return the figures of a summary, as far as steps, samples and decisions tell them."""
    governed, baseline = _windows(run)
    energy, time = relative_to_baseline(governed, baseline)
    objective = run.manifest.get("objective") or {}
    return {
        "board": run.manifest.get("board"),
        "virtual": run.manifest.get("virtual"),
        "elapsed_s": _elapsed_s(run),
        "epochs": len(run.decisions),
        **_steps(run.steps),
        "unit": (governed or baseline)[-1].unit if governed or baseline else None,
        "energy_change": None if energy is None else vars(energy),
        "time_change": None if time is None else vars(time),
        "windows_governed": len(governed),
        "windows_baseline": len(baseline),
        "max_slowdown": objective.get("max_slowdown"),
        "clock_s": clock_seconds(run.samples),
        "warnings": [],
    }


def _steps(steps: pa.Table) -> dict[str, Any]:
    count = steps.num_rows
    seconds = _column(steps, "duration_s")
    joules = _column(steps, "energy_j")
    measured = int((~np.isnan(joules)).sum())
    return {
        "steps": count,
        "steps_with_energy": measured,
        "step_time_s": float(seconds.mean()) if count else None,
        "steps_time_s": float(seconds.sum()) if count else None,
        "step_energy_j": float(np.nanmean(joules)) if measured else None,
        "steps_energy_j": float(np.nansum(joules)) if measured else None,
    }


def _column(table: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    column = table[name].cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _elapsed_s(run: Run) -> float | None:
    lasts = [
        table[name][-1].as_py()
        for table, name in ((run.samples, "t_ns"), (run.steps, "end_ns"))
        if table.num_rows
    ]
    return (max(lasts) - run.origin_ns) * 1e-9 if lasts else None


def clock_seconds(samples: pa.Table) -> dict[str, float]:
    """Return seconds by clock in Hz, from the samples."""
    if not samples.num_rows:
        return {}
    t_ns = samples["t_ns"].to_numpy()
    clock = _column(samples, "clock_hz")
    spans_s = np.diff(t_ns, prepend=t_ns[:1]) * 1e-9
    known = ~np.isnan(clock)
    values, places = np.unique(clock[known], return_inverse=True)
    sums = np.bincount(places, spans_s[known], len(values))
    return {str(int(hz)): float(s) for hz, s in zip(values, sums, strict=True)}


def _windows(run: Run) -> tuple[list[Window], list[Window]]:
    """Return governed and baseline windows of the last unit of work, as the summary splits them.

    What heat or over-current has touched is in neither.
    """
    known = [each["measured"] for each in run.decisions if not each["measured"].get("disturbed")]
    known = [each for each in known if each.get("unit") == known[-1].get("unit")]
    governed = [_window(each) for each in known if each.get("target_hz") is not None]
    own = [_window(each) for each in known if _is_baseline(each)]
    return governed, own


def _is_baseline(measured: dict[str, Any]) -> bool:
    return measured.get("target_hz") is None and measured.get("state") in OWN_STATES


def _window(measured: dict[str, Any]) -> Window:
    return Window(
        start_ns=measured.get("begin_ns", 0),
        end_ns=measured.get("end_ns", 0),
        duration_s=measured["duration_s"],
        target_hz=measured.get("target_hz"),
        steps=measured.get("steps", 0),
        work=measured.get("work"),
        unit=measured.get("unit") or "step",
        energy_j=measured.get("energy_j"),
    )
