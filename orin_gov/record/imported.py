"""A run directory from a log that another tool wrote: samples, a manifest and a summary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orin_gov import __version__
from orin_gov.board.modules import MODULE_NAMES
from orin_gov.energy import Floats
from orin_gov.errors import RunDirectoryError
from orin_gov.measured import known
from orin_gov.record.tegrastats import Log
from orin_gov.record.writer import RunWriter, create_run_directory

LONGEST_GAP = 3.0
"""Lines further apart than so many usual distances are not joined by a line."""


def write_imported(
    path: Path, source: Path, log: Log, total: Sequence[str] | None, module: str | None
) -> dict[str, Any]:
    """Write the run directory `path` of a log and return its summary.

    Raises:
        RunDirectoryError: it exists already, or cannot be made or written.
    """
    power_w = _power_w(log)
    summary = _summary(log, power_w, total, module)
    create_run_directory(path)
    with RunWriter(path, log.rails) as writer:
        writer.manifest(_manifest(source, log, total, module))
        for time_s, line in zip(log.times_s, log.lines, strict=True):
            watts = {label: milli / 1000 for label, milli in line.power_mw.items()}
            writer.reading(round(time_s * 1e9), line.clock_hz, watts)
        writer.summary(summary)
    if writer.fault:
        raise RunDirectoryError(writer.fault)
    return summary


def _power_w(log: Log) -> Floats:
    """Return watts, [lines, rails]; NaN where a line lacks the rail."""
    return np.array(
        [[line.power_mw.get(rail, np.nan) for rail in log.rails] for line in log.lines]
    ).reshape(len(log.lines), len(log.rails)) / np.float64(1000)


def energy_j(times_s: Floats, power_w: Floats) -> Floats:
    """Return joules by rail: the trapezoid between readings that are not too far apart.

    NaN stands for a rail with fewer than two readings.
    """
    joules = np.full(power_w.shape[1], np.nan)
    for rail in range(power_w.shape[1]):
        read = ~np.isnan(power_w[:, rail])
        spans, watts = np.diff(times_s[read]), power_w[read, rail]
        if len(spans):
            joined = spans <= LONGEST_GAP * np.median(spans)
            joules[rail] = ((watts[1:] + watts[:-1]) / 2 * spans)[joined].sum()
    return joules


def _summary(
    log: Log, power_w: Floats, total: Sequence[str] | None, module: str | None
) -> dict[str, Any]:
    joules = energy_j(np.array(log.times_s), power_w)
    by_rail = {rail: known(value) for rail, value in zip(log.rails, joules.tolist(), strict=True)}
    whole = known(float(sum(joules[log.rails.index(label)] for label in total))) if total else None
    return {
        "board": _board(module),
        "virtual": None,
        "elapsed_s": log.times_s[-1],
        "epochs": 0,
        "steps": 0,
        "energy_j": whole,
        "rail_energy_j": by_rail,
        "warnings": [f"{log.skipped} lines were none of tegrastats"] if log.skipped else [],
    }


def _manifest(
    source: Path, log: Log, total: Sequence[str] | None, module: str | None
) -> dict[str, Any]:
    stamp = log.lines[0].stamp
    return {
        "orin_gov": __version__,
        "name": source.name,
        "source": "tegrastats",
        "started": stamp.isoformat() if stamp else None,
        "clock_ns": 0,
        "board": _board(module),
        "module": module,
        "virtual": None,
        "l4t": None,
        "table_hz": [],
        "rails": list(log.rails),
        "total_rails": list(total) if total else None,
        "objective": None,
        "governing": False,
        "policy": None,
    }


def _board(module: str | None) -> str:
    return MODULE_NAMES.get(module or "", "unknown Jetson (a log of tegrastats)")
