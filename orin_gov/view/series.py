"""What the figures of a run draw: its records as arrays, thinned to what a figure can show."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orin_gov.energy import Floats
from orin_gov.phases import PHASES
from orin_gov.record.run import Run

BINS = 700
"""Points of a curve: a figure as wide as a page has not many more dots."""


@dataclass(frozen=True)
class Curve:
    """A quantity over time in `t` seconds, thinned: mean, least and most of each bin."""

    t: Floats
    mean: Floats
    low: Floats
    high: Floats


def column(table: pa.Table, name: str) -> Floats:
    """Return a column as floats; NaN for what is missing, also where the column is."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    values = table[name].cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def since_start(run: Run, table: pa.Table, name: str) -> Floats:
    """Return a column of moments as seconds since the run began."""
    if not table.num_rows:
        return np.empty(0)
    return np.asarray((table[name].to_numpy() - run.origin_ns) * 1e-9)


def thin(t: Floats, values: Floats, bins: int = BINS) -> Curve:
    """Thin a curve to at most `bins` points; a bin without any reading is a gap (NaN)."""
    if len(t) <= bins:
        return Curve(t, values, values, values)
    edges = np.linspace(t[0], t[-1], bins + 1)
    place = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, bins - 1)
    known = ~np.isnan(values)
    counts = np.bincount(place[known], minlength=bins)
    sums = np.bincount(place[known], values[known], bins)
    low, high = np.full(bins, np.inf), np.full(bins, -np.inf)
    np.minimum.at(low, place[known], values[known])
    np.maximum.at(high, place[known], values[known])
    empty = counts == 0
    low[empty] = high[empty] = np.nan
    mean = np.where(empty, np.nan, sums / np.maximum(counts, 1))
    return Curve((edges[1:] + edges[:-1]) / 2, mean, low, high)


def rail_curves(run: Run) -> dict[str, Curve]:
    """Return power in watts by rail, and the `module`'s first where its rails are known."""
    if not run.samples.num_rows:
        return {}
    t = since_start(run, run.samples, "t_ns")
    powers = {rail: column(run.samples, f"power_{rail}_w") for rail in run.rails}
    curves = {}
    if run.total_rails:
        curves["module"] = thin(
            t, sum((powers[rail] for rail in run.total_rails), np.zeros(len(t)))
        )
    return curves | {rail: thin(t, power) for rail, power in powers.items()}


def clock_curve(run: Run) -> Curve | None:
    """Return the clock in Hz as it was read, or None where it never was."""
    clock = column(run.samples, "clock_hz")
    if np.isnan(clock).all():
        return None
    return thin(since_start(run, run.samples, "t_ns"), clock)


def phase_shares(run: Run, bins: int = BINS // 4) -> tuple[Floats, dict[str, Floats]]:
    """Return moments, and by phase its share of the steps' time then; phases never seen are out."""
    steps = run.steps
    if not steps.num_rows:
        return np.empty(0), {}
    t = since_start(run, steps, "end_ns")
    times = {phase: thin(t, column(steps, f"time_{phase}_s"), bins) for phase in PHASES}
    total = np.sum([np.nan_to_num(curve.mean) for curve in times.values()], axis=0)
    seen = {phase: curve for phase, curve in times.items() if np.nansum(curve.mean) > 0}
    moments = next(iter(times.values())).t
    with np.errstate(invalid="ignore"):
        return moments, {phase: curve.mean / total for phase, curve in seen.items()}


def state_spans(run: Run) -> list[tuple[float, float, bool]]:
    """Return begin, end in seconds, and whether a target was held, of each stretch of windows."""
    spans: list[tuple[float, float, bool]] = []
    for each in run.decisions:
        measured = each["measured"]
        if "begin_ns" not in measured or "end_ns" not in measured:
            continue
        begin, end = ((measured[key] - run.origin_ns) * 1e-9 for key in ("begin_ns", "end_ns"))
        governed = measured.get("target_hz") is not None
        if spans and spans[-1][2] == governed:
            spans[-1] = (spans[-1][0], end, governed)
        else:
            spans.append((begin, end, governed))
    return spans


@dataclass(frozen=True)
class AtClock:
    """What steps took at one target (None: the board's own governor), per unit of work."""

    target_hz: int | None
    clock_hz: float
    steps: int
    time_s: float
    time_error: float
    energy_j: float | None
    energy_error: float | None


def by_target(run: Run) -> list[AtClock]:
    """Return means over the steps at each target with their standard errors, own governor first.

    The unit is one of work where all steps tell theirs, else a step.
    """
    steps = run.steps
    if not steps.num_rows:
        return []
    target, work = column(steps, "target_hz"), column(steps, "work")
    unit = work if not np.isnan(work).any() else np.ones(len(work))
    seconds, joules = column(steps, "duration_s"), column(steps, "energy_j")
    found = []
    for hz in np.unique(np.nan_to_num(target)):
        chosen = np.nan_to_num(target) == hz
        time_s, time_error = _ratio(seconds[chosen], unit[chosen])
        measured = chosen & ~np.isnan(joules)
        energy = _ratio(joules[measured], unit[measured]) if measured.any() else (None, None)
        clock_hz = float(hz) or _own_clock(run)
        found.append(
            AtClock(int(hz) or None, clock_hz, int(chosen.sum()), time_s, time_error, *energy)
        )
    return found


def _ratio(values: Floats, units: Floats) -> tuple[float, float]:
    """Return the sum of values over the sum of units, and its standard error."""
    ratio = float(values.sum() / units.sum())
    if len(values) < 2:
        return ratio, 0.0
    residual = values - ratio * units
    error = np.sqrt(residual @ residual / (len(values) - 1) / len(values)) / units.mean()
    return ratio, float(error)


def _own_clock(run: Run) -> float:
    """Return the mean clock of the windows under the board's own governor, NaN if none tells."""
    measured = [each["measured"] for each in run.decisions]
    clocks = [
        each["clock_hz"]
        for each in measured
        if each.get("target_hz") is None and each.get("steps") and each.get("clock_hz")
    ]
    return float(np.mean(clocks)) if clocks else float("nan")
