"""A training job on a virtual board in virtual time, under any governor.

It goes as the engine goes: steps make windows of one decision epoch, the governor decides from
each, and a step during which the clock changes is in no window. Within a span of constant clock and
phase everything has a closed form, so nothing is stepped through but podgov's own polls, and those
only while it governs. Same seed, same run: what a step is and how it scatters depends on its number
alone, not on what was decided before it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from orin_gov.engine import TICK_S
from orin_gov.epoch import Epoch
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.history import History
from orin_gov.policy.window import Progress, Window
from orin_gov.tally import EpochRecord
from orin_gov.virtual.clock import VirtualClock
from orin_gov.virtual.counted import surroundings_of
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.gathering import Gathering, Part, counts_by_kind
from orin_gov.virtual.job import Job
from orin_gov.virtual.plant import BoardModel, PhaseLaw, load_board
from orin_gov.virtual.tables import BLOCK, Floats, StepStream, Table
from orin_gov.virtual.thermal import ThermalState


class Pinned:
    """Decides the same all along: one operating point, or with None the board's own governor."""

    def __init__(self, target_hz: int | None) -> None:
        state = State.BASELINE if target_hz is None else State.SWEEP
        self._decision = Decision(state, target_hz, "pinned")

    def first(self) -> Decision:
        """The operating point."""
        return self._decision

    def outcome(self, window: Window) -> Outcome:
        """Nothing: there is no baseline."""
        return Outcome(None, None, None)

    def decide(self, window: Window) -> Decision:
        """The operating point."""
        return self._decision

    def fall_back(self) -> None:
        """Nothing: there is nothing else to decide."""


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
        self._stream = StepStream(job, seed)
        self._rng = np.random.default_rng((seed, 2**32))
        self._tables: dict[int, Table] = {}
        self._rails = tuple(rail.label for rail in board.rails)
        self._module = np.array([float(rail.inside is None) for rail in board.rails])
        self._leaks = np.array([rail.shares.get("leakage", 0.0) for rail in board.rails])
        self._work = np.array([kind.work for kind in job.kinds])
        self._counts = counts_by_kind(job.kinds)
        self._history = History()
        self._clock = VirtualClock(board, self._rng)
        idle_w = board.module_power_w(board.laws["idle"], self._clock.hz)
        self._thermal = ThermalState(board, idle_w)
        self._steps = self._paused_at = self._switches = 0
        self._steps_s = 0.0
        self._steps_j = np.zeros(len(self._rails))
        self._paused_j = np.zeros(len(self._rails))
        self._clock_s: defaultdict[int, float] = defaultdict(float)

    @property
    def temperature_c(self) -> float:
        """The die's temperature."""
        return self._thermal.temperature_c

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
        self._pause()

    def result(self, epochs: tuple[EpochRecord, ...]) -> SimulatedRun:
        """What the run came to."""
        all_j = self._steps_j + self._paused_j
        return SimulatedRun(
            epochs=epochs,
            steps=self._steps,
            elapsed_s=self._clock.now_s,
            energy_j=float(all_j @ self._module),
            steps_time_s=self._steps_s,
            steps_energy_j=float(self._steps_j @ self._module),
            rail_energy_j=dict(zip(self._rails, all_j.tolist(), strict=True)),
            clock_s=dict(sorted(self._clock_s.items())),
            switches=self._switches,
            temperature_c=self.temperature_c,
        )

    def _next_window(self, epoch: Epoch) -> Window | None:
        """Run steps until a decision epoch is over; None where the job ends before."""
        gathering = Gathering(epoch)
        begin_s = self._clock.now_s
        while self._steps < self._job.steps:
            self._pause()
            part = (
                self._pinned_steps(epoch, gathering)
                if self._clock.is_settled
                else self._free_steps(gathering.is_over_with)
            )
            if gathering.add(part):
                phases, clock = self._job.phases, self._clock
                found = gathering.window(phases, self._rails, clock.pinned_hz, begin_s, clock.now_s)
                return self._history.complete(
                    replace(found, progress=self._progress()),
                    surroundings_of(self._board, self.temperature_c),
                )
        return None

    def _progress(self) -> Progress:
        return Progress(
            self._steps,
            self._steps_s,
            self._clock.now_s,
            float(self._steps_j @ self._module),
            float((self._steps_j + self._paused_j) @ self._module),
        )

    def _apply(self, decision: Decision) -> None:
        """Ask for what was decided, and run on until it has taken effect: those steps are in no
        window."""
        clock, target_hz = self._clock, decision.target_hz
        if decision.state is State.ADVISE or target_hz == clock.pinned_hz:
            return
        self._switches += 1
        # The engine looks at what was measured once a tick.
        clock.ask(target_hz, TICK_S * self._rng.random())
        if not self._steps:
            clock.settle()
        while clock.is_asked and self._steps < self._job.steps:
            self._pause()
            self._free_steps(lambda steps, seconds: not clock.is_asked)

    def _pinned_steps(self, epoch: Epoch, gathering: Gathering) -> Part:
        """Steps at a pinned clock, as many as end the decision epoch, or come before a pause."""
        clock, table = self._clock, self._table(self._clock.hz)
        ahead = min(self._until_pause(), self._guess(epoch, gathering, table))
        steps = self._stream.take(self._steps, ahead)
        table.need(steps.kinds)
        phase_s = table.time_s[steps.kinds] * steps.factors[:, None]
        phase_s[:, 0] += steps.stalls_s
        n = gathering.until_over(phase_s.sum(axis=1)) or ahead
        kinds, phase_s = steps.kinds[:n], phase_s[:n]
        power_w = table.power_w[kinds] + self._leak_w(clock.hz)
        busy_s = (table.load[kinds] * phase_s).sum(axis=1)
        spent_s = float(phase_s.sum())
        clock.pass_over(spent_s)
        clock.pinned_load = float(busy_s.sum()) / spent_s
        self._clock_s[clock.hz] += spent_s
        return self._took(
            Part(
                work=self._work[kinds],
                counts=self._counts[kinds],
                phase_s=phase_s,
                phase_j=phase_s * (power_w @ self._module),
                rail_j=np.einsum("sp,spr->sr", phase_s, power_w),
                busy_s=busy_s,
                cycles=clock.hz * phase_s.sum(axis=1),
            )
        )

    def _free_steps(self, is_over: Callable[[int, float], bool]) -> Part:
        """Steps through which the clock may change, until (steps, seconds) are enough, or a pause.

        Each is a chain of spans (step, phase, clock, seconds) of constant clock and phase.
        """
        clock, ahead = self._clock, min(self._until_pause(), BLOCK)
        steps = self._stream.take(self._steps, ahead)
        rows = zip(
            steps.kinds.tolist(), steps.factors.tolist(), steps.stalls_s.tolist(), strict=True
        )
        spans: list[tuple[int, int, int, float]] = []
        begin_s, n, phases = clock.now_s, 0, range(len(self._job.phases))
        for kind, factor, stall_s in rows:
            for phase in phases:
                left, wait_s = 1.0, 0.0 if phase else stall_s
                while left > 0.0:
                    hz = clock.hz
                    times_s, loads = self._table(hz).row(kind)
                    whole_s = times_s[phase] * factor + wait_s
                    span_s, until_s = left * whole_s, clock.next_s - clock.now_s
                    left = 0.0 if span_s <= until_s else left - until_s / whole_s
                    span_s = min(span_s, until_s)
                    spans.append((n, phase, hz, span_s))
                    clock.go_on(span_s, loads[phase])
            n += 1
            if is_over(n, clock.now_s - begin_s):
                break
        return self._took(self._part_of(steps.kinds[:n], np.array(spans)))

    def _part_of(self, kinds: npt.NDArray[np.int64], spans: Floats) -> Part:
        """Steps of such kinds, that spent their time as `spans` tell: [spans, 4], see above."""
        n, phases = len(kinds), len(self._job.phases)
        step, phase = spans[:, 0].astype(np.int64), spans[:, 1].astype(np.int64)
        clocks, place = np.unique(spans[:, 2], return_inverse=True)
        seconds, at = spans[:, 3], (place, kinds[step], phase)
        tables = {int(hz): self._table(int(hz)) for hz in clocks}
        power_w = np.stack([each.power_w + self._leak_w(hz) for hz, each in tables.items()])
        load = np.stack([each.load for each in tables.values()])[at]
        joules = power_w[at] * seconds[:, None]
        for hz, spent_s in zip(tables, np.bincount(place, seconds).tolist(), strict=True):
            self._clock_s[hz] += spent_s

        def by_phase(values: Floats) -> Floats:
            return _sums(step * phases + phase, values, n * phases).reshape(n, phases)

        return Part(
            work=self._work[kinds],
            counts=self._counts[kinds],
            phase_s=by_phase(seconds),
            phase_j=by_phase(joules @ self._module),
            rail_j=np.stack([_sums(step, rail, n) for rail in joules.T], axis=1),
            busy_s=_sums(step, load * seconds, n),
            cycles=_sums(step, spans[:, 2] * seconds, n),
        )

    def _took(self, part: Part) -> Part:
        """Add steps to the run's sums, and let the die take their heat."""
        seconds, joules = float(part.phase_s.sum()), part.rail_j.sum(axis=0)
        self._steps += len(part.work)
        self._steps_s += seconds
        self._steps_j += joules
        self._thermal.step(seconds, float(joules @ self._module) / seconds)
        return part

    def _pause(self) -> None:
        """Evaluate and save where that is due after the steps so far."""
        if self._steps == self._paused_at:
            return
        self._paused_at = self._steps
        for pause in self._job.pauses:
            if self._steps % pause.every == 0:
                for _ in range(pause.repeat):
                    self._pass_time(pause.law)

    def _pass_time(self, law: PhaseLaw) -> None:
        """Let one go of an evaluation or a checkpoint pass."""
        clock, board, left = self._clock, self._board, 1.0
        while left > 0.0:
            hz, whole_s = clock.hz, board.time_s(law, clock.hz)
            span_s = min(left * whole_s, max(0.0, clock.next_s - clock.now_s))
            left = left - span_s / whole_s if span_s < left * whole_s else 0.0
            power_w = board.rail_power_w(law, hz, temperature_c=self.temperature_c)
            joules = span_s * np.array([power_w[label] for label in self._rails])
            self._paused_j += joules
            self._clock_s[hz] += span_s
            clock.go_on(span_s, board.load(law, hz))
            self._thermal.step(span_s, float(sum(joules * self._module)) / max(span_s, 1e-12))

    def _until_pause(self) -> int:
        """Steps until the next pause or the job's end."""
        left = [pause.every - self._steps % pause.every for pause in self._job.pauses]
        return min([*left, self._job.steps - self._steps])

    def _guess(self, epoch: Epoch, gathering: Gathering, table: Table) -> int:
        """A few steps more than will end the decision epoch."""
        least_s = max(epoch.least_s, epoch.seconds or 0.0) - gathering.duration_s
        next_s = sum(table.row(int(self._stream.take(self._steps, 1).kinds[0]))[0])
        by_time = int(1.2 * max(0.0, least_s) / next_s) + 1
        return max(by_time, 0 if epoch.seconds else (epoch.steps or 1) - gathering.steps, 1)

    def _table(self, hz: int) -> Table:
        table = self._tables.get(hz)
        if table is None:
            table = self._tables[hz] = Table(self._board, self._job, hz)
        return table

    def _leak_w(self, hz: int) -> Floats:
        """What each rail leaks beyond the table's reference temperature."""
        board = self._board
        reference_w = self._table(hz).leakage_w
        return self._leaks * (board.leakage_w(hz, self.temperature_c) - reference_w)


def _sums(places: npt.NDArray[np.int64], values: Floats, n: int) -> Floats:
    """The sum of the values at each of n places."""
    return np.bincount(places, values, n).astype(np.float64)
