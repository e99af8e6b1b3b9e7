"""Run directories for tests: a small one as the writer makes it, and a day's, made in a moment."""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orin_gov._sampler import Samples
from orin_gov.measured import MeasuredStep
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from orin_gov.record.writer import RunWriter
from orin_gov.tally import EpochRecord, Tally
from orin_gov.workload.tracker import Span, Step

RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO")
TOTAL = RAILS[:3]
TABLE_HZ = (306_000_000, 612_000_000, 918_000_000, 1_122_000_000, 1_300_500_000)
START_NS = 10**12
MS = 1_000_000
STEP_NS = 400 * MS
STEPS_OF_EPOCH = 10

LEFT_OPEN: list[RunWriter] = []
"""Writers of runs without an end: closed by nobody, as after a crash."""


def manifest(**other: Any) -> dict[str, Any]:
    """Return the manifest of a governed run on a virtual board."""
    return {
        "orin_gov": "0.1.0",
        "name": "train.py",
        "argv": ["orin-gov", "run", "train.py"],
        "started": "2026-03-01T08:00:00+0000",
        "clock_ns": START_NS,
        "board": "virtual board agx-orin-64gb (Jetson AGX Orin 64GB)",
        "module": "p3701-0005",
        "virtual": "agx-orin-64gb",
        "l4t": "36.4.7",
        "jetpack": "6.2.1",
        "table_hz": list(TABLE_HZ),
        "rails": list(RAILS),
        "total_rails": list(TOTAL),
        "objective": {"name": "energy", "max_slowdown": 0.1, "power_cap_w": None},
        "governing": True,
        "policy": {"fitted_on": "the virtual board"},
        **other,
    }


def summary(**other: Any) -> dict[str, Any]:
    """Return what such a run ends with."""
    return {
        "board": "virtual board agx-orin-64gb (Jetson AGX Orin 64GB)",
        "virtual": "agx-orin-64gb",
        "elapsed_s": 20.0,
        "epochs": 4,
        "steps": 40,
        "steps_with_energy": 39,
        "step_time_s": 0.4,
        "step_energy_j": 12.0,
        "steps_time_s": 16.0,
        "steps_energy_j": 468.0,
        "unit": "unit of work",
        "energy_change": {"value": -0.123, "low": -0.15, "high": -0.09},
        "time_change": {"value": 0.034, "low": 0.01, "high": 0.06},
        "windows_governed": 2,
        "windows_baseline": 2,
        "max_slowdown": 0.1,
        "clock_s": {"918000000": 10.0, "1300500000": 10.0},
        "warnings": ["a warning & its <reason>"],
        "sampler": {
            "sweeps": 4000,
            "rate_hz": 200.0,
            "rails": {
                rail: {"reads": 4000, "errors": 0, "repeats": 2000, "gaps": 1, "last_errno": 0}
                for rail in RAILS
            },
        },
        "dropped_marks": 0,
        **other,
    }


def step(number: int, energy_j: float | None = 12.0) -> MeasuredStep:
    """Return a step of four phases and 0.4 s; its module energy may be missing."""
    begin = START_NS + number * STEP_NS
    edges = [begin + ms * MS for ms in (0, 10, 150, 350, 400)]
    phases = (DATA, FORWARD, BACKWARD, OPTIMIZER)
    spans = tuple(map(Span, phases, edges, edges[1:]))
    known = energy_j is not None
    return MeasuredStep(
        step=Step(number, spans, 32.0),
        phase_time_s={"data": 0.01, "forward": 0.14, "backward": 0.2, "optimizer": 0.05},
        phase_energy_j={
            "data": 0.2,
            "forward": 4.0,
            "backward": 6.8 if known else None,
            "optimizer": 1.0,
        },
        rail_energy_j={rail: 4.0 if known else None for rail in RAILS},
        energy_j=energy_j,
    )


