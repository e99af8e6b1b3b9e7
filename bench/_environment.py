"""A training job as a table: what a step takes at each operating point, played without sleeping.

`play` drives a decider as the engine does (orin_gov/engine.py): windows of one decision epoch, then
a decision; the step during which the clock changes is in no window and runs half at the old and
half at the new point; a cap that moves is told by `set_points`. What a step draws of the noise
depends on the job, the seed and its number alone, so that deciders are compared on the same steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from zlib import crc32

import numpy as np
import numpy.typing as npt

from bench._table_job import Costs, Segment, TableJob, Target
from orin_gov.counts import Counts
from orin_gov.epoch import Epoch
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.line import relative_error
from orin_gov.policy.window import StepSample, Window

NOISE = 0.006
"""Relative standard deviation of one step's time, and of its power (EnergyLLM's 11 replicates)."""

Floats = npt.NDArray[np.float64]
_Row = tuple[Segment, Costs, float, float]


@dataclass(frozen=True)
class Seen:
    """One decision epoch: as `EpochRecord`, and after how many steps of the job it was over.

    Of a job's windows only the first is kept with its samples, phases and rails: they are many.
    """

    state: State
    window: Window
    outcome: Outcome
    decision: Decision
    segment: int
    steps: int


@dataclass(frozen=True)
class Played:
    """What came of it. Arrays have one value for each step; `target` is 0 under podgov.

    `time_factor` and `energy_factor` are the noise that each step drew, so that other points'
    costs of the very same steps can be told. Pauses are in `pause_s` and `pause_j` alone. `think_s`
    is how long each decision took: [decisions, 2], by the wall and of the processor.
    """

    job: TableJob
    epochs: tuple[Seen, ...]
    step_s: Floats
    step_j: Floats
    target: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    dropped: npt.NDArray[np.bool_]
    time_factor: Floats
    energy_factor: Floats
    pause_s: float
    pause_j: float
    think_s: Floats

    def other_j(self, targets: Sequence[Target]) -> Floats:
        """What each step would have taken (J) at a constant target in each segment."""
        pairs = zip(self.job.segments, targets, strict=True)
        at = np.array([segment.at[target].energy_j for segment, target in pairs])
        return np.asarray(at[self.segment] * self.energy_factor)

    def other_s(self, targets: Sequence[Target]) -> Floats:
        """The same for the time (s)."""
        pairs = zip(self.job.segments, targets, strict=True)
        at = np.array([segment.at[target].time_s for segment, target in pairs])
        return np.asarray(at[self.segment] * self.time_factor)


def play(
    decider: Decider, job: TableJob, seed: int, epoch: Epoch | None = None, noise: float = NOISE
) -> Played:
    """Play a job to its end under a decider."""
    run = _Run(job, seed, epoch or Epoch(), noise)
    run.go(decider)
    return run.played()


class _Run:
    """One job under way."""

    def __init__(self, job: TableJob, seed: int, epoch: Epoch, noise: float) -> None:
        self._job, self._epoch = job, epoch
        draws = np.random.default_rng((seed, crc32(job.name.encode()))).standard_normal(
            (2, job.steps)
        )
        self._time_factor = 1 + noise * draws[0]
        self._energy_factor = self._time_factor * (1 + noise * draws[1])
        self._now_s = self._begin_s = self._window_s = self._pause_s = self._pause_j = 0.0
        self._window: list[_Row] = []
        self._rows: list[tuple[float, float, int, int, bool]] = []
        self._epochs: list[Seen] = []
        self._think_s: list[tuple[float, float]] = []

    def go(self, decider: Decider) -> None:
        decision = decider.first()
        at = decision.target_hz
        for index, segment, begins in self._job.each_step():
            if begins:
                self._pause(segment, at)
                if segment.told is not None:
                    decision = decider.set_points(segment.points_hz, segment.told)
                    self._begin_window()
            if decision.target_hz != at:
                before, at = at, decision.target_hz
                assert at in segment.at, f"decided {at}, which is no operating point"
                self._take(index, segment, before, at)
                self._begin_window()
                continue
            self._take(index, segment, at)
            if self._is_over(decision.state):
                decision = self._ask(decider, decision, index)

    def _pause(self, segment: Segment, at: Target) -> None:
        if segment.pause:
            seconds, joules = segment.pause.get(at) or segment.pause[max(segment.points_hz)]
            self._pause_s, self._pause_j = self._pause_s + seconds, self._pause_j + joules
            self._now_s += seconds

    def _take(self, index: int, segment: Segment, at: Target, then: Target = -1) -> None:
        """Take one step at a point; or one whose second half is at another, in no window."""
        number, changes = len(self._rows), then != -1
        costs = [segment.costs(at), segment.costs(then if changes else at)]
        time_s = float(self._time_factor[number]) * (costs[0].time_s + costs[1].time_s) / 2
        energy_j = float(self._energy_factor[number]) * (costs[0].energy_j + costs[1].energy_j) / 2
        self._rows.append((time_s, energy_j, (then if changes else at) or 0, index, changes))
        self._now_s += time_s
        if not changes:
            self._window.append((segment, costs[0], time_s, energy_j))
            self._window_s += time_s

    def _begin_window(self) -> None:
        self._window.clear()
        self._window_s = 0.0
        self._begin_s = self._now_s

    def _is_over(self, state: State) -> bool:
        return self._epoch.during(state).is_over(len(self._window), self._window_s)

    def _ask(self, decider: Decider, decision: Decision, index: int) -> Decision:
        window = self._measure(decision.target_hz)
        begin_s = perf_counter(), thread_time()
        outcome = decider.outcome(window)
        new = decider.decide(window)
        self._think_s.append((perf_counter() - begin_s[0], thread_time() - begin_s[1]))
        done = len(self._rows)
        kept = _light(window) if self._epochs else window
        self._epochs.append(Seen(decision.state, kept, outcome, new, index, done))
        self._begin_window()
        return new

    def _measure(self, target: Target) -> Window:
        rows = self._window
        works = [segment.work for segment, _, _, _ in rows]
        times_s, joules = [row[2] for row in rows], [row[3] for row in rows]
        total_s = sum(times_s)
        shares = _shares(rows)
        counts = rows[-1][0].counts or Counts()
        load = _weighted(shares, lambda costs: costs.load)
        clock_hz = _weighted(shares, lambda costs: costs.clock_hz)
        return Window(
            start_ns=round(self._begin_s * 1e9),
            end_ns=round(self._now_s * 1e9),
            duration_s=total_s,
            target_hz=target,
            steps=len(rows),
            work=sum(works),
            unit="unit of work",
            energy_j=sum(joules),
            rail_energy_j=_sums([(costs.rail_j, n_j) for costs, _, n_j in shares]),
            phase_time_s=_sums([(costs.phase_s, n_s) for costs, n_s, _ in shares]),
            phase_energy_j=_sums([(costs.phase_j, n_j) for costs, _, n_j in shares]),
            frequency_hz=clock_hz,
            load=load,
            noise=relative_error(works, times_s),
            samples=[StepSample(*row) for row in zip(works, times_s, joules, strict=True)],
            operations_per_step=counts.operations,
            bytes_per_step=counts.moved,
            launches_per_step=counts.launches,
            power_range_w=rows[-1][1].range_w,
            surroundings=rows[-1][0].surroundings,
        )

    def played(self) -> Played:
        times_s, joules, targets, segments, dropped = zip(*self._rows, strict=True)
        return Played(
            job=self._job,
            epochs=tuple(self._epochs),
            step_s=np.array(times_s),
            step_j=np.array(joules),
            target=np.array(targets, dtype=np.int64),
            segment=np.array(segments, dtype=np.int64),
            dropped=np.array(dropped),
            time_factor=self._time_factor,
            energy_factor=self._energy_factor,
            pause_s=self._pause_s,
            pause_j=self._pause_j,
            think_s=np.array(self._think_s),
        )


def _light(window: Window) -> Window:
    return replace(window, samples=(), rail_energy_j={}, phase_time_s={}, phase_energy_j={})


def _shares(rows: Sequence[_Row]) -> list[tuple[Costs, float, float]]:
    """Each kind of step among the rows: its costs, and how many of them its time and its energy
    come to, noise included."""
    found: dict[int, list[float]] = {}
    kinds = {id(costs): costs for _, costs, _, _ in rows}
    for _, costs, time_s, energy_j in rows:
        sums = found.setdefault(id(costs), [0.0, 0.0])
        sums[0] += time_s / costs.time_s
        sums[1] += energy_j / costs.energy_j
    return [(kinds[key], n_s, n_j) for key, (n_s, n_j) in found.items()]


def _weighted(
    shares: Sequence[tuple[Costs, float, float]], value: Callable[[Costs], float | None]
) -> float | None:
    """The mean of a value over time; None where one is missing."""
    values = [value(costs) for costs, _, _ in shares]
    times_s = [costs.time_s * n_s for costs, n_s, _ in shares]
    if None in values:
        return None
    pairs = zip(values, times_s, strict=True)
    return sum((each or 0.0) * time_s for each, time_s in pairs) / sum(times_s)


def _sums(rows: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """The sum by name of mappings, each times its factor."""
    total: dict[str, float] = {}
    for values, factor in rows:
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + value * factor
    return total
