"""Workloads for the plant, and the windows they would be measured as, in closed form.

A workload is its phase laws, the share of each phase in a step at the top clock, the step's time
there and its tokens. Phase p of it lasts share_p * step_s * stretch_p(f) at clock f, and takes
that time times the rails' power in it.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from orin_gov.policy.window import Window
from orin_gov.virtual.counted import counts_of_laws, power_range_w, surroundings_of
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.podgov import POLLING_NS, Podgov

_SETTLE_S = 2.0
_MEASURE_S = 6.0


@dataclass(frozen=True)
class VirtualWorkload:
    """One training loop: laws and shares (summing to 1) by phase, `step_s` at the top clock."""

    name: str
    laws: Mapping[str, PhaseLaw]
    shares: Mapping[str, float]
    step_s: float
    tokens_per_step: float


def workload_family(n: int, seed: int) -> list[VirtualWorkload]:
    """`n` random but physical workloads, from host-bound to compute-bound; same seed, same list.

    The GPU's compute time is 0.4 to 2.5 times the host's floor (log-uniform); the dynamic power
    rises with how busy that keeps the GPU. The ranges span the workloads that are published as
    measured (`orin_gov.virtual.published`), and are assumptions beyond.
    """
    rng = random.Random(seed)
    return [_workload(f"virtual-{seed}-{index}", rng) for index in range(n)]


def _workload(name: str, rng: random.Random) -> VirtualWorkload:
    ratio = 0.4 * (2.5 / 0.4) ** rng.random()
    peak_w = rng.uniform(6.0, 20.0)
    memory_w = rng.uniform(2.0, 10.0)
    laws = {
        "idle": PhaseLaw(1.0, 0.02, 0.2, memory_w=0.3, cores=0.3),
        "data": PhaseLaw(1.0, 0.02, 0.2, memory_w=0.8),
        "forward": _gpu_law(
            ratio * rng.uniform(0.8, 1.0), peak_w * rng.uniform(0.8, 1.0), memory_w
        ),
        "backward": _gpu_law(ratio * rng.uniform(1.0, 1.25), peak_w, memory_w),
        "optimizer": _gpu_law(
            rng.uniform(0.25, 0.6), peak_w * rng.uniform(0.3, 0.8), 1.5 * memory_w
        ),
    }
    weights = {
        "idle": rng.uniform(0.0, 0.08),
        "data": rng.uniform(0.01, 0.12),
        "forward": rng.uniform(0.25, 0.35),
        "backward": rng.uniform(0.45, 0.65),
        "optimizer": rng.uniform(0.03, 0.25),
    }
    total = sum(weights.values())
    return VirtualWorkload(
        name=name,
        laws=laws,
        shares={phase: weight / total for phase, weight in weights.items()},
        step_s=0.1 * 40.0 ** rng.random(),
        tokens_per_step=float(round(512 * 64.0 ** rng.random())),
    )


def _gpu_law(ratio: float, peak_w: float, memory_w: float) -> PhaseLaw:
    """The law of a phase whose compute time is `ratio` times its floor.

    The power of its work is `peak_w` and `memory_w` where the GPU is always busy and 40 % of it where it hardly is:
    stalled kernels still clock the chip and move memory.
    """
    busy = ratio / (1.0 + ratio**4) ** 0.25
    scale = 1.0 / max(1.0, ratio)
    work = 0.4 + 0.6 * busy
    return PhaseLaw(scale, ratio * scale, peak_w * work, memory_w=memory_w * work)


def window_at(
    board: BoardModel, workload: VirtualWorkload, frequency_hz: int, steps: int
) -> Window:
    """What `steps` steps at a pinned clock measure, without noise. Module energy is the exact sum
    of the rails that are inside no other."""
    seconds = {
        (phase, frequency_hz): steps
        * share
        * workload.step_s
        * board.stretch(workload.laws[phase], frequency_hz)
        for phase, share in workload.shares.items()
    }
    return _window(board, workload, seconds, steps, frequency_hz)


def window_at_podgov(board: BoardModel, workload: VirtualWorkload, steps: int) -> Window:
    """What `steps` steps under the board's own governor measure, once it has settled.

    The governor is simulated for 2 s of whole steps to settle, then for 6 s more, which are
    averaged; `frequency_hz` is the mean clock and `target_hz` None.
    """
    simulation = _PodgovRun(board, workload)
    simulation.run(_SETTLE_S)
    simulation.seconds.clear()
    measured = simulation.run(_MEASURE_S)
    seconds = {key: time * steps / measured for key, time in simulation.seconds.items()}
    return _window(board, workload, seconds, steps, None)


class _PodgovRun:
    """A workload in virtual time under podgov; `seconds` is the time in each (phase, clock)."""

    def __init__(self, board: BoardModel, workload: VirtualWorkload) -> None:
        self._board = board
        self._workload = workload
        self._podgov = Podgov(board.frequencies_hz)
        self._clock_hz = board.frequencies_hz[0]
        self._now_s = 0.0
        self._next_poll_s = POLLING_NS * 1e-9
        self._busy_s = 0.0
        self.seconds: dict[tuple[str, int], float] = {}

    def run(self, least_s: float) -> int:
        """Run whole steps for at least so long; returns how many."""
        end_s = self._now_s + least_s
        steps = 0
        while self._now_s < end_s:
            for phase, share in self._workload.shares.items():
                self._run_phase(phase, share * self._workload.step_s)
            steps += 1
        return steps

    def _run_phase(self, phase: str, left_s: float) -> None:
        """Run `left_s` of top-clock time of a phase, asking podgov whenever its poll is due."""
        law = self._workload.laws[phase]
        while left_s > 0:
            stretch = self._board.stretch(law, self._clock_hz)
            span_s = min(left_s * stretch, self._next_poll_s - self._now_s)
            polled = span_s < left_s * stretch
            left_s = left_s - span_s / stretch if polled else 0.0
            self._now_s += span_s
            self._busy_s += span_s * self._board.load(law, self._clock_hz)
            key = (phase, self._clock_hz)
            self.seconds[key] = self.seconds.get(key, 0.0) + span_s
            if polled:
                self._poll()

    def _poll(self) -> None:
        board = self._board
        load_permille = 1000 * self._busy_s / (POLLING_NS * 1e-9)
        self._clock_hz = self._podgov.step(
            load_permille, round(self._now_s * 1e9), board.frequencies_hz[0], board.cap_hz
        )
        self._busy_s = 0.0
        self._next_poll_s += POLLING_NS * 1e-9


def _window(
    board: BoardModel,
    workload: VirtualWorkload,
    seconds: Mapping[tuple[str, int], float],
    steps: int,
    target_hz: int | None,
) -> Window:
    """The window of `steps` steps that spent so many seconds in each (phase, clock)."""
    module = [rail.label for rail in board.module_rails]
    time_s = dict.fromkeys(workload.shares, 0.0)
    phase_j = dict.fromkeys(workload.shares, 0.0)
    rail_j = dict.fromkeys((rail.label for rail in board.rails), 0.0)
    busy_s = clock_s = 0.0
    span_w: list[float] = []
    for (phase, clock_hz), span_s in seconds.items():
        law = workload.laws[phase]
        power_w = board.rail_power_w(law, clock_hz)
        for label in rail_j:
            rail_j[label] += power_w[label] * span_s
        span_w.append(sum(power_w[label] for label in module))
        phase_j[phase] += span_w[-1] * span_s
        time_s[phase] += span_s
        busy_s += board.load(law, clock_hz) * span_s
        clock_s += clock_hz * span_s
    duration_s = sum(time_s.values())
    counts = counts_of_laws(
        board,
        workload.laws,
        {phase: share * workload.step_s for phase, share in workload.shares.items()},
        workload.tokens_per_step,
    )
    return Window(
        start_ns=0,
        end_ns=round(duration_s * 1e9),
        duration_s=duration_s,
        target_hz=target_hz,
        steps=steps,
        work=workload.tokens_per_step * steps,
        unit="tokens",
        energy_j=sum(rail_j[label] for label in module),
        rail_energy_j=dict(rail_j),
        phase_time_s=time_s,
        phase_energy_j=dict(phase_j),
        frequency_hz=clock_s / duration_s if target_hz is None else float(target_hz),
        load=busy_s / duration_s,
        operations_per_step=counts.operations,
        bytes_per_step=counts.moved,
        launches_per_step=counts.launches,
        power_range_w=power_range_w(np.array(span_w), np.array([*seconds.values()])),
        surroundings=surroundings_of(board, board.constants.reference_c),
    )
