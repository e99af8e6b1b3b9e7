"""Fit a policy on the virtual board: workloads of its family, at every operating point.

Needs scikit-learn (pip install 'orin-gov[fit]').
"""

import argparse
import json
from datetime import datetime, timezone
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov fit`."""
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="the policy to write"
    )
    parser.add_argument("--board", default="agx-orin-64gb", help="the virtual board")
    parser.add_argument(
        "--workloads", type=int, default=400, metavar="N", help="how many (default 400)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the workloads (default 0)")
    parser.add_argument("--json", action="store_true", help="print what was fitted as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fit and write the policy."""
    from orin_gov.errors import OrinGovError, UsageError
    from orin_gov.policy.policy_file import dump_policy

    if arguments.workloads < 1:
        raise UsageError(f"--workloads is {arguments.workloads}, expected at least 1")
    try:
        import sklearn
    except ImportError as error:
        raise OrinGovError("fit needs scikit-learn: pip install 'orin-gov[fit]'") from error
    from rich.progress import track

    from orin_gov import __version__
    from orin_gov.board.identity import module_of
    from orin_gov.policy.fit import example_of, fit_policy
    from orin_gov.view.progress import working
    from orin_gov.virtual.family import window_at, window_at_podgov, workload_family
    from orin_gov.virtual.plant import load_board

    board = load_board(arguments.board)
    steps = 10
    examples = []
    for workload in track(
        workload_family(arguments.workloads, arguments.seed), "simulating workloads", transient=True
    ):
        baseline = window_at_podgov(board, workload, steps)
        windows = [window_at(board, workload, hz, steps) for hz in board.frequencies_hz]
        examples.append(example_of(baseline, windows, board.top_hz))
    card = {
        "fitted_on": f"virtual board {board.name}: {arguments.workloads} workloads of its family, "
        f"seed {arguments.seed}; nothing measured on a real board",
        "baseline": f"simulated nvhost_podgov, {board.mode.name}",
        "module": (module_of("\n".join(board.compatible)) or "").partition("-")[0] or None,
        "power_mode": board.mode.name,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "table_hz": list(board.frequencies_hz),
        "versions": {"orin_gov": __version__, "scikit-learn": sklearn.__version__},
        "made_by": f"orin-gov fit --workloads {arguments.workloads} --seed {arguments.seed}",
    }
    with working("fitting the trees"):
        policy = fit_policy(examples, board.frequencies_hz, card)
    try:
        arguments.output.write_text(dump_policy(policy) + "\n", encoding="utf-8")
    except OSError as error:
        raise OrinGovError(f"cannot write {arguments.output}: {error.strerror}") from error
    if arguments.json:
        told = {"policy": str(arguments.output), "examples": len(examples), "card": card}
        print(json.dumps(told))
        return 0
    print(
        f"wrote {arguments.output}: {len(examples)} workloads; "
        f"see orin-gov explain {arguments.output}"
    )
    return 0
