"""Watch a run from another terminal: the same view as in `orin-gov run`, read-only, without rights.

  orin-gov top            the one run under way; several are listed
  orin-gov top RUN        the run in that directory; its summary once it has ended

q or Ctrl-C ends it; the run goes on. Without a terminal it prints the present moment once.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov top`."""
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument(
        "--json", action="store_true", help="print the present moment once, as JSON in SI units"
    )


def run(arguments: argparse.Namespace) -> int:
    """Find the run and watch it; return the exit code."""
    import glob
    import json
    import os
    import sys

    from orin_gov.errors import RunDirectoryError
    from orin_gov.view.terminal import NO_TERMINALS
    from orin_gov.view.watching import Ended, follow, moment, show_once

    folder = arguments.run or the_one()
    if folder is None:
        return 0
    # Not by pathlib, which raises where a folder may not be looked into: `moment` tells of that.
    if arguments.run is not None and not os.path.exists(folder / "manifest.json"):
        pattern = os.path.join(glob.escape(str(folder)), "*", "manifest.json")
        inside = sorted(Path(each).parent for each in glob.glob(pattern))
        if inside:
            tell(inside)
            return 0
    now = moment(folder)
    if arguments.json:
        if isinstance(now, Ended):
            raise RunDirectoryError(f"{folder}: {now.told}; its figures: {folder}/summary.json")
        print(json.dumps(now.as_json()))
        return 0
    on_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if isinstance(now, Ended) or not on_terminal or os.environ.get("TERM", "") in NO_TERMINALS:
        show_once(now, folder)
        return 0
    follow(folder)
    return 0


def the_one() -> Path | None:
    """Return the run under way; None where there are several, which are listed.

    Raises:
        UsageError: there is none.
    """
    from orin_gov.errors import UsageError
    from orin_gov.running import running

    # Started below this folder, or anywhere on this machine.
    here = {file.parent.absolute() for file in Path("orin_gov_runs").glob("*/live.json")}
    found = sorted({*running(), *(folder for folder in here if is_under_way(folder))})
    if not found:
        raise UsageError(
            "no run is under way on this machine; start one: orin-gov run train.py, "
            "or name the directory of one that has ended: orin-gov top RUN"
        )
    if len(found) == 1:
        return found[0]
    tell(found)
    return None


def is_under_way(folder: Path) -> bool:
    """Tell whether the run's supervisor is alive."""
    from orin_gov.errors import RunDirectoryError
    from orin_gov.view.watching import Ended, moment

    try:
        return not isinstance(moment(folder), Ended)
    except RunDirectoryError:
        return False


def tell(folders: list[Path]) -> None:
    """List runs, one a line, with what each is doing."""
    from orin_gov.errors import OrinGovError
    from orin_gov.view.watching import in_a_line, moment

    print(f"{len(folders)} runs; name the one to watch: orin-gov top RUN")
    for folder in folders:
        try:
            print(f"  {folder}  {in_a_line(moment(folder))}")
        except OrinGovError as error:
            print(f"  {folder}  {error}")
