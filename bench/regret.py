"""How far the governor's decisions are from the best operating point in hindsight, and its rivals'.

Jobs are tables of what a step takes at each operating point, played without sleeping: decoding as
measured (EnergyLLM's columns, --data), fine-tuning energies as published (--data; times by the
plant's law), and the virtual board's workload family. Everything counts: warm-up, baseline windows,
looks around, steps during which the clock changes. The oracle stays at the best constant point.
"""

import argparse
import sys
from pathlib import Path

from bench import _regret_figures as figures
from bench._contest import contest_figures, print_contest
from bench._environments_measured import decode_jobs, finetune_jobs, read_podgov_energies
from bench._environments_virtual import SEED, drifting_jobs, steady_jobs
from bench._figures import Figure, parser, publish
from bench._measured import read_decode_grid, read_finetune_curves
from bench._ours import play_ours
from orin_gov.policy.objective import Objective
from orin_gov.virtual.plant import BoardModel, load_board

BOARD = "agx-orin-64gb"
UNBOUND = Objective("energy", max_slowdown=2.0)
"""Minimum energy: a step may take three times as long, the largest budget the tree knows."""

BUDGETS = (0.02, 0.05, 0.10)
BUDGET_STEPS = 600
DRIFT_STEPS = 120
"""Steps of each of a drifting job's six segments."""

THINKING_JOBS = 20
RIVALS_WITHIN = Objective("energy", max_slowdown=0.10)

PARTS = ("grid", "finetune", "budgets", "drift", "thinking", "rivals")


def measured_figures(board: BoardModel, options: argparse.Namespace) -> list[Figure]:
    """The figures that take the measured tables."""
    found: list[Figure] = []
    if "grid" in options.only and (cells := read_decode_grid(options.data)):
        jobs, _ = decode_jobs(board, cells)
        played = play_ours(options.ours, jobs, UNBOUND, options.seeds)
        found += figures.grid_figures(played, UNBOUND.max_slowdown)
    if "finetune" in options.only and (curves := read_finetune_curves(options.data)):
        jobs, _ = finetune_jobs(board, curves)
        played = play_ours(options.ours, jobs, UNBOUND, options.seeds)
        podgov_j = read_podgov_energies(options.data)
        found += figures.finetune_figures(played, UNBOUND.max_slowdown, podgov_j)
    return found


def virtual_figures(board: BoardModel, options: argparse.Namespace) -> list[Figure]:
    """The figures on the virtual workload family."""
    found: list[Figure] = []
    if "budgets" in options.only:
        jobs = steady_jobs(board, options.jobs, BUDGET_STEPS)
        budgets = {
            budget: play_ours(options.ours, jobs, Objective("energy", budget)) for budget in BUDGETS
        }
        found += figures.budget_figures(budgets)
    if "drift" in options.only:
        jobs = drifting_jobs(board, options.jobs, DRIFT_STEPS)
        played = play_ours(options.ours, jobs, UNBOUND)
        found += figures.drift_figures(played, UNBOUND.max_slowdown)
    if "thinking" in options.only:
        jobs = drifting_jobs(board, THINKING_JOBS, DRIFT_STEPS)
        found += figures.thinking_figures(play_ours(options.ours, jobs, UNBOUND))
    return found


def rival_figures(board: BoardModel, options: argparse.Namespace) -> list[Figure]:
    """Every decider's figures over the same jobs; told as tables unless JSON is wanted."""
    steps = (BUDGET_STEPS, DRIFT_STEPS)
    jobs = max(1, options.jobs // 5)
    data, seeds = options.data, max(1, options.seeds // 2)
    found = contest_figures(board, data, seeds, jobs, UNBOUND, RIVALS_WITHIN, steps)
    if options.json:
        return found
    print_contest(found)
    return [figure for figure in found if figure.name.startswith("rivals_")]


def main() -> int:
    """Play, and print what came of it."""
    arguments = parser(__doc__)
    arguments.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments.add_argument("--data", type=Path, help="measured tables (CSV), anywhere under it")
    arguments.add_argument("--seeds", type=int, default=10, help="plays of each measured job")
    arguments.add_argument("--jobs", type=int, default=500, help="workloads of the family")
    arguments.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts")
    arguments.add_argument("--ours", default="loop", help="which of ours the bars judge")
    options = arguments.parse_args()
    board = load_board(BOARD)
    found = measured_figures(board, options) if options.data else []
    found += virtual_figures(board, options)
    if "rivals" in options.only:
        found += rival_figures(board, options)
    measured = options.data or "nothing measured: no --data was given"
    source = (
        f"virtual board {BOARD} (podgov; workload family, seed {SEED}), and {measured}; "
        f"seeds 0 to {options.seeds - 1}"
    )
    return publish("regret", source, found, options.json)


if __name__ == "__main__":
    sys.exit(main())
