"""How far the virtual AGX Orin is from what was measured on boards.

Decoding (EnergyLLM's columns): fitted on batches that are multiples of 4, checked on all others.
Fine-tuning energies, switch latencies: fitted and checked on the same few figures. `--fit` repeats
the fit (a minute or two) and prints it beside the constants in the board's file.
"""

import argparse
import importlib
import importlib.util
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench import _calibration as calibration
from bench import _measured as measured_tables
from bench._figures import Figure, parser, publish
from orin_gov.virtual.board_file import read_board_file
from orin_gov.virtual.devfreq import Devfreq
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel, load_board
from orin_gov.virtual.podgov import POLLING_NS, Podgov
from orin_gov.virtual.published import decode_laws, finetune_law
from orin_gov.virtual.tree import build_tree, devfreq_directory

BOARD = "agx-orin-64gb"
SWITCHES = 2000
"""Virtual switches for each measured pair of clocks."""


def decode_figures(board: BoardModel, cells: Sequence[measured_tables.Cell]) -> list[Figure]:
    """Return the worst clock's median error over the batches not fitted, and the worst optimum."""
    model = {
        cell: calibration.decode_time_and_power(board, decode_laws(cell.batch), cell)
        for cell in cells
    }
    held = [cell for cell in cells if cell.batch % 4]
    clocks = sorted({cell.clock_hz for cell in held})
    figures = []
    for name, index in (("time", 0), ("power", 1)):
        errors = {
            cell: 100 * abs(model[cell][index] / (cell.time_s, cell.power_w)[index] - 1)
            for cell in held
        }
        medians = [np.median([errors[c] for c in held if c.clock_hz == hz]) for hz in clocks]
        worst = f"{name}_error_percent_worst"
        figures += [
            Figure(worst, float(max(medians)), "%", len(held), bar="<= 2"),
            Figure(f"{name}_error_percent_single_worst", max(errors.values()), "%", len(held)),
        ]
    excess = []
    for batch in sorted({cell.batch for cell in cells}):
        here = [cell for cell in cells if cell.batch == batch]
        chosen = min(here, key=lambda cell: model[cell][0] * model[cell][1])
        best_j = min(cell.time_s * cell.power_w for cell in here)
        excess.append(100 * (chosen.time_s * chosen.power_w / best_j - 1))
    return [
        *figures,
        Figure("optimum_excess_percent_worst", max(excess), "%", len(excess), bar="<= 0.5"),
    ]


def finetune_figures(board: BoardModel, curves: dict[str, dict[float, float]]) -> list[Figure]:
    """Return the worst curve's rms error of E(f) / E(top), and how far its optimum is off."""
    rms, steps_off = [], []
    for job, curve in curves.items():
        law = finetune_law(job)
        rms.append(100 * calibration.rms(calibration.curve_errors(board, law, curve)))
        model_j = {hz: calibration.two_rail_energy(board, law, hz) for hz in curve}
        clocks = sorted(curve)
        best = [clocks.index(min(clocks, key=lambda hz, e=e: e[hz])) for e in (model_j, curve)]
        steps_off.append(abs(best[0] - best[1]))
    n = sum(map(len, curves.values()))
    return [
        Figure("finetune_rms_percent_worst", max(rms), "%", n, bar="<= 1.5"),
        Figure("finetune_optimum_steps_worst", max(steps_off), "steps", len(curves), bar="<= 1"),
    ]


def switch_figures(
    board: BoardModel, switches: dict[tuple[float, float], list[float]]
) -> list[Figure]:
    """Return how far the p50 and p95 of virtual switches are from the measured ones."""
    worst = {50: 0.0, 95: 0.0}
    with tempfile.TemporaryDirectory() as folder:
        build_tree(board, Path(folder))
        for (from_hz, to_hz), measured_ms in switches.items():
            virtual_ms = switch_times_ms(board, Path(folder), round(from_hz), round(to_hz))
            for percent in worst:
                measured, virtual = (
                    np.percentile(measured_ms, percent),
                    np.percentile(virtual_ms, percent),
                )
                worst[percent] = max(worst[percent], 100 * abs(virtual / measured - 1))
    n = sum(map(len, switches.values()))
    return [
        Figure(f"switch_p{percent}_error_percent_worst", float(error), "%", n, bar="<= 10")
        for percent, error in worst.items()
    ]


