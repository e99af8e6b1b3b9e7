"""Jobs whose energies were measured on boards: EnergyLLM's decoding grid, and fine-tuning curves."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench._calibration import two_rail_energy
from bench._measured import Cell
from bench._podgov_mix import mixed
from bench._table_job import Costs, Segment, TableJob, Target
from orin_gov.virtual.family import VirtualWorkload
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.published import decode_laws, finetune_law

STEPS = 1000
_TOKENS = 100
"""New tokens for each sequence of a batch: one step is the decoding of them all."""


def decode_jobs(
    board: BoardModel, cells: Sequence[Cell], steps: int = STEPS
) -> tuple[list[TableJob], dict[str, float]]:
    """A job for each batch: decoding as a step; time and power are the measured medians.

    How busy the GPU was is not measured, nor are phases: deciders see neither. Podgov runs on the
    plant's laws of that batch and mixes the measured rows of the clocks it visits. Second: the
    GPU's load under podgov that those laws give, by job, for a rival that can't do without.
    """
    batches: dict[int, dict[int, Costs]] = defaultdict(dict)
    for cell in cells:
        hz = round(cell.clock_hz)
        batches[cell.batch][hz] = Costs(cell.time_s, cell.time_s * cell.power_w, float(hz))
    jobs, loads = [], {}
    for batch, at in batches.items():
        name = f"decode batch {batch}"
        podgov, loads[name] = mixed(board, _decoding(board, batch), at)
        costs: dict[Target, Costs] = {None: podgov, **at}
        jobs.append(TableJob(name, [Segment(steps, float(batch * _TOKENS), costs)]))
    return jobs, loads


def _decoding(board: BoardModel, batch: int) -> VirtualWorkload:
    """Decoding one token after the other, as podgov's 25 ms polls see it."""
    layers, choosing = decode_laws(batch)
    laws = {"forward": layers, "optimizer": choosing}
    times_s = {phase: board.time_s(law, board.top_hz) for phase, law in laws.items()}
    total_s = sum(times_s.values())
    shares = {phase: time_s / total_s for phase, time_s in times_s.items()}
    return VirtualWorkload(f"decode-{batch}", laws, shares, total_s / _TOKENS, float(batch))


def finetune_jobs(
    board: BoardModel, curves: Mapping[str, Mapping[float, float]], steps: int = STEPS
) -> tuple[list[TableJob], dict[str, float]]:
    """A job for each published curve: energies as measured on two rails, at pinned clocks.

    Times are not published: they, the GPU's load and podgov's clocks are the plant's fitted law's.
    A step is taken to last 1 s at the top clock, with the plant's power there.
    """
    jobs, loads = [], {}
    for name, curve in curves.items():
        law, top_hz = finetune_law(name), max(curve)
        top_s = board.time_s(law, board.top_hz)
        top_j = two_rail_energy(board, law, top_hz) / board.time_s(law, top_hz)
        top_j *= board.stretch(law, top_hz)
        at = {
            round(hz): Costs(
                time_s=board.time_s(law, hz) / top_s,
                energy_j=top_j * energy_j / curve[top_hz],
                clock_hz=float(round(hz)),
                load=board.load(law, hz),
            )
            for hz, energy_j in curve.items()
        }
        workload = VirtualWorkload(name, {"forward": law}, {"forward": 1.0}, 1.0, 1.0)
        podgov, loads[name] = mixed(board, workload, at)
        seen = Costs(podgov.time_s, podgov.energy_j, podgov.clock_hz, loads[name])
        jobs.append(
            TableJob(name, [Segment(steps, 1.0, {None: seen, **at})], curve[top_hz] / top_j)
        )
    return jobs, loads


def read_podgov_energies(data: Path) -> dict[str, float]:
    """Published fine-tuning energies (J) under podgov in MAXN, by job ("model/task")."""
    found = {}
    for path in sorted(data.rglob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row.get("config") == "podgov_maxn":
                    found[f"{row['model']}/{row['task']}"] = float(row["energy_j"])
    return found
