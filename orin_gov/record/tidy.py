"""A run as tidy tables: one fact a row, typed, in SI units, with keys that join.

Each function yields a table in parts, so that a day's samples never stand in memory at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orin_gov.energy import Floats
from orin_gov.phases import PHASES
from orin_gov.record.characterization import read_measurements
from orin_gov.record.dictionary import MOMENT, schema_of
from orin_gov.record.recovered import figures_of
from orin_gov.record.run import Run, is_characterization

ROWS = 100_000
Parts = Iterator[pa.Table]


def runs(run: Run, key: str) -> Parts:
    """Yield the one row of a run."""
    manifest, figures = run.manifest, figures_of(run)
    objective = manifest.get("objective") or {}
    mode = (manifest.get("conditions") or {}).get("power_mode") or {}
    row = {
        **{name: manifest.get(name) for name in ("board", "module", "virtual", "l4t", "orin_gov")},
        **{name: figures.get(name) for name in schema_of("runs").names if name in figures},
        "run": key,
        "kind": "characterization" if is_characterization(run.path) else "run",
        "name": manifest.get("name"),
        "begin": run.started,
        "virtual": manifest.get("virtual"),
        "power_mode": mode.get("name"),
        "objective": objective.get("name"),
        "max_slowdown": objective.get("max_slowdown"),
        "power_cap_w": objective.get("power_cap_w"),
        "governing": manifest.get("governing"),
        "complete": not run.notes,
        "warnings": len(figures.get("warnings") or ()),
        **_change(figures, "energy_change"),
        **_change(figures, "time_change"),
    }
    yield from _rows("runs", [row])


def _change(figures: Mapping[str, Any], key: str) -> dict[str, float | None]:
    found = figures.get(key) or {}
    return {
        key: found.get("value"),
        f"{key}_low": found.get("low"),
        f"{key}_high": found.get("high"),
    }


def steps(run: Run, key: str) -> Parts:
    """Yield a row by step."""
    for part in _chunks(run.steps):
        begin_ns = part["begin_ns"].to_numpy()
        yield _table(
            "steps",
            part.num_rows,
            run=key,
            **_same(part, "step", "epoch", "duration_s", "work", "target_hz", "energy_j"),
            begin=_moments(run, begin_ns),
            begin_s=_since(run, begin_ns),
            end_s=_since(run, part["end_ns"].to_numpy()),
        )


def phases(run: Run, key: str) -> Parts:
    """Yield a row by step and phase that occurred in it."""
    for part in _chunks(run.steps):
        for phase in PHASES:
            if f"time_{phase}_s" not in part.column_names:
                continue
            spent = part.filter(pc.greater(part[f"time_{phase}_s"], 0.0))
            yield _table(
                "phases",
                spent.num_rows,
                run=key,
                step=spent["step"],
                phase=phase,
                time_s=spent[f"time_{phase}_s"],
                energy_j=_column(spent, f"energy_{phase}_j"),
            )


def rails(run: Run, key: str) -> Parts:
    """Yield a row by step and rail."""
    total = run.manifest.get("total_rails")
    for part in _chunks(run.steps):
        for rail in run.rails:
            yield _table(
                "rails",
                part.num_rows,
                run=key,
                step=part["step"],
                rail=rail,
                in_total=None if not total else rail in total,
                energy_j=_column(part, f"energy_{rail}_j"),
            )


def samples(run: Run, key: str) -> Parts:
    """Yield a row by sample and rail."""
    for part in _chunks(run.samples):
        t_ns = part["t_ns"].to_numpy()
        for rail in run.rails:
            yield _table(
                "samples",
                part.num_rows,
                run=key,
                time=_moments(run, t_ns),
                time_s=_since(run, t_ns),
                rail=rail,
                power_w=part[f"power_{rail}_w"],
            )


def decisions(run: Run, key: str) -> Parts:
    """Yield a row by decision epoch: what was measured, and what was decided then."""
    names = set(schema_of("decisions").names)
    rows = []
    for each in run.decisions:
        measured, decided = each["measured"], each["decision"]
        edges = [measured.get(name) for name in ("begin_ns", "end_ns")]
        row = {name: value for name, value in measured.items() if name in names}
        row |= {
            "run": key,
            "epoch": each["epoch"],
            "begin": None if edges[0] is None else _moment(run, edges[0]),
            "begin_s": None if edges[0] is None else (edges[0] - run.origin_ns) * 1e-9,
            "end_s": None if edges[1] is None else (edges[1] - run.origin_ns) * 1e-9,
            "decided_state": decided.get("state"),
            "decided_target_hz": decided.get("target_hz"),
            "reason": decided.get("reason"),
            "path": " and ".join(decided.get("path") or ()) or None,
            "predicted_saving": decided.get("predicted_saving"),
            "predicted_slowdown": decided.get("predicted_slowdown"),
        }
        rows.append(row)
    yield from _rows("decisions", rows)


def frequencies(run: Run, key: str) -> Parts:
    """Yield a row by stretch of time in which the clock read the same."""
    if run.samples.num_rows < 2:
        return
    t_ns = run.samples["t_ns"].to_numpy()
    # A sample tells the clock of the interval that ends with it.
    clock = run.samples["clock_hz"].fill_null(-1).to_numpy()[1:]
    changes = np.flatnonzero(np.diff(clock)) + 1
    first = np.concatenate([[0], changes])
    last = np.concatenate([changes, [len(clock)]])
    held = clock[first]
    yield _table(
        "frequencies",
        len(first),
        run=key,
        begin=_moments(run, t_ns[first]),
        begin_s=_since(run, t_ns[first]),
        end_s=_since(run, t_ns[last]),
        duration_s=(t_ns[last] - t_ns[first]) * 1e-9,
        clock_hz=pa.array(held, pa.int64(), mask=held < 0),
    )


def measurements(run: Run, key: str) -> Parts:
    """Yield a row by measurement of a characterization."""
    if is_characterization(run.path):
        rows = [{**asdict(each), "run": key} for each in read_measurements(run.path)]
        yield from _rows("measurements", rows)


MAKERS: Mapping[str, Callable[[Run, str], Parts]] = {
    "runs": runs,
    "steps": steps,
    "phases": phases,
    "rails": rails,
    "samples": samples,
    "decisions": decisions,
    "frequencies": frequencies,
    "measurements": measurements,
}
"""How each table of the dictionary is made of a run; the second argument is the run's key."""


