"""Show a policy's trees as text, or each decision of a run with its path, reason and outcome."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov explain`."""
    parser.add_argument(
        "what", nargs="?", type=Path, metavar="POLICY|RUN", help="default: the policy that ships"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the policy, or the decisions, as JSON"
    )
    parser.add_argument(
        "--objective", default="energy", metavar="NAME", help="energy (default), edp, ed2p or time"
    )
    parser.add_argument(
        "--max-slowdown", default="10%", metavar="SHARE", help="the budget (default 10%%)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    if arguments.what is not None and os.path.isdir(arguments.what):
        _explain_run(arguments.what, arguments.json)
    else:
        _explain_policy(arguments)
    return 0


def _explain_policy(arguments: argparse.Namespace) -> None:
    from orin_gov.commands.run import parse_share
    from orin_gov.deciding import load_policy
    from orin_gov.policy.objective import Objective
    from orin_gov.policy.policy_file import dump_policy
    from orin_gov.policy.tree import tree_lines
    from orin_gov.view.lines import printable

    objective = Objective(arguments.objective, parse_share(arguments.max_slowdown))
    policy = load_policy(arguments.what)
    if arguments.json:
        print(dump_policy(policy))
        return
    for key, value in policy.card.items():
        print(printable(f"{key}: {value}"))
    top_hz = max(policy.card.get("table_hz") or [1e9])
    print(f"\n{objective.name}, at most {objective.max_slowdown:.0%} slower:")
    print("\n".join(map(printable, tree_lines(policy, top_hz, objective, depth=1))))


def _explain_run(path: Path, as_json: bool) -> None:
    from orin_gov.errors import RunDirectoryError
    from orin_gov.record.run import is_characterization, read_run, strange_records
    from orin_gov.view.lines import printable
    from orin_gov.view.plan import plan_lines, plan_words

    if is_characterization(path):
        raise RunDirectoryError(
            f"{path} is a characterization: nothing was decided; see orin-gov report {path}"
        )
    run = read_run(path)
    if not run.decisions and run.notes:
        raise RunDirectoryError(f"{path} tells no decision: {'; '.join(run.notes)}")
    if as_json:
        print(
            json.dumps({"manifest": run.manifest, "decisions": run.decisions, "notes": run.notes})
        )
        return
    known = run.manifest
    where = f"{known.get('board', 'an unknown board')}, {known.get('started', 'undated')}"
    print(printable(f"{run.name} on {where}"))
    if (objective := known.get("objective") or {}).get("steps"):
        print(printable(f"plan: {plan_words(objective)}"))
        for label, words in plan_lines(run.summary or {}):
            print(printable(f"  {label} {words}"))
    with strange_records(path):
        for epoch in run.decisions:
            print(printable(f"\nepoch {epoch['epoch']}: {_measured_words(epoch['measured'])}"))
            print(printable(f"  {_decided_words(epoch['decision'])}"))
    for note in run.notes:
        print(printable(f"{path}: {note}"), file=sys.stderr)


def _measured_words(measured: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    at = (
        "the board's own governor"
        if measured.get("target_hz") is None
        else megahertz(measured.get("target_hz"))
    )
    words = (
        f"{measured['steps']} steps in {measured['duration_s']:.2f} s under {at} "
        f"({measured['state']})"
    )
    if measured.get("energy_j") is not None:
        words += f", {measured['energy_j']:.1f} J"
    if measured.get("slowdown") is not None and measured.get("saving") is not None:
        words += (
            f"; {-measured['saving']:+.1%} energy and {measured['slowdown']:+.1%} time "
            f"per {measured['unit']}"
        )
    return words


def _decided_words(decision: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    to = (
        "the board's own governor"
        if decision.get("target_hz") is None
        else megahertz(decision.get("target_hz"))
    )
    because = f", because {' and '.join(decision['path'])}" if decision.get("path") else ""
    return f"-> {decision['state']} at {to}: {decision['reason']}{because}"
