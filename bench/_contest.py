"""Ours and the rivals over the same jobs: one table for each kind of job."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Column, Table

from bench import _regret_measures as measures
from bench._environment import Played, play
from bench._environments_measured import decode_jobs
from bench._environments_virtual import drifting_jobs, steady_jobs
from bench._figures import Figure, console
from bench._measured import read_decode_grid
from bench._ours import OURS, ours
from bench._rivals import RIVALS, rival
from bench._statistics import by_job, mean_figure, quantile_figure
from bench._table_job import TableJob
from orin_gov.policy.decider import Decider
from orin_gov.policy.objective import Objective
from orin_gov.virtual.plant import BoardModel

NAMES = (*(f"ours_{name}" for name in OURS), *(f"rival_{name}" for name in RIVALS))
BEST = "ours_loop"

TABLES = {
    "decoding as measured, least energy, 1,000 steps": {
        "regret_percent": "settled regret, %",
        "job_excess_percent": "whole job over oracle, %",
        "settle_steps_p95": "settled after, steps (p95)",
    },
    "virtual family, slowdown budget 10 %, 600 steps": {
        "family_regret_percent": "settled regret, %",
        "family_excess_percent": "whole job over oracle, %",
        "family_violation_percent": "over budget, % of jobs",
    },
    "virtual family with drift, least energy": {
        "drift_regret_percent": "from 3 epochs after a drift on, over oracle, %",
        "drift_excess_percent": "whole job over oracle, %",
    },
}


@dataclass(frozen=True)
class Course:
    """Jobs that every decider runs under one objective, each with so many seeds."""

    jobs: Sequence[TableJob]
    objective: Objective
    seeds: int
    loads: Mapping[str, float]

    def run(self, board: BoardModel, name: str) -> list[Played]:
        """Play them all under the decider of that name."""
        return [
            play(decider, job, seed)
            for job in self.jobs
            for seed in range(self.seeds)
            for decider in [_decider(board, name, job, self.objective, self.loads)]
        ]


def _decider(
    board: BoardModel, name: str, job: TableJob, objective: Objective, loads: Mapping[str, float]
) -> Decider:
    side, _, own = name.partition("_")
    points_hz = job.segments[0].points_hz
    if side == "ours":
        return ours(own, points_hz, objective)
    return rival(own, points_hz, objective, board, loads.get(job.name))


def contest_figures(
    board: BoardModel,
    data: Path | None,
    seeds: int,
    jobs: int,
    least_energy: Objective,
    budget: Objective,
    steps: tuple[int, int],
) -> list[Figure]:
    """Every decider's figures, ours_NAME_... and rival_NAME_..., and how ours compare.

    The measured grid where there is data, with so many seeds; and so many of the family's
    workloads, steady and with drift, of `steps` steps and steps a segment.
    """
    cells = read_decode_grid(data) if data else []
    grid, loads = decode_jobs(board, cells) if cells else ([], {})
    course = Course(grid, least_energy, seeds, loads)
    family = Course(steady_jobs(board, jobs, steps[0]), budget, 1, {})
    drift = Course(drifting_jobs(board, jobs, steps[1]), least_energy, 1, {})
    found: list[Figure] = []
    for name in NAMES:
        if grid:
            found += _grid_figures(name, course.run(board, name), least_energy.max_slowdown)
        found += _family_figures(name, family.run(board, name), budget.max_slowdown)
        found += _drift_figures(name, drift.run(board, name), least_energy.max_slowdown)
    return found + list(_comparison(found))


def _grid_figures(name: str, played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    jobs = [each.job.name for each in played]
    regrets = by_job(jobs, [measures.settled_regret(each, max_slowdown) for each in played])
    excess = by_job(jobs, [measures.job_excess(each, max_slowdown) for each in played])
    steps = [measures.settled(each).step for each in played]
    return [
        mean_figure(f"{name}_regret_percent", regrets),
        mean_figure(f"{name}_job_excess_percent", excess),
        quantile_figure(f"{name}_settle_steps_p95", steps, 0.95, "steps"),
    ]


def _family_figures(name: str, played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    since = [measures.settled(each).step for each in played]
    pairs = zip(played, since, strict=True)
    slowdowns = np.array([measures.slowdown(each, step, governed=True) for each, step in pairs])
    regrets = [measures.settled_regret(each, max_slowdown) for each in played]
    excess = [measures.job_excess(each, max_slowdown) for each in played]
    over = 100.0 * (slowdowns > max_slowdown + measures.TOLERANCE)
    return [
        mean_figure(f"{name}_family_regret_percent", regrets),
        mean_figure(f"{name}_family_excess_percent", excess),
        mean_figure(f"{name}_family_violation_percent", over),
    ]


def _drift_figures(name: str, played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    regrets = [measures.drift_regret(each, max_slowdown) for each in played]
    excess = [measures.job_excess(each, max_slowdown) for each in played]
    return [
        mean_figure(f"{name}_drift_regret_percent", regrets),
        mean_figure(f"{name}_drift_excess_percent", excess),
    ]


def _comparison(found: Sequence[Figure]) -> Iterable[Figure]:
    """How many rivals have a lower mean than the whole loop, and how many one whose interval
    reaches into its own."""
    figures = {figure.name: figure for figure in found}
    for key in (
        "regret_percent",
        "job_excess_percent",
        "family_regret_percent",
        "drift_regret_percent",
    ):
        best = figures.get(f"{BEST}_{key}")
        if best is None or best.interval is None:
            continue
        rivals = [figures[f"rival_{name}_{key}"] for name in RIVALS]
        lower = sum(each.value < best.value for each in rivals)
        reaching = sum(
            each.interval is not None
            and each.interval[0] <= best.interval[1]
            and best.interval[0] <= each.interval[1]
            for each in rivals
        )
        yield Figure(f"rivals_below_in_{key}", float(lower), "rivals", len(rivals))
        yield Figure(f"rivals_overlapping_in_{key}", float(reaching), "rivals", len(rivals))


def print_contest(found: Sequence[Figure]) -> None:
    """Print a row for each decider, with 95 % intervals, in a table for each kind of job."""
    figures = {figure.name: figure for figure in found}
    for title, columns in TABLES.items():
        if f"{BEST}_{next(iter(columns))}" not in figures:
            continue
        table = Table(Column("decider", no_wrap=True), *columns.values(), title=title)
        for name in NAMES:
            cells = [_cell(figures[f"{name}_{key}"]) for key in columns]
            table.add_row(name.replace("_", " ", 1), *cells)
        console().print(table)


def _cell(figure: Figure) -> str:
    if figure.unit == "steps":
        return f"{figure.value:.0f}"
    low_high = figure.interval and " ({:.2f} to {:.2f})".format(*figure.interval)
    return f"{figure.value:.2f}{low_high or ''}"
