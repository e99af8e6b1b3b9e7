"""A training job on a virtual board in virtual time, under any governor.

It goes as the engine goes: steps make windows of one decision epoch, the governor decides from
each, and a step during which the clock changes is in no window. Same seed, same run: what a step is
and how it scatters depends on its number alone, not on what was decided before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from orin_gov.engine import TICK_S
from orin_gov.epoch import Epoch
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, State
from orin_gov.policy.history import History
from orin_gov.policy.window import Progress, Window
from orin_gov.tally import EpochRecord
from orin_gov.virtual.clock import VirtualClock
from orin_gov.virtual.counted import surroundings_of
from orin_gov.virtual.execution import Execution
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.gathering import Gathering
from orin_gov.virtual.job import Job
from orin_gov.virtual.plant import BoardModel, load_board


@dataclass(frozen=True)
class SimulatedRun:
    """What a whole run came to. `steps_*` leave evaluations and checkpoints out."""

    epochs: tuple[EpochRecord, ...]
    steps: int
    elapsed_s: float
    energy_j: float
    steps_time_s: float
    steps_energy_j: float
    rail_energy_j: dict[str, float]
    clock_s: dict[int, float]
    switches: int
    temperature_c: float


def simulate(
    board: BoardModel | str,
    workload: Job | str,
    governor: Decider,
    epoch: Epoch | None = None,
    seed: int = 0,
) -> SimulatedRun:
    """Run `workload` (a job, or the name of one) to its end on `board` under `governor`.

    Raises:
        UsageError: there is no board or no workload of that name.
    """
    board = load_board(board) if isinstance(board, str) else board
    job = parse_workload(workload).job(board) if isinstance(workload, str) else workload
    simulation = Simulation(board, job, epoch or Epoch(), seed)
    return simulation.result(tuple(simulation.run(governor)))


class Simulation:
    """One run under way. Not thread-safe."""

    def __init__(self, board: BoardModel, job: Job, epoch: Epoch, seed: int) -> None:
        self._board, self._job, self._epoch = board, job, epoch
        self._rng = np.random.default_rng((seed, 2**32))
        self._execution = Execution(board, job, VirtualClock(board, self._rng), seed)
        self._history = History()
        self._switches = 0

    @property
    def temperature_c(self) -> float:
        """The die's temperature."""
        return self._execution.temperature_c

    def run(self, governor: Decider) -> Iterator[EpochRecord]:
        """Go on until the job ends; yields each decision epoch before its decision takes effect."""
        decision = governor.first()
        self._apply(decision)
        number = 0
        while window := self._next_window(self._epoch.during(decision.state)):
            outcome, measured_in = governor.outcome(window), decision.state
            decision = governor.decide(window)
            yield EpochRecord(number, measured_in, window, outcome, decision)
            self._apply(decision)
            number += 1
        self._execution.pause()

    def result(self, epochs: tuple[EpochRecord, ...]) -> SimulatedRun:
        """What the run came to."""
        done = self._execution
        all_j = done.steps_j + done.paused_j
        return SimulatedRun(
            epochs=epochs,
            steps=done.steps,
            elapsed_s=done.clock.now_s,
            energy_j=float(all_j @ done.module),
            steps_time_s=done.steps_s,
            steps_energy_j=float(done.steps_j @ done.module),
            rail_energy_j=dict(zip(done.rails, all_j.tolist(), strict=True)),
            clock_s=dict(sorted(done.clock_s.items())),
            switches=self._switches,
            temperature_c=self.temperature_c,
        )

    def _next_window(self, epoch: Epoch) -> Window | None:
        """Run steps until a decision epoch is over; None where the job ends before."""
        gathering, execution = Gathering(epoch), self._execution
        clock, begin_s = execution.clock, execution.clock.now_s
        while execution.goes_on:
            execution.pause()
            if gathering.add(execution.steps_of(gathering, epoch)):
                found = gathering.window(
                    self._job.phases, execution.rails, clock.pinned_hz, begin_s, clock.now_s
                )
                return self._history.complete(
                    replace(found, progress=self._progress()),
                    surroundings_of(self._board, self.temperature_c),
                )
        return None

    def _progress(self) -> Progress:
        done = self._execution
        return Progress(
            done.steps,
            done.steps_s,
            done.clock.now_s,
            float(done.steps_j @ done.module),
            float((done.steps_j + done.paused_j) @ done.module),
        )

    def _apply(self, decision: Decision) -> None:
        """Ask for what was decided, and run on until it has taken effect: those steps are in no
        window."""
        execution, clock = self._execution, self._execution.clock
        target_hz = decision.target_hz
        if decision.state is State.ADVISE or target_hz == clock.pinned_hz:
            return
        self._switches += 1
        # The engine looks at what was measured once a tick.
        clock.ask(target_hz, TICK_S * self._rng.random())
        if not execution.steps:
            clock.settle()
        while clock.is_asked and execution.goes_on:
            execution.pause()
            execution.free_steps(lambda steps, seconds: not clock.is_asked)
