"""Fit a policy on characterizations, or on the workloads of the virtual board's family.

  orin-gov fit -o policy.json RUN...
  orin-gov fit -o policy.json [--board NAME] [--workloads N]

RUN is a run directory of orin-gov characterize, virtual or real; all of one board in one state.
Only operating points count that were measured, energy included, for each workload; a workload that
lacks the board's own governor or half of the points is left out. The policy's card says what was
left out, and how well the tree does on workloads that were kept from it.
Needs scikit-learn (pip install 'orin-gov[fit]').
"""

import argparse
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orin_gov.policy.tree import Policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov fit`."""
    parser.add_argument(
        "data",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="characterizations to fit on (default: the virtual board's family)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the policy to write"
    )
    parser.add_argument(
        "--board", metavar="NAME", help="the virtual board of the family (default agx-orin-64gb)"
    )
    parser.add_argument(
        "--workloads", type=int, metavar="N", help="how many of the family (default 400)"
    )
    parser.add_argument("--seed", type=int, help="of the family (default 0)")
    parser.add_argument("--json", action="store_true", help="print what was fitted as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fit and write the policy."""
    from orin_gov.caller import as_caller, find_caller
    from orin_gov.errors import OrinGovError, UsageError
    from orin_gov.policy.policy_file import dump_policy
    from orin_gov.view.lines import print_warning

    count = 400 if arguments.workloads is None else arguments.workloads
    family = (arguments.board, arguments.workloads, arguments.seed)
    if arguments.data and family != (None, None, None):
        raise UsageError("--board, --workloads and --seed are of the family; a RUN has its own")
    if count < 1:
        raise UsageError(f"--workloads is {count}, expected at least 1")
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise OrinGovError("fit needs scikit-learn: pip install 'orin-gov[fit]'") from error
    with as_caller(find_caller()):
        if arguments.data:
            policy, examples = _fit_data(arguments.data)
        else:
            board, seed = arguments.board or "agx-orin-64gb", arguments.seed or 0
            policy, examples = _fit_family(board, count, seed)
        try:
            arguments.output.write_text(dump_policy(policy) + "\n", encoding="utf-8")
        except OSError as error:
            raise OrinGovError(f"cannot write {arguments.output}: {error.strerror}") from error
    for hole in policy.card.get("holes", ()):
        print_warning(hole)
    if why := policy.card["left_out"].get("why_missing"):
        print_warning(f"no cross-validated regret: {why}")
    if arguments.json:
        told = {"policy": str(arguments.output), "examples": examples, "card": policy.card}
        print(json.dumps(told))
        return 0
    print(
        f"wrote {arguments.output}: {examples} workloads; see orin-gov explain {arguments.output}"
    )
    return 0


def _fit_data(paths: Sequence[Path]) -> "tuple[Policy, int]":
    from orin_gov.fitting import gather
    from orin_gov.policy.fit import fit_policy
    from orin_gov.view.progress import working

    found = gather(paths)
    state, names = found.fingerprint, list(dict.fromkeys(found.workloads))
    simulated = "; simulated, nothing measured on a real board" if state.get("virtual") else ""
    card = {
        "fitted_on": f"{found.board}: {', '.join(names)}{simulated}",
        "baseline": "the board's own governor, as measured",
        "module": state.get("module"),
        "power_mode": state.get("power_mode"),
        "date": _today(),
        "table_hz": state.get("table_hz") or list(found.points_hz),
        "points_hz": list(found.points_hz),
        "rounds": found.rounds,
        "data": [path.resolve().name for path in paths],
        "holes": list(found.holes),
        "versions": _versions(),
        "made_by": "orin-gov fit on characterizations",
    }
    with working("fitting the trees"):
        policy = fit_policy(found.examples, found.points_hz, card, found.workloads, found.top_hz)
    return policy, len(found.examples)


def _fit_family(name: str, count: int, seed: int) -> "tuple[Policy, int]":
    from rich.progress import track

    from orin_gov.board.identity import module_of
    from orin_gov.policy.examples import example_of
    from orin_gov.policy.fit import fit_policy
    from orin_gov.view.progress import working
    from orin_gov.virtual.family import window_at, window_at_podgov, workload_family
    from orin_gov.virtual.plant import load_board

    board = load_board(name)
    steps = 10
    examples = []
    for workload in track(workload_family(count, seed), "simulating workloads", transient=True):
        baseline = window_at_podgov(board, workload, steps)
        windows = [window_at(board, workload, hz, steps) for hz in board.frequencies_hz]
        examples.append(example_of(baseline, windows, board.top_hz))
    card = {
        "fitted_on": f"virtual board {board.name}: {count} workloads of its family, "
        f"seed {seed}; nothing measured on a real board",
        "baseline": f"simulated nvhost_podgov, {board.mode.name}",
        "module": (module_of("\n".join(board.compatible)) or "").partition("-")[0] or None,
        "power_mode": board.mode.name,
        "date": _today(),
        "table_hz": list(board.frequencies_hz),
        "versions": _versions(),
        "made_by": f"orin-gov fit --workloads {count} --seed {seed}",
    }
    with working("fitting the trees"):
        return fit_policy(examples, board.frequencies_hz, card), len(examples)


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def _versions() -> dict[str, Any]:
    import sklearn

    from orin_gov import __version__

    return {"orin_gov": __version__, "scikit-learn": sklearn.__version__}
