"""Measure a workload at every operating point, and draw energy, time and power against the clock.

  orin-gov characterize [options] train.py [script arguments]
  orin-gov characterize --workload bert-base/sst2 --board virtual:agx-orin-64gb

A script runs once, on a real board or on one played in real time: the clock is changed between its
decision epochs, each of which is one measurement. Where it ends before all is measured, it is
started again. A --workload (MODEL/TASK, or path/to/config.json/TASK, with a recipe as in
bert-base/sst2:batch=32,precision=bf16,lora=8; several --workload draw one curve each) runs in
virtual time. The points take turns in random order. With the --output of a run that was interrupted
it goes on where that one stopped. Needs matplotlib (pip install 'orin-gov[plot]').
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_gov.record.characterization import Point


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov characterize`."""
    parser.usage = (
        "orin-gov characterize [options] (train.py | -m package.module | -- command) [arguments]\n"
        "       orin-gov characterize [options] --workload MODEL/TASK [--workload ...]"
    )
    parser.add_argument(
        "--workload", action="append", default=[], metavar="MODEL/TASK", help="in virtual time"
    )
    parser.add_argument(
        "--freqs", default="all", metavar="MHZ,...", help="operating points (default all)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="rounds over them (default 3)"
    )
    parser.add_argument("--board", metavar="BOARD", help="as in virtual:agx-orin-64gb")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the board's file system starts (default /)",
    )
    parser.add_argument(
        "--epoch",
        metavar="N|Ns",
        help="a measurement is N steps, or N seconds as in 5s (default 30; --workload: 50)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order (default 0)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the run directory (default: a new one)"
    )
    parser.add_argument("--json", action="store_true", help="print the curves as JSON")
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module")
    parser.add_argument("target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Sweep, sum up and draw; return the exit code."""
    from orin_gov.caller import as_caller, find_caller
    from orin_gov.characterization import Characterization, sweep_jobs, sweep_script
    from orin_gov.epoch import parse_epoch
    from orin_gov.errors import OrinGovError, UsageError
    from orin_gov.record.characterization import best, curves, read_measurements
    from orin_gov.view.progress import working

    if bool(arguments.workload) == bool(arguments.target):
        raise UsageError("name a script to characterize, or a --workload, and not both")
    if arguments.repeats < 1:
        raise UsageError(f"--repeats is {arguments.repeats}, expected at least 1")
    try:
        # Here, so that what draws is not found missing after hours of measuring.
        from orin_gov.view.figure import draw_curves
    except ImportError as error:
        raise OrinGovError("characterize needs matplotlib: pip install 'orin-gov[plot]'") from error
    caller = find_caller()
    wanted = Characterization(
        board=arguments.board,
        root=arguments.root,
        freqs=arguments.freqs,
        repeats=arguments.repeats,
        epoch=parse_epoch(arguments.epoch or ("50" if arguments.workload else "30")),
        seed=arguments.seed,
        output=arguments.output,
        caller=caller,
    )
    if arguments.workload:
        with as_caller(caller), working("sweeping in virtual time"):
            sweep = sweep_jobs(wanted, arguments.workload)
    else:
        sweep = sweep_script(wanted, arguments.target, arguments.module)
    found = curves(read_measurements(sweep.path))
    if not found:
        raise OrinGovError(f"nothing was measured: {sweep.ended}")
    with as_caller(caller):
        files = draw_curves(found, sweep.board, sweep.path)
    if arguments.json:
        told = {name: [asdict(point) for point in points] for name, points in found.items()}
        print(json.dumps({"run": str(sweep.path), "ended": sweep.ended, "curves": told}))
        return sweep.exit_code
    for name, points in found.items():
        print_curve(name, points, best(points))
    print(f"{sweep.ended}; see {' and '.join(map(str, files))}")
    return sweep.exit_code


def print_curve(name: str, points: "Sequence[Point]", least: "Point | None") -> None:
    """Print one curve as a table; energies and times are those of a unit of work."""
    from rich.console import Console
    from rich.table import Table

    table = Table("clock", "mean MHz", "time", "power", "energy", "spread", "load", title=name)
    top = max(points, key=lambda point: point.target_hz or 0)
    for point in points:
        energy, spread = point.energy_j, point.energy_sd
        relative = f"{energy / top.energy_j:.3f}" if energy and top.energy_j else "-"
        table.add_row(
            f"{point.target_hz / 1e6:.0f} MHz" if point.target_hz else "board's own",
            f"{point.clock_hz / 1e6:.0f}",
            f"{point.time_s / top.time_s:.3f}",
            "-" if point.power_w is None else f"{point.power_w:.2f} W",
            relative,
            "-" if not energy or spread is None else f"{spread / energy:.2%}",
            "-" if point.load is None else f"{point.load:.0%}",
            style="bold green" if point is least else None,
        )
    Console().print(table)
