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
    simulated = " (simulated)" if known.get("virtual") else ""
    told: tuple[Any, Any] = ((), None)  # the last path that was told, and in which epoch
    with strange_records(path):
        if (objective := known.get("objective") or {}).get("steps"):
            print(printable(f"plan: {plan_words(objective)}"))
            for label, words in plan_lines(run.summary or {}):
                print(printable(f"  {label} {words}"))
        for epoch in run.decisions:
            number, decision = epoch["epoch"], epoch["decision"]
            measured = f"{_measured_words(epoch['measured'])}{simulated}"
            because = _because(decision.get("path"), *told)
            print(printable(f"\nepoch {number}: {measured}"))
            print(printable(f"  {_decided_words(decision)}{because}"))
            if decision.get("path") and decision["path"] != told[0]:
                told = decision["path"], number
    for note in run.notes:
        print(printable(f"{path}: {note}"), file=sys.stderr)


def _measured_words(measured: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    at = (
        "under the board's own governor"
        if measured.get("target_hz") is None
        else f"at {megahertz(measured.get('target_hz'))}"
    )
    words = (
        f"{measured['steps']} steps in {measured['duration_s']:.2f} s {at} ({measured['state']})"
    )
    if measured.get("energy_j") is not None:
        words += f", {measured['energy_j']:.1f} J"
    if measured.get("slowdown") is not None and measured.get("saving") is not None:
        words += (
            f"; {-measured['saving']:+.1%} energy and {measured['slowdown']:+.1%} time "
            f"per {measured['unit']} against the baseline"
        )
    return words


def _decided_words(decision: dict[str, Any]) -> str:
    from orin_gov.view.lines import megahertz

    to = (
        "under the board's own governor"
        if decision.get("target_hz") is None
        else f"at {megahertz(decision.get('target_hz'))}"
    )
    return f"-> {decision['state']} {to}: {decision['reason']}"


def _because(path: list[str] | None, before: Any, epoch: Any) -> str:
    """Return the tree's path in words; one that was told `before`, at `epoch`, is not told again."""
    if not path:
        return ""
    if path == before:
        return f"; the tree's path is that of epoch {epoch}"
    return f"; the tree's path: {' and '.join(path)}"
