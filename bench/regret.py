"""How far the governor's decisions are from the best operating point in hindsight, and its rivals'.

Jobs are tables of what a step takes at each operating point, played without sleeping: decoding as
measured (EnergyLLM's columns, --data), fine-tuning energies as published (--data; times by the
plant's law), and the virtual board's workload family. Everything counts: warm-up, baseline windows,
looks around, steps during which the clock changes. The oracle stays at the best constant point.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import _regret_figures as figures
from bench._environment import Played, play
from bench._environments_measured import decode_jobs
from bench._figures import Figure, parser, publish
from bench._measured import read_decode_grid
from bench._ours import ours
from bench._table_job import TableJob
from orin_gov.policy.decider import Decider
from orin_gov.policy.objective import Objective
from orin_gov.virtual.plant import BoardModel, load_board

BOARD = "agx-orin-64gb"
UNBOUND = Objective("energy", max_slowdown=2.0)
"""Minimum energy: a step may take three times as long, the largest budget the tree knows."""

Make = Callable[[TableJob], Decider]


def play_all(make: Make, jobs: Sequence[TableJob], seeds: int) -> list[Played]:
    """Play every job with every seed under a decider of its own."""
    return [play(make(job), job, seed) for job in jobs for seed in range(seeds)]


def grid_figures(played: Sequence[Played]) -> list[Figure]:
    """The measured grid at minimum energy; intervals are over batches, seeds averaged."""
    budget = UNBOUND.max_slowdown
    names = [each.job.name for each in played]
    regrets = figures.by_job(names, [figures.settled_regret(each, budget) for each in played])
    excess = figures.by_job(names, [figures.job_excess(each, budget) for each in played])
    steps = [figures.settled(each).step for each in played]
    worst = Figure("settled_regret_worst_percent", max(regrets), "%", len(regrets), bar="<= 1.5")
    thinking_ms = [1e3 * float(second) for each in played for second in each.think_s]
    return [
        figures.mean_figure("settled_regret_mean_percent", regrets, bar="<= 0.5"),
        worst,
        figures.mean_figure("job_excess_percent", excess, bar="<= 1"),
        figures.quantile_figure("settle_steps_p95", steps, 0.95, "steps", "<= 30"),
        figures.quantile_figure("decide_ms_p99", thinking_ms, 0.99, "ms", "<= 2"),
    ]


def measured_figures(board: BoardModel, data: Path, options: argparse.Namespace) -> list[Figure]:
    """Every figure that takes the measured tables."""
    jobs, _ = decode_jobs(board, read_decode_grid(data))
    played = play_all(
        lambda job: ours(options.ours, job.segments[0].points_hz, UNBOUND), jobs, options.seeds
    )
    return grid_figures(played)


def main() -> int:
    arguments = parser(__doc__)
    arguments.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments.add_argument("--data", type=Path, help="measured tables (CSV), anywhere under it")
    arguments.add_argument("--seeds", type=int, default=10, help="plays of each measured job")
    arguments.add_argument("--ours", default="loop", help="which of ours the bars judge")
    options = arguments.parse_args()
    board = load_board(BOARD)
    found: list[Figure] = []
    if options.data is not None:
        found += measured_figures(board, options.data, options)
    source = f"virtual board {BOARD}, and {options.data or 'nothing measured: no --data was given'}"
    return publish("regret", source, found, options.json)


if __name__ == "__main__":
    sys.exit(main())
