"""Run a training script, unchanged, under the governor.

  orin-gov run [options] train.py [script arguments]
  orin-gov run [options] -m package.module [arguments]
  orin-gov run [options] -- any command [arguments]

Options stand before the target; everything after it belongs to the script. The exit code is the
script's own (128+n where signal n ended it, 127 not found, 126 not executable, 2 wrong usage).
"""

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_gov.policy.objective import Objective


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov run`."""
    parser.usage = "orin-gov run [options] (train.py | -m package.module | -- command) [arguments]"
    parser.add_argument(
        "--board",
        metavar="BOARD",
        help="virtual:agx-orin-64gb plays a board where there is none (:30w in a power mode)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the board's file system starts (default /)",
    )
    parser.add_argument(
        "--objective", default="energy", metavar="NAME", help="energy (default), edp, ed2p or time"
    )
    parser.add_argument(
        "--max-slowdown",
        default="10%",
        metavar="SHARE",
        help="how much slower a step may become: 10%% or 0.1 (default 10%%)",
    )
    parser.add_argument(
        "--power-cap",
        metavar="[WHAT:]WATTS",
        help="power not to be exceeded: 25 is the module's mean, gpu:15 that of the GPU's rail, "
        "p99:30 the module's 99th percentile",
    )
    parser.add_argument(
        "--epoch",
        default="3",
        metavar="N|Ns",
        help="decide anew every N steps, or every N seconds as in 5s, and five times as rarely "
        "while an operating point is held; without steps at least every 600 s (default 3)",
    )
    parser.add_argument(
        "--baseline-share",
        default="5%",
        metavar="SHARE",
        help="the share of steps that go to measuring the board's own governor again and again, at "
        "most (default 5%%)",
    )
    _add_plan(parser)
    _add_manner(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module")
    parser.add_argument("target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options that say by when, and with how much energy, the whole job is to end."""
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        help="when the job is to end: in 2h30m, 90m or 5400 s of its start, or at 18:30 (ISO 8601 "
        "works as well); needs --steps",
    )
    parser.add_argument(
        "--energy-budget",
        metavar="WH",
        help="watt-hours of the module that the job may take, as a battery has them; needs --steps",
    )
    parser.add_argument(
        "--steps", type=int, metavar="N", help="how many optimizer steps the whole job has"
    )


def _add_manner(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to measure, to write and to tell."""
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="a policy other than the shipped one"
    )
    parser.add_argument(
        "--fast-sensors",
        action="store_true",
        help="switch the sensors' averaging off during the run, to measure phases; needs root",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="decide and log, but write nothing; needs no rights"
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve Prometheus metrics at http://127.0.0.1:PORT/metrics (0: any free port)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse to run the script where it cannot be governed"
    )
    parser.add_argument(
        "--live",
        action=argparse.BooleanOptionalAction,
        help="draw the run below the script's output, where there is a terminal; or never",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the run directory (default: a new one)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the target; return its exit code."""
    from orin_gov.caller import as_caller, find_caller
    from orin_gov.epoch import parse_epoch
    from orin_gov.settings import Settings
    from orin_gov.supervisor import supervise
    from orin_gov.workload.launch import launch, resolve_target
    from orin_gov.workload.ring import make_ring

    caller = find_caller()
    with as_caller(caller):
        target = resolve_target(arguments.target, arguments.module)
    settings = Settings(
        board=arguments.board,
        root=arguments.root,
        objective=_objective(arguments),
        epoch=parse_epoch(arguments.epoch),
        baseline_share=parse_share(arguments.baseline_share, "--baseline-share"),
        policy=arguments.policy,
        dry_run=arguments.dry_run,
        strict=arguments.strict,
        fast_sensors=arguments.fast_sensors,
        metrics_port=_metrics_port(arguments.metrics_port),
        live=arguments.live,
        output=arguments.output,
        caller=caller,
    )
    ring = make_ring()
    try:
        return supervise(
            settings, target.name, target.hooked, lambda fd: launch(target, fd, caller), ring
        )
    finally:
        os.close(ring)


def _objective(arguments: argparse.Namespace) -> "Objective":
    from orin_gov.commands.amounts import parse_deadline, parse_watt_hours
    from orin_gov.policy.objective import Objective

    capped, cap_w = parse_cap(arguments.power_cap)
    deadline, budget = arguments.deadline, arguments.energy_budget
    return Objective(
        name=arguments.objective,
        max_slowdown=parse_share(arguments.max_slowdown),
        power_cap_w=cap_w,
        capped_power=capped,
        deadline_s=None if deadline is None else parse_deadline(deadline, datetime.now()),
        energy_budget_j=None if budget is None else parse_watt_hours(budget),
        steps=arguments.steps,
    )


def _metrics_port(port: int | None) -> int | None:
    """Return the port, having looked for what serves it before the script is started."""
    from orin_gov.errors import OrinGovError, UsageError

    if port is None:
        return None
    if not 0 <= port < 65536:
        raise UsageError(f"--metrics-port is {port}, expected 0 to 65535")
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise OrinGovError(
            "--metrics-port needs prometheus_client: pip install 'orin-gov[prometheus]'"
        ) from error
    return port


def parse_share(text: str, option: str = "--max-slowdown") -> float:
    """Return `10%` or `0.1` as 0.1.

    Raises:
        UsageError: it is neither.
    """
    scale = 0.01 if text.endswith("%") else 1.0
    return parse_number(text.removesuffix("%"), option) * scale


def parse_cap(text: str | None) -> tuple[str, float | None]:
    """Return `gpu:15` as ("gpu", 15.0), `25` as ("module", 25.0); no cap is None watts.

    Raises:
        UsageError: the watts are no number.
    """
    if text is None:
        return "module", None
    capped, _, watts = text.rpartition(":")
    return capped or "module", parse_number(watts, "--power-cap")


def parse_number(text: str, option: str) -> float:
    """Return the number in `text`.

    Raises:
        UsageError: there is none.
    """
    from orin_gov.errors import UsageError

    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option} is {text!r}, expected a number") from None
