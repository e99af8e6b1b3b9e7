"""Show a policy's trees as text, or each decision of a run with its path, reason and outcome."""

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov explain`."""
    parser.add_argument(
        "what", nargs="?", type=Path, metavar="POLICY|RUN", help="default: the policy that ships"
    )
    parser.add_argument(
        "--objective", default="energy", metavar="NAME", help="energy (default), edp, ed2p or time"
    )
    parser.add_argument(
        "--max-slowdown", default="10%", metavar="SHARE", help="the budget (default 10%%)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    if arguments.what is not None and arguments.what.is_dir():
        _explain_run(arguments.what)
    else:
        _explain_policy(arguments)
    return 0


def _explain_policy(arguments: argparse.Namespace) -> None:
    from orin_gov.commands.run import parse_share
    from orin_gov.policy.objective import Objective
    from orin_gov.policy.tree import tree_lines
    from orin_gov.supervisor import load_policy
    from orin_gov.view.lines import printable

    objective = Objective(arguments.objective, parse_share(arguments.max_slowdown))
    policy = load_policy(arguments.what)
    for key, value in policy.card.items():
        print(printable(f"{key}: {value}"))
    top_hz = max(policy.card.get("table_hz") or [1e9])
    print(f"\n{objective.name}, at most {objective.max_slowdown:.0%} slower:")
    print("\n".join(map(printable, tree_lines(policy, top_hz, objective, depth=1))))


def _explain_run(path: Path) -> None:
    from orin_gov.errors import RunDirectoryError
    from orin_gov.record.reader import read_decisions, read_manifest
    from orin_gov.view.lines import printable

    manifest = read_manifest(path)
    try:
        print(printable(f"{manifest['name']} on {manifest['board']}, {manifest['started']}"))
        for epoch in read_decisions(path):
            print(printable(f"\nepoch {epoch['epoch']}: {_measured_words(epoch['measured'])}"))
            print(printable(f"  {_decided_words(epoch['decision'])}"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunDirectoryError(f"{path} is no record of orin_gov's: {error!r}") from error


def _measured_words(measured: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    at = (
        "the board's own governor"
        if measured["target_hz"] is None
        else megahertz(measured["target_hz"])
    )
    words = (
        f"{measured['steps']} steps in {measured['duration_s']:.2f} s under {at} "
        f"({measured['state']})"
    )
    if measured["energy_j"] is not None:
        words += f", {measured['energy_j']:.1f} J"
    if measured["slowdown"] is not None and measured["saving"] is not None:
        words += (
            f"; {-measured['saving']:+.1%} energy and {measured['slowdown']:+.1%} time "
            f"per {measured['unit']}"
        )
    return words


def _decided_words(decision: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    to = (
        "the board's own governor"
        if decision["target_hz"] is None
        else megahertz(decision["target_hz"])
    )
    because = f", because {' and '.join(decision['path'])}" if decision["path"] else ""
    return f"-> {decision['state']} at {to}: {decision['reason']}{because}"
