"""Turn a log of tegrastats into a run directory, so that it can be looked at as a run is.

tegrastats tells power and clock, nothing of training: there are no steps and no decisions in it.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_gov.record.tegrastats import Log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov import`."""
    parser.add_argument("log", type=Path, metavar="tegrastats.log", help="what tegrastats wrote")
    parser.add_argument(
        "--module",
        metavar="PART",
        help="the board's module, as p3767-0000, where labels leave doubt",
    )
    parser.add_argument(
        "--interval-ms",
        type=float,
        metavar="MS",
        help="time between lines, for a log without stamps (default 1000)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the run directory (default: a new one)"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Read the log and write the run directory."""
    from orin_gov.board.modules import MODULE_NAMES, family_of, known_total
    from orin_gov.errors import RunDirectoryError, UsageError
    from orin_gov.record.imported import write_imported
    from orin_gov.record.tegrastats import parse_log
    from orin_gov.view.progress import working

    family = family_of(arguments.module)
    if arguments.module and family is None:
        raise UsageError(
            f"--module is {arguments.module!r}, expected one of {', '.join(MODULE_NAMES)}"
        )
    interval_ms = arguments.interval_ms
    if interval_ms is not None and not 0 < interval_ms < float("inf"):
        raise UsageError(f"--interval-ms is {interval_ms:g}, expected a positive number")
    try:
        with (
            arguments.log.open(encoding="utf-8", errors="replace") as file,
            working("reading the log"),
        ):
            log = parse_log(file, None if interval_ms is None else interval_ms / 1000)
    except OSError as error:
        raise RunDirectoryError(f"cannot read {arguments.log}: {error.strerror}") from error
    total = family.total(log.rails) if family else known_total(log.rails)
    if total and not set(total) <= set(log.rails):
        missing = ", ".join(label for label in total if label not in log.rails)
        raise RunDirectoryError(
            f"{arguments.log} has no rail {missing}, which {arguments.module} has"
        )
    path = arguments.output or _default_path(arguments.log)
    with working("writing the run"):
        summary = write_imported(path, arguments.log, log, total, arguments.module)
    if arguments.json:
        print(json.dumps({"run": str(path), "lines": len(log.lines), **summary}))
    else:
        _print_found(path, log, summary)
    return 0


def _default_path(log: Path) -> Path:
    from orin_gov.settings import default_run_directory

    return default_run_directory(log.stem)


def _print_found(path: Path, log: "Log", summary: dict[str, object]) -> None:
    print(f"{len(log.lines)} lines over {summary['elapsed_s']:.1f} s, {log.skipped} others skipped")
    for label, joules in summary["rail_energy_j"].items():  # type: ignore[attr-defined]
        print(f"  {label:<16} {'no reading' if joules is None else f'{joules:.1f} J'}")
    total = summary["energy_j"]
    print(f"  {'module':<16} {'not known: which rails?' if total is None else f'{total:.1f} J'}")
    print(f"run {path}")