def _chunks(table: pa.Table) -> Iterator[pa.Table]:
    for begin in range(0, table.num_rows, ROWS):
        yield table.slice(begin, ROWS)


def _rows(table: str, rows: list[dict[str, Any]]) -> Parts:
    schema = schema_of(table)
    wanted = [{name: row.get(name) for name in schema.names} for row in rows]
    if wanted:
        yield pa.Table.from_pylist(wanted, schema=schema)


def _table(name: str, rows: int, **columns: Any) -> pa.Table:
    """Return a table of the dictionary; a plain value stands for all rows."""
    schema = schema_of(name)
    arrays = []
    for field in schema:
        value = columns[field.name]
        if value is None or isinstance(value, str | bool):
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        elif isinstance(value, np.ndarray):
            arrays.append(pa.array(value, field.type))
        else:
            arrays.append(value.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _same(part: pa.Table, *names: str) -> dict[str, Any]:
    return {name: _column(part, name) for name in names}


def _column(part: pa.Table, name: str) -> Any:
    return part[name] if name in part.column_names else None


def _since(run: Run, t_ns: Any) -> Floats:
    return np.asarray((t_ns - run.origin_ns) * 1e-9)


def _moments(run: Run, t_ns: Any) -> Any:
    started = run.started
    if started is None:
        return None
    begin_us = round(started.timestamp() * 1e6)
    return pa.array(begin_us + (t_ns - run.origin_ns) // 1000, pa.int64()).cast(MOMENT)


def _moment(run: Run, t_ns: int) -> Any:
    started = run.started
    return (
        None
        if started is None
        else started + timedelta(microseconds=(t_ns - run.origin_ns) // 1000)
    )
