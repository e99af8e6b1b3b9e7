"""What a step takes under the board's own governor, from podgov's stay at each clock."""

from collections.abc import Mapping
from dataclasses import replace

from bench._table_job import Costs
from orin_gov.virtual.family import VirtualWorkload
from orin_gov.virtual.family import _PodgovRun as PodgovRun
from orin_gov.virtual.plant import BoardModel

_SETTLE_S = 2.0
_MEASURE_S = 6.0


def capped(board: BoardModel, cap_hz: int) -> BoardModel:
    """The board with its GPU's clock capped, and all else as it was."""
    return replace(board, mode=replace(board.mode, gpu_max_hz=cap_hz))


def podgov_seconds(board: BoardModel, workload: VirtualWorkload) -> dict[tuple[str, int], float]:
    """Seconds of a step by phase and clock under podgov, once it has settled; simulated."""
    run = PodgovRun(board, workload)
    run.run(_SETTLE_S)
    run.seconds.clear()
    steps = run.run(_MEASURE_S)
    return {key: seconds / steps for key, seconds in run.seconds.items()}


def mixed(
    board: BoardModel, workload: VirtualWorkload, at: Mapping[int, Costs]
) -> tuple[Costs, float]:
    """A step under podgov from a table measured at constant clocks, and the GPU's load in it.

    Podgov runs on the workload's laws; each clock that it visits counts with the share of the step
    that it gets done there. A clock that the table lacks stands for its nearest. The load is the
    laws', and no part of the costs: it was not measured.
    """
    done: dict[int, float] = {}
    busy_s = total_s = 0.0
    for (phase, hz), seconds in podgov_seconds(board, workload).items():
        law = workload.laws[phase]
        near = min(at, key=lambda point, hz=hz: abs(point - hz))  # type: ignore[misc]
        # Done of the whole step: what share of its top-clock time this span stands for.
        progress = seconds / board.stretch(law, hz) / workload.step_s
        done[near] = done.get(near, 0.0) + progress
        busy_s += seconds * board.load(law, hz)
        total_s += seconds
    whole = sum(done.values())
    time_s = sum(share * at[hz].time_s for hz, share in done.items()) / whole
    costs = Costs(
        time_s=time_s,
        energy_j=sum(share * at[hz].energy_j for hz, share in done.items()) / whole,
        clock_hz=sum(share * at[hz].time_s * hz for hz, share in done.items()) / whole / time_s,
    )
    return costs, busy_s / total_s
