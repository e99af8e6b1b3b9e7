"""What every bench prints: figures with their count, interval and bar, as JSON or as a table."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Column, Table

RESAMPLES = 10_000
FILE_WIDTH = 120


@dataclass(frozen=True)
class Figure:
    """One measured figure; `bar` is what it is judged by ("<= 1.01"), None where nothing is."""

    name: str
    value: float
    unit: str
    n: int
    interval: tuple[float, float] | None = None
    bar: str | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the bar is met; None without a bar."""
        if self.bar is None:
            return None
        sign, limit = self.bar.split()
        return {"<=": self.value <= float(limit), ">=": self.value >= float(limit)}[sign]


def median_figure(name: str, values: Sequence[float], unit: str, bar: str | None = None) -> Figure:
    """Return the median of `values` with its 95 % bootstrap interval (seeded)."""
    data = np.asarray(values, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(np.median(data[picks], axis=1), (0.025, 0.975))
    return Figure(name, float(np.median(data)), unit, len(data), (float(low), float(high)), bar)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a bench's argument parser: every bench takes --json."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def console() -> Console:
    """Return where tables are printed: a file or a pipe has room for whole names."""
    return Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)


def publish(bench: str, board: str, figures: Sequence[Figure], as_json: bool) -> int:
    """Print the figures; return the exit code: 0 where every bar is met."""
    if as_json:
        rows = [{**asdict(figure), "ok": figure.ok} for figure in figures]
        print(json.dumps({"bench": bench, "board": board, "figures": rows}))
    else:
        console().print(_table(bench, board, figures))
    return 0 if all(figure.ok is not False for figure in figures) else 1


def _table(bench: str, board: str, figures: Sequence[Figure]) -> Table:
    name = Column("figure", overflow="fold")
    table = Table(name, "value", "95 % interval", "n", "bar", title=f"{bench} on {board}")
    for figure in figures:
        low_high = figure.interval and "{:.4g} to {:.4g}".format(*figure.interval)
        mark = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.ok]
        table.add_row(
            figure.name,
            f"{figure.value:.4g} {figure.unit}",
            low_high or "",
            str(figure.n),
            f"{figure.bar or ''} {mark}",
        )
    return table
