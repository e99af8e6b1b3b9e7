"""Say what another policy, objective or budget would have saved, over a run or a characterization.

Of a characterization every operating point is known, so it is played as a job. Of a run only the
operating points it measured are known; the others are told from the policy's belief, and the 95 %
interval says how sure that is.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_gov.replay import Estimate, Replayed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov replay`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run or a characterization")
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="a policy other than the shipped one"
    )
    parser.add_argument(
        "--objective", default="energy", metavar="NAME", help="energy (default), edp, ed2p or time"
    )
    parser.add_argument(
        "--max-slowdown", default="10%", metavar="SHARE", help="the budget (default 10%%)"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Replay, and print what would have been saved."""
    from orin_gov.commands.run import parse_share
    from orin_gov.deciding import load_policy
    from orin_gov.policy.objective import Objective
    from orin_gov.record.characterization import read_measurements
    from orin_gov.record.run import is_characterization, read_run, strange_records
    from orin_gov.replay import replay_curve, replay_run
    from orin_gov.view.lines import printable

    objective = Objective(arguments.objective, parse_share(arguments.max_slowdown))
    policy, path = load_policy(arguments.policy), arguments.run
    with strange_records(path):
        if is_characterization(path):
            measured = read_measurements(path)
            names = dict.fromkeys(each.workload for each in measured)
            found = [replay_curve(name, measured, policy, objective) for name in names]
        else:
            found = [replay_run(read_run(path), policy, objective)]
    if arguments.json:
        print(json.dumps([asdict(each) for each in found]))
        return 0
    for each in found:
        print(printable(_words(each)))
    return 0


def _words(each: "Replayed") -> str:
    from orin_gov.view.lines import megahertz

    if each.chosen_hz is None:
        words = f"{each.workload}: the board's own governor, nothing saved"
    else:
        how = "measured" if each.measured else "never measured there: as the policy believes"
        words = (
            f"{each.workload}: settles at {megahertz(each.chosen_hz)}, energy "
            f"{_interval(each.energy)}, time {_interval(each.time)}; {how}"
        )
    if each.best_energy is None:
        return words
    best = "the board's own governor" if each.best_hz is None else megahertz(each.best_hz)
    return f"{words}; the best measured within the budget is {best}, energy {each.best_energy:+.1%}"


def _interval(each: "Estimate") -> str:
    return f"{each.value:+.1%} (95 %: {each.low:+.1%} to {each.high:+.1%})"
