"""How much faster than real time the simulation runs: the figure that bench.plant publishes."""

import time

from bench._figures import Figure
from orin_gov.deciding import load_policy
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.virtual import simulate
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.plant import load_board

WORKLOADS = ("bert-base/sst2", "bert-large/mrpc", "pythia-14m/qnli", "pythia-160m/sst2")
"""From steps of a twentieth of a second, which cost the most for their time, to long ones."""


TRIES = 3


def speedup_figure() -> Figure:
    """Return simulated seconds by processor seconds under the shipped policy.

    The least of all workloads, each in the least disturbed of three tries. Processor time, because
    a simulation is one thread and the machine may be shared.
    """
    ratios = [max(_speedup(name) for _ in range(TRIES)) for name in WORKLOADS]
    return Figure("virtual_time_speedup", min(ratios), "x", len(ratios), bar=">= 1000")


def _speedup(name: str) -> float:
    board, policy = load_board("agx-orin-64gb"), load_policy(None)
    job = parse_workload(name).job(board)
    governor = Governor(policy, board.frequencies_hz, Objective())
    begin = time.process_time()
    run = simulate(board, job, governor)
    return run.elapsed_s / (time.process_time() - begin)
