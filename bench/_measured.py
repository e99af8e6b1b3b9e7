"""Reads the measured tables that the virtual board is fitted to and compared with.

A table is known by its columns, wherever it lies: any CSV file under the given folder.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CLOCKS_MHZ = (306, 408, 510, 612, 714, 816, 918, 1020, 1122, 1224, 1300.5)
"""EnergyLLM's frequency bins, by their number."""


@dataclass(frozen=True)
class Cell:
    """Decoding at one (batch, clock): medians over the replicates."""

    batch: int
    clock_hz: float
    time_s: float
    power_w: float
    temperature_c: float


def read_decode_grid(data: Path) -> list[Cell]:
    """Every table under `data` with EnergyLLM's columns: a cell for each (batch, clock)."""
    columns = ("decode_time", "decode_TOTAL_POWER", "temperature")
    keys = ("effective_batch_size", "decode_freq_bin")
    replicates = defaultdict(list)
    for _, row in _rows(data, (*keys, *columns)):
        batch, bin_ = (int(row[key]) for key in keys)
        replicates[batch, bin_].append([float(row[column]) for column in columns])
    return [
        Cell(batch, CLOCKS_MHZ[bin_] * 1e6, *map(median, zip(*rows, strict=True)))
        for (batch, bin_), rows in sorted(replicates.items())
    ]


def read_finetune_curves(data: Path) -> dict[str, dict[float, float]]:
    """Published fine-tuning energies (J) by job ("model/task") and pinned clock (Hz)."""
    curves: dict[str, dict[float, float]] = defaultdict(dict)
    for _, row in _rows(data, ("model", "task", "config", "gpu_mhz", "energy_j")):
        if row["config"] == "pin":
            energy_j = float(row["energy_j"])
            curves[f"{row['model']}/{row['task']}"][float(row["gpu_mhz"]) * 1e6] = energy_j
    return dict(curves)


def read_switches(data: Path) -> dict[tuple[float, float], list[float]]:
    """How long the two writes of a GPU switch took (ms), by the clocks (Hz) from and to."""
    switches = defaultdict(list)
    for path, row in _rows(data, ("from", "to", "write_us")):
        if path.name.startswith("gpu_"):
            switches[float(row["from"]), float(row["to"])].append(float(row["write_us"]) / 1000)
    return dict(switches)


def _rows(data: Path, columns: Sequence[str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """Every row of every CSV file under `data` that has these columns, and its file."""
    for path in sorted(data.rglob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if set(columns) <= set(reader.fieldnames or ()):
                yield from ((path, row) for row in reader)
