"""Jobs of the virtual board's workload family, in closed form, with and without drift."""

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bench._podgov_mix import capped, podgov_seconds
from bench._table_job import Costs, Segment, TableJob, Target
from orin_gov.virtual.counted import counts_of_laws, power_range_w, surroundings_of
from orin_gov.virtual.family import VirtualWorkload, workload_family
from orin_gov.virtual.plant import BoardModel

SEED = 2027
"""Of the workloads. The policy that ships is fitted on the family's seed 0: these are others."""

HEAT_K = 20.0
CAPS_HZ = (612_000_000, 714_000_000, 816_000_000, 918_000_000)
_PAUSE_STEPS = 40.0
"""An evaluation takes as long as the forward passes of so many steps."""

_BATCHES = (0.5, 2.0, 3.0)


def steady_jobs(board: BoardModel, n: int, steps: int, seed: int = SEED) -> list[TableJob]:
    """So many jobs that stay as they are."""
    return [
        TableJob(workload.name, [_segment(board, workload, _seconds(board, workload), steps)])
        for workload in workload_family(n, seed)
    ]


def drifting_jobs(board: BoardModel, n: int, steps: int, seed: int = SEED) -> list[TableJob]:
    """So many jobs of six segments of `steps` steps: as they began; with another batch size; after
    an evaluation; hotter; under a cap; and without the cap."""
    rng = random.Random(seed)
    return [_drifting(board, workload, steps, rng) for workload in workload_family(n, seed)]


def _drifting(
    board: BoardModel, workload: VirtualWorkload, steps: int, rng: random.Random
) -> TableJob:
    other = with_batch(board, workload, rng.choice(_BATCHES))
    below = capped(board, rng.choice(CAPS_HZ))
    usual = _seconds(board, other)
    changed = _segment(board, other, usual, steps)
    hot = _segment(board, other, usual, steps, HEAT_K)
    low = _segment(below, other, _seconds(below, other), steps, HEAT_K)
    return TableJob(
        workload.name,
        [
            _segment(board, workload, _seconds(board, workload), steps),
            changed,
            replace(changed, pause=_evaluation(changed)),
            hot,
            replace(low, told=f"a cap of {below.cap_hz / 1e6:.0f} MHz"),
            replace(hot, told="the cap was lifted"),
        ],
    )


def with_batch(board: BoardModel, workload: VirtualWorkload, factor: float) -> VirtualWorkload:
    """The same loop with a batch `factor` times as large.

    Forward and backward have so many times the GPU's work, and loading data the host's; launches,
    optimizer and what lies between stay.
    """
    laws, times_s = dict(workload.laws), {}
    for phase, share in workload.shares.items():
        law = laws[phase]
        before = board.time_s(law, board.top_hz)
        if phase in ("forward", "backward"):
            law = replace(law, compute=law.compute * factor, memory=law.memory * factor)
        elif phase == "data":
            law = replace(law, floor=law.floor * factor, compute=law.compute * factor)
        longer = board.time_s(law, board.top_hz) / before
        # The joules of the work grow with it; a law holds watts at the top clock.
        more = factor / longer if phase in ("data", "forward", "backward") else 1.0
        laws[phase] = replace(law, dynamic_w=law.dynamic_w * more, memory_w=law.memory_w * more)
        times_s[phase] = share * workload.step_s * longer
    step_s = sum(times_s.values())
    return VirtualWorkload(
        name=workload.name,
        laws=laws,
        shares={phase: time_s / step_s for phase, time_s in times_s.items()},
        step_s=step_s,
        tokens_per_step=workload.tokens_per_step * factor,
    )


Seconds = Mapping[tuple[str, int], float]
"""How long a step spends in each (phase, clock)."""


def _seconds(board: BoardModel, workload: VirtualWorkload) -> dict[Target, Seconds]:
    """Seconds of a step at each point that the board's cap allows, and under podgov."""
    pinned = {
        hz: {
            (phase, hz): share * workload.step_s * board.stretch(workload.laws[phase], hz)
            for phase, share in workload.shares.items()
        }
        for hz in board.frequencies_hz
        if hz <= board.cap_hz
    }
    return {None: podgov_seconds(board, workload), **pinned}


def _segment(
    board: BoardModel,
    workload: VirtualWorkload,
    seconds: Mapping[Target, Seconds],
    steps: int,
    hotter_k: float = 0.0,
) -> Segment:
    """Steps that take so long at each point, on a die so much hotter than usual."""
    temperature_c = board.constants.reference_c + hotter_k
    at = {
        target: _costs(board, workload, spent, temperature_c) for target, spent in seconds.items()
    }
    times_s = {phase: share * workload.step_s for phase, share in workload.shares.items()}
    counts = counts_of_laws(board, workload.laws, times_s, workload.tokens_per_step)
    surroundings = surroundings_of(board, temperature_c)
    work = workload.tokens_per_step
    return Segment(steps, work, at, counts=counts, surroundings=surroundings)


def _costs(
    board: BoardModel,
    workload: VirtualWorkload,
    seconds: Seconds,
    temperature_c: float,
) -> Costs:
    """A step that spends so long in each (phase, clock)."""
    phase_s = dict.fromkeys(workload.shares, 0.0)
    phase_j = dict.fromkeys(workload.shares, 0.0)
    rail_j = dict.fromkeys((rail.label for rail in board.rails), 0.0)
    module = {rail.label for rail in board.module_rails}
    busy_s = cycles = 0.0
    spans_w = []
    for (phase, hz), span_s in seconds.items():
        law = workload.laws[phase]
        power_w = board.rail_power_w(law, hz, temperature_c=temperature_c)
        for label, watts in power_w.items():
            rail_j[label] += watts * span_s
        spans_w.append(sum(power_w[label] for label in module))
        phase_j[phase] += span_s * spans_w[-1]
        phase_s[phase] += span_s
        busy_s += board.load(law, hz) * span_s
        cycles += hz * span_s
    time_s = sum(phase_s.values())
    return Costs(
        time_s=time_s,
        energy_j=sum(phase_j.values()),
        clock_hz=cycles / time_s,
        load=busy_s / time_s,
        phase_s=phase_s,
        phase_j=phase_j,
        rail_j=rail_j,
        range_w=power_range_w(np.array(spans_w), np.array([*seconds.values()])),
    )


def _evaluation(segment: Segment) -> dict[Target, tuple[float, float]]:
    """Seconds and joules of an evaluation at each point."""
    return {
        target: (
            _PAUSE_STEPS * costs.phase_s["forward"],
            _PAUSE_STEPS * costs.phase_j["forward"],
        )
        for target, costs in segment.at.items()
    }