def switch_times_ms(board: BoardModel, root: Path, from_hz: int, to_hz: int) -> list[float]:
    """Return how long after a write the clock changes, driven in virtual time over real files."""
    directory = devfreq_directory(board, root)
    devfreq = Devfreq(board, directory, random.Random(1))
    times_ms, now_ns = [], 0
    for index in range(2 * SWITCHES + 1):
        clock_hz = to_hz if index % 2 else from_hz
        for name in ("max_freq", "min_freq"):
            (directory / name).write_text(str(clock_hz))
        devfreq.poll(now_ns)
        if devfreq.switch_ns is None:
            continue
        if clock_hz == to_hz:
            times_ms.append((devfreq.switch_ns - now_ns) / 1e6)
        now_ns = devfreq.switch_ns
        devfreq.switch()
    return times_ms


def podgov_figures(board: BoardModel) -> list[Figure]:
    """Return how long full load takes to the top at the latest, and where host-bound load rests."""
    lowest_hz, top_hz = board.frequencies_hz[0], board.top_hz
    podgov, clock_hz, polls = Podgov(board.frequencies_hz), lowest_hz, 0
    for _ in range(400):
        podgov.step(20, polls * POLLING_NS, lowest_hz, top_hz)
        polls += 1
    start = polls
    while clock_hz < top_hz:
        clock_hz = podgov.step(950, polls * POLLING_NS, lowest_hz, top_hz)
        polls += 1
    # The load may begin just after a poll, and the last switch may be a slow one.
    latest_ms = (polls - start) * POLLING_NS / 1e6 + 1e3 * board.switch_latency_s(1, 2, 0.95)
    law = PhaseLaw(floor=1.0, compute=0.5, dynamic_w=10.0)
    for _ in range(400):
        load = board.load(law, clock_hz)
        clock_hz = podgov.step(1000 * load, polls * POLLING_NS, lowest_hz, top_hz)
        polls += 1
    return [
        Figure("podgov_ramp_ms", latest_ms, "ms", 1, bar="<= 150"),
        Figure("podgov_host_bound_load_percent", 100 * load, "%", 1),
    ]


def speed_figures() -> list[Figure]:
    """Return the speed of virtual time, where this project has it."""
    if importlib.util.find_spec("bench._virtual_time") is None:
        return []
    figure: Figure = importlib.import_module("bench._virtual_time").speedup_figure()
    return [figure]


def print_fit(board: BoardModel, data: Path) -> int:
    """Print what the fit gives now, in the board file's own form; 1 where that file differs."""
    cells, curves = (
        measured_tables.read_decode_grid(data),
        measured_tables.read_finetune_curves(data),
    )
    found = calibration.as_board_file(
        *calibration.fit(board, cells, curves),
        calibration.fit_switches(measured_tables.read_switches(data)),
    )
    print(json.dumps(found, indent=2))
    differences = calibration.differences(found, read_board_file(board.name))
    for line in differences:
        print(line, file=sys.stderr)
    return 1 if differences else 0


def main() -> int:
    arguments = parser(__doc__)
    arguments.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments.add_argument("--data", type=Path, help="measured tables (CSV), anywhere under it")
    arguments.add_argument("--fit", action="store_true", help="repeat the fit and print it")
    options = arguments.parse_args()
    board = load_board(BOARD)
    if options.fit:
        if options.data is None:
            arguments.error("--fit needs --data")
        return print_fit(board, options.data)
    figures = podgov_figures(board) + speed_figures()
    if options.data is not None:
        if curves := measured_tables.read_finetune_curves(options.data):
            figures = finetune_figures(board, curves) + figures
        if switches := measured_tables.read_switches(options.data):
            figures = switch_figures(board, switches) + figures
        if cells := measured_tables.read_decode_grid(options.data):
            figures = decode_figures(board, cells) + figures
    source = f"virtual board {BOARD} against {options.data or 'nothing: no --data was given'}"
    return publish("plant", source, figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