def decision(epoch: int) -> dict[str, Any]:
    """Return an epoch: two of baseline, then the tree's choice, then holding it."""
    target = None if epoch < 2 else TABLE_HZ[2]
    path = ["clock_share 0.95 > 0.88", "load 0.66 <= 0.71"] if epoch == 1 else []
    states = ["baseline", "baseline", "verify", "hold"]
    length_ns = STEPS_OF_EPOCH * STEP_NS
    return {
        "epoch": epoch,
        "measured": {
            "state": states[min(epoch, 3)],
            "target_hz": target,
            "clock_hz": 1.25e9 if target is None else float(target),
            "begin_ns": START_NS + epoch * length_ns,
            "end_ns": START_NS + (epoch + 1) * length_ns,
            "duration_s": 4.0,
            "steps": 10,
            "work": 320.0,
            "unit": "unit of work",
            "energy_j": 120.0 - 2 * epoch,
            "load": 0.9,
            "slowdown": None if epoch < 2 else 0.03,
            "saving": None if epoch < 2 else 0.12,
            "over_current_events": {"oc1": 0},
        },
        "decision": {
            "state": states[min(epoch + 1, 3)],
            "target_hz": None if epoch < 1 else TABLE_HZ[2],
            "reason": "the tree" if path else "12.0% gained, within budget",
            "path": path,
            "predicted_saving": 0.1 if path else None,
            "predicted_slowdown": 0.04 if path else None,
        },
    }


def samples(seconds: float) -> Samples:
    """Return what the sampler says of constant powers, each 10 ms."""
    count = round(seconds * 100)
    watts = np.array([25.0, 3.0, 7.0, 4.0])
    t_ns = START_NS + 10 * MS * np.arange(count, dtype=np.int64)
    energy = np.arange(count)[:, None] * watts * 0.01
    return Samples(t_ns, np.tile(watts, (count, 1)), energy, np.zeros((count, 4)))


def write_run(path: Path, epochs: int = 4, ended: bool = True, **other: Any) -> Path:
    """Write a small run as the engine does; `other` goes into the manifest."""
    path.mkdir(parents=True)
    writer = RunWriter(path, RAILS)
    LEFT_OPEN.append(writer)
    with writer if ended else nullcontext():
        writer.manifest(manifest(**other))
        writer.samples(samples(epochs * 4.0 + 0.1), TABLE_HZ[2])
        for epoch in range(epochs):
            target = None if epoch < 2 else TABLE_HZ[2]
            for index in range(STEPS_OF_EPOCH):
                number = epoch * STEPS_OF_EPOCH + index
                writer.step(step(number, None if number == 5 else 12.0), target, epoch)
            writer.decision(decision(epoch))
        if ended:
            writer.summary(summary())
    return path


def tally_of(epochs: Iterable[EpochRecord]) -> Tally:
    """Return what a run of these epochs adds up to."""
    tally = Tally()
    for each in epochs:
        tally.add_epoch(each)
    return tally


def write_day(path: Path, hours: float = 24.0) -> Path:
    """Write a run of so many hours at the defaults: a sample each 50 ms, a step each 0.4 s."""
    small = write_run(path, epochs=1)
    random = np.random.default_rng(0)
    _lengthen(small / "samples.arrows", round(hours * 72_000), "t_ns", 50 * MS, random)
    _lengthen(small / "steps.arrows", round(hours * 9_000), "begin_ns", STEP_NS, random)
    with (small / "decisions.jsonl").open("w") as file:
        for epoch in range(round(hours * 900)):
            file.write(json.dumps(decision(epoch)) + "\n")
    return path


def _lengthen(file: Path, rows: int, clock: str, period_ns: int, random: Any) -> None:
    """Rewrite a stream as one of so many rows, floats with a noise of 2 %."""
    with pa.OSFile(str(file)) as source:
        table = pa.ipc.open_stream(source).read_all()
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            value = column[0].as_py() or 0.0
            noisy = value * random.normal(1.0, 0.02, rows)
            columns[name] = pa.array(noisy, column.type)
        else:
            columns[name] = pa.array(np.full(rows, column[0].as_py() or TABLE_HZ[2]))
    moments = START_NS + period_ns * np.arange(rows, dtype=np.int64)
    columns[clock] = pa.array(moments)
    if "end_ns" in columns:
        columns["end_ns"] = pa.array(moments + period_ns)
        columns["step"] = pa.array(np.arange(rows))
    new = pa.table(columns)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, new.schema) as writer:
        writer.write_table(new, max_chunksize=2000)
