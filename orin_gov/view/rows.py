"""The tables of a report, as rows of words: rails, phases, decisions, and runs side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from orin_gov.phases import PHASES
from orin_gov.record.run import Run
from orin_gov.view.facts import DASH, change, duration, energy, number
from orin_gov.view.lines import megahertz
from orin_gov.view.series import column

MOST_DECISIONS = 240
"""Rows of decisions on a page; beyond them the middle of the run is left to the export."""


def rail_rows(run: Run, figures: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row by rail: its mean power, and what the sampler says of it."""
    quality = (figures.get("sampler") or {}).get("rails") or {}
    rows = []
    for rail in run.rails:
        power = column(run.samples, f"power_{rail}_w")
        known = power[power == power]
        counts = quality.get(rail) or {}
        reads = counts.get("reads") or 0
        repeats = counts.get("repeats")
        rows.append(
            {
                "rail": rail,
                "power": number(float(known.mean()), "W") if len(known) else DASH,
                "missing": f"{1 - len(known) / len(power):.1%}" if len(power) else DASH,
                "reads": f"{reads:,}" if reads else DASH,
                "repeats": f"{repeats / reads:.0%}" if reads and repeats is not None else DASH,
                "gaps": f"{counts['gaps']:,}" if "gaps" in counts else DASH,
                "errors": f"{counts['errors']:,}" if "errors" in counts else DASH,
            }
        )
    return rows


def phase_rows(run: Run) -> list[dict[str, str]]:
    """Return a row by phase that occurred: time and energy of a mean step, and their shares."""
    steps = run.steps
    rows: list[dict[str, str]] = []
    if not steps.num_rows:
        return rows
    total_s = column(steps, "duration_s").sum()
    for phase in PHASES:
        seconds, joules = (
            column(steps, f"{kind}_{phase}_{u}") for kind, u in (("time", "s"), ("energy", "j"))
        )
        known = joules[joules == joules]
        if not seconds.sum() > 0:
            continue
        mean_j = float(known.mean()) if len(known) else None
        busy_s = seconds[joules == joules].sum()
        rows.append(
            {
                "phase": phase,
                "time": number(float(seconds.mean()), "s"),
                "share": f"{seconds.sum() / total_s:.0%}",
                "energy": number(mean_j, "J"),
                "power": number(float(known.sum() / busy_s), "W") if busy_s else DASH,
            }
        )
    return rows


def decision_rows(run: Run) -> tuple[list[dict[str, Any]], int]:
    """Return the decisions as rows, and how many the middle of the run has beyond those.

    Windows that hold the same clock one after another share a row.
    """
    rows: list[dict[str, Any]] = []
    for each in run.decisions:
        row = _decision_row(run, each)
        if rows and row["quiet"] and rows[-1]["quiet"] and rows[-1]["same"] == row["same"]:
            row["first"] = rows[-1]["first"]
            rows[-1] = row
        else:
            rows.append(row)
    beyond = len(rows) - MOST_DECISIONS
    if beyond <= 0:
        return rows, 0
    half = MOST_DECISIONS // 2
    return rows[:half] + rows[-half:], beyond


def _decision_row(run: Run, each: Mapping[str, Any]) -> dict[str, Any]:
    measured, decision = each["measured"], each["decision"]
    steps = measured.get("steps") or 0
    seconds, joules = measured.get("duration_s"), measured.get("energy_j")
    share = (
        _signed(decision.get("predicted_saving"), -1),
        _signed(decision.get("predicted_slowdown")),
    )
    end_ns = measured.get("end_ns")
    return {
        "first": each["epoch"],
        "last": each["epoch"],
        "at": DASH if end_ns is None else duration((end_ns - run.origin_ns) * 1e-9),
        "state": measured.get("state"),
        "clock": megahertz(measured.get("target_hz") or measured.get("clock_hz")),
        "own": measured.get("target_hz") is None,
        "disturbed": measured.get("disturbed") or "",
        "time": number(seconds / steps if steps and seconds else None, "s"),
        "slowdown": _signed(measured.get("slowdown")),
        "energy": number(joules / steps if steps and joules is not None else None, "J"),
        "saved": _signed(measured.get("saving"), -1),
        "next": decision.get("state"),
        "target": "own governor"
        if decision.get("target_hz") is None
        else megahertz(decision["target_hz"]),
        "reason": decision.get("reason") or "",
        "path": list(decision.get("path") or ()),
        "expects": f"{share[0]} energy, {share[1]} time" if DASH not in share else "",
        "quiet": measured.get("state") == decision.get("state")
        and not decision.get("path")
        and not measured.get("disturbed"),
        "same": (measured.get("state"), measured.get("target_hz"), decision.get("target_hz")),
    }


def _signed(share: float | None, sign: int = 1) -> str:
    return DASH if share is None else f"{sign * share:+.1%}"


def comparison(
    runs: Sequence[Run], figures: Sequence[Mapping[str, Any]]
) -> list[tuple[str, list[str]]]:
    """Return the rows of a table with a column by run."""

    def top_clock(found: Mapping[str, Any]) -> str:
        clock_s = found.get("clock_s") or {}
        total = sum(clock_s.values())
        if not total:
            return DASH
        hz = max(clock_s, key=lambda key: clock_s[key])
        return f"{megahertz(int(hz))}, {clock_s[hz] / total:.0%} of the time"

    return [
        ("board", [str(run.manifest.get("board") or "unknown") for run in runs]),
        (
            "objective",
            [str((run.manifest.get("objective") or {}).get("name") or DASH) for run in runs],
        ),
        ("energy", [change(each.get("energy_change")) for each in figures]),
        ("time", [change(each.get("time_change")) for each in figures]),
        ("steps", [f"{each.get('steps') or 0:,}" for each in figures]),
        ("energy of a step", [number(each.get("step_energy_j"), "J") for each in figures]),
        ("time of a step", [number(each.get("step_time_s"), "s") for each in figures]),
        (
            "energy of all steps",
            [energy(each.get("steps_energy_j", each.get("energy_j"))) for each in figures],
        ),
        ("run", [duration(each.get("elapsed_s")) for each in figures]),
        ("most used clock", [top_clock(each) for each in figures]),
        ("warnings", [str(len(each.get("warnings") or ())) for each in figures]),
    ]
