"""The data dictionary of an export: each table's columns with type, unit and meaning.

The one place that says so: the files' types, dictionary.* beside them and the manual come from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

TEXT, INTEGER, REAL, TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()
MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Column:
    """One column; `unit` is empty for what has none, `key` says how the table joins by it."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    key: str = ""


RUN = Column("run", TEXT, "", "the run: its directory's name", "runs.run")
STEP = Column("step", INTEGER, "", "the step, counted from 0", "steps.run, step")
BEGIN = Column("begin", MOMENT, "", "when it began; missing where the start is not known")
BEGIN_S = Column("begin_s", REAL, "s", "when it began, since the start of the run")
END_S = Column("end_s", REAL, "s", "when it ended, since the start of the run")
TARGET = Column(
    "target_hz", INTEGER, "Hz", "the clock that was held; missing: the board's own governor"
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "runs": (
        Column("run", TEXT, "", "the run: its directory's name", "primary key"),
        Column("kind", TEXT, "", "run, or characterization"),
        Column("name", TEXT, "", "the script"),
        BEGIN,
        Column("board", TEXT, "", "the board by its name"),
        Column("module", TEXT, "", "the module's part number"),
        Column("virtual", TEXT, "", "the virtual board; missing on a real one"),
        Column("l4t", TEXT, "", "the release of Jetson Linux"),
        Column("power_mode", TEXT, "", "the power mode of nvpmodel"),
        Column("objective", TEXT, "", "energy, edp, ed2p or time"),
        Column("max_slowdown", REAL, "1", "how much slower a step was allowed to become, a share"),
        Column("power_cap_w", REAL, "W", "the most a window's mean power was allowed to be"),
        Column("governing", TRUTH, "", "whether clocks were written"),
        Column("orin_gov", TEXT, "", "the version that made the run"),
        Column("complete", TRUTH, "", "whether the run had ended and nothing of it is missing"),
        Column("elapsed_s", REAL, "s", "how long the run lasted"),
        Column("steps", INTEGER, "1", "optimizer steps"),
        Column("steps_with_energy", INTEGER, "1", "those of them whose energy was measured"),
        Column("steps_time_s", REAL, "s", "time of all steps, without evaluation and checkpoints"),
        Column("steps_energy_j", REAL, "J", "energy of the steps that were measured"),
        Column("step_time_s", REAL, "s", "time of a mean step"),
        Column("step_energy_j", REAL, "J", "energy of a mean step"),
        Column("unit", TEXT, "", "what the changes are per: a unit of work (token, sample) or a step"),
        Column("energy_change", REAL, "1", "energy against the run's own baseline; -0.12 is 12 % less"),
        Column("energy_change_low", REAL, "1", "lower end of its 95 % interval"),
        Column("energy_change_high", REAL, "1", "upper end of its 95 % interval"),
        Column("time_change", REAL, "1", "time against the run's own baseline"),
        Column("time_change_low", REAL, "1", "lower end of its 95 % interval"),
        Column("time_change_high", REAL, "1", "upper end of its 95 % interval"),
        Column("windows_governed", INTEGER, "1", "windows in which a target was held"),
        Column("windows_baseline", INTEGER, "1", "windows of the baseline"),
        Column("dropped_marks", INTEGER, "1", "marks of phases that were lost"),
        Column("warnings", INTEGER, "1", "warnings that were told"),
    ),
    "steps": (
        RUN,
        Column("step", INTEGER, "", "the step, counted from 0", "primary key with run"),
        Column("epoch", INTEGER, "", "the decision epoch it lies in", "decisions.run, epoch"),
        BEGIN,
        BEGIN_S,
        END_S,
        Column("duration_s", REAL, "s", "its time, without evaluation and checkpoints in between"),
        Column("work", REAL, "1", "its tokens or samples; missing where they are not known"),
        Column(
            "target_hz",
            INTEGER,
            "Hz",
            "the clock that was held as it began; missing: the board's own governor",
        ),
        Column("energy_j", REAL, "J", "energy of the module; missing where it was not measured"),
    ),
    "phases": (
        RUN,
        STEP,
        Column("phase", TEXT, "", "idle, data, forward, backward or optimizer"),
        Column("time_s", REAL, "s", "time in it; a phase that did not occur has no row"),
        Column("energy_j", REAL, "J", "energy of the module in it; missing where not measured"),
    ),
    "rails": (
        RUN,
        STEP,
        Column("rail", TEXT, "", "the rail's label"),
        Column("in_total", TRUTH, "", "whether the module's energy counts it; missing: not known"),
        Column("energy_j", REAL, "J", "energy of the rail in the step; missing where not measured"),
    ),
    "samples": (
        RUN,
        Column("time", MOMENT, "", "end of the interval; missing where the start is not known"),
        Column("time_s", REAL, "s", "the same, since the start of the run"),
        Column("rail", TEXT, "", "the rail's label"),
        Column("power_w", REAL, "W", "mean power since the sample before, about 50 ms"),
    ),
    "decisions": (
        RUN,
        Column("epoch", INTEGER, "", "the decision epoch, from 0", "primary key with run"),
        BEGIN,
        BEGIN_S,
        END_S,
        Column("state", TEXT, "", "what its window was measured for: baseline, verify, hold ..."),
        TARGET,
        Column("clock_hz", REAL, "Hz", "mean clock as it was read"),
        Column("duration_s", REAL, "s", "time of the steps in the window"),
        Column("steps", INTEGER, "1", "steps in the window"),
        Column("work", REAL, "1", "work in the window, in units of `unit`"),
        Column("unit", TEXT, "", "unit of work (token, sample), step, or busy cycle of the GPU"),
        Column("energy_j", REAL, "J", "energy of the module in those steps"),
        Column("load", REAL, "1", "share of the time in which the GPU was busy"),
        Column("saving", REAL, "1", "energy saved per unit against the frozen baseline, a share"),
        Column("slowdown", REAL, "1", "time lost per unit against the frozen baseline, a share"),
        Column("disturbed", TEXT, "", "heat or over-current that touched it; missing: nothing did"),
        Column("decided_state", TEXT, "", "what the next window is for"),
        Column("decided_target_hz", INTEGER, "Hz", "its clock; missing: the board's own governor"),
        Column("reason", TEXT, "", "why, in words"),
        Column("path", TEXT, "", "the way through the tree, conditions joined by `and`"),
        Column("predicted_saving", REAL, "1", "what the tree promises"),
        Column("predicted_slowdown", REAL, "1", "what the tree promises"),
    ),
    "frequencies": (
        RUN,
        BEGIN,
        BEGIN_S,
        END_S,
        Column("duration_s", REAL, "s", "how long the clock stayed; sums are the time at each clock"),
        Column("clock_hz", INTEGER, "Hz", "the clock as it was read; missing where it was not"),
    ),
    "measurements": (
        RUN,
        Column("workload", TEXT, "", "what was characterized"),
        TARGET,
        Column("round", INTEGER, "", "the round over the operating points"),
        Column("clock_hz", REAL, "Hz", "mean clock as it was read"),
        Column("steps", INTEGER, "1", "steps in the window"),
        Column("work", REAL, "1", "work in the window, in units of `unit`"),
        Column("unit", TEXT, "", "unit of work, step or busy cycle"),
        Column("duration_s", REAL, "s", "time of the steps in the window"),
        Column("energy_j", REAL, "J", "energy of the module in those steps"),
        Column("load", REAL, "1", "share of the time in which the GPU was busy"),
        Column("temperature_c", REAL, "°C", "the GPU's temperature at the end"),
    ),
}  # fmt: skip
"""The tables of an export, by name. Missing is null, never zero."""


def schema_of(table: str) -> pa.Schema:
    """Return the table's schema; each field carries its unit and meaning as metadata."""
    return pa.schema(
        [
            pa.field(each.name, each.type, metadata={"unit": each.unit, "meaning": each.meaning})
            for each in TABLES[table]
        ]
    )


def dictionary_rows() -> Iterator[dict[str, str]]:
    """Yield the dictionary itself as rows: one a column of each table."""
    for table, columns in TABLES.items():
        for each in columns:
            yield {
                "table": table,
                "column": each.name,
                "type": str(each.type),
                "unit": each.unit,
                "key": each.key,
                "meaning": each.meaning,
            }


def dictionary_markdown() -> str:
    """Return the dictionary as it stands in the manual."""
    parts = []
    for table, columns in TABLES.items():
        lines = [f"### {table}", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
        for each in columns:
            key = f" ({each.key})" if each.key else ""
            lines.append(f"| `{each.name}` | {each.type} | {each.unit} | {each.meaning}{key} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
