"""Ours and the rivals over the same jobs: one table."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import _regret_measures as measures
from bench._environment import Played, play
from bench._environments_measured import decode_jobs
from bench._environments_virtual import steady_jobs
from bench._figures import Figure
from bench._measured import read_decode_grid
from bench._ours import OURS, ours
from bench._rivals import RIVALS, rival
from bench._statistics import by_job, mean_figure, quantile_figure
from bench._table_job import TableJob
from orin_gov.policy.decider import Decider
from orin_gov.policy.objective import Objective
from orin_gov.virtual.plant import BoardModel

FAMILY_BUDGET = 0.10
FAMILY_STEPS = 1000

_COLUMNS = {
    "regret_percent": "measured grid: settled regret, %",
    "job_excess_percent": "1,000 steps above oracle, %",
    "settle_steps_p95": "settled after, steps (p95)",
    "family_regret_percent": "virtual family, budget 10 %: settled regret, %",
    "family_excess_percent": "1,000 steps above oracle, %",
    "family_violation_percent": "over budget, % of jobs",
}

Make = Callable[[TableJob], Decider]


def contest_figures(
    board: BoardModel, data: Path | None, seeds: int, jobs: int, objective: Objective
) -> list[Figure]:
    """Every decider's figures, named ours_NAME_… and rival_NAME_…: on the measured grid under
    `objective` where there is data, and on so many of the family's workloads within 10 %."""
    cells = read_decode_grid(data) if data else []
    grid, loads = decode_jobs(board, cells) if cells else ([], {})
    family = steady_jobs(board, jobs, FAMILY_STEPS)
    within = Objective("energy", FAMILY_BUDGET)
    found = []
    for name in (*OURS, *RIVALS):
        prefix = "ours" if name in OURS else "rival"
        make = _maker(board, name, objective, loads)
        played = [play(make(job), job, seed) for job in grid for seed in range(seeds)]
        if played:
            found += _grid_figures(f"{prefix}_{name}", played, objective.max_slowdown)
        make = _maker(board, name, within, {})
        found += _family_figures(f"{prefix}_{name}", [play(make(job), job, 0) for job in family])
    return found


def _maker(board: BoardModel, name: str, objective: Objective, loads: dict[str, float]) -> Make:
    def make(job: TableJob) -> Decider:
        points_hz = job.segments[0].points_hz
        if name in OURS:
            return ours(name, points_hz, objective)
        return rival(name, points_hz, objective, board, loads.get(job.name))

    return make


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


def _family_figures(name: str, played: Sequence[Played]) -> list[Figure]:
    over = [
        measures.slowdown(each, measures.settled(each).step, governed=True)
        > FAMILY_BUDGET + measures.TOLERANCE
        for each in played
    ]
    return [
        mean_figure(
            f"{name}_family_regret_percent",
            [measures.settled_regret(each, FAMILY_BUDGET) for each in played],
        ),
        mean_figure(
            f"{name}_family_excess_percent",
            [measures.job_excess(each, FAMILY_BUDGET) for each in played],
        ),
        Figure(f"{name}_family_violation_percent", 100 * float(np.mean(over)), "%", len(over)),
    ]


def print_contest(found: Sequence[Figure]) -> None:
    """Print one row for each decider, with 95 % intervals."""
    figures = {figure.name: figure for figure in found}
    names = [f"ours_{name}" for name in OURS] + [f"rival_{name}" for name in RIVALS]
    columns = {key: title for key, title in _COLUMNS.items() if f"{names[0]}_{key}" in figures}
    table = Table("decider", *columns.values(), title="ours and the rivals on the same jobs")
    for name in names:
        cells = [_cell(figures[f"{name}_{key}"]) for key in columns]
        table.add_row(name.replace("_", " ", 1), *cells)
    Console().print(table)


def _cell(figure: Figure) -> str:
    text = f"{figure.value:.2f}"
    if figure.interval:
        text += " ({:.2f} to {:.2f})".format(*figure.interval)
    return text
