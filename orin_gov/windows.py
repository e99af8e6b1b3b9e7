"""From steps and energy to windows: one a decision epoch, under one operating point each."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from orin_gov.counts import Counts
from orin_gov.energy import EnergyTimeline, Floats
from orin_gov.errors import UsageError
from orin_gov.phases import PHASES
from orin_gov.policy.decision import State
from orin_gov.policy.reference import relative_error
from orin_gov.policy.window import StepSample, Window
from orin_gov.workload.tracker import Step

HOLD_STRETCH = 5
"""A decision epoch lasts so many times longer while an operating point is held."""


@dataclass(frozen=True)
class Epoch:
    """How long a decision epoch lasts: so many steps or so many seconds, and never under `least_s`.

    `least_s` is the shortest span the sensors can resolve.
    """

    steps: int | None = 3
    seconds: float | None = None
    least_s: float = 1.0

    def during(self, state: State) -> "Epoch":
        """Return the epoch in a state: while holding, nothing is decided that could not wait."""
        if state is not State.HOLD:
            return self
        return Epoch(
            self.steps and self.steps * HOLD_STRETCH,
            self.seconds and self.seconds * HOLD_STRETCH,
            self.least_s * HOLD_STRETCH,
        )

    @property
    def span_s(self) -> float:
        """Seconds of a window where no steps are seen."""
        return max(self.seconds or 5.0, self.least_s)

    def is_over(self, steps: int, duration_s: float) -> bool:
        """Tell whether a window of so many steps and seconds is complete."""
        if duration_s < self.least_s:
            return False
        return duration_s >= self.seconds if self.seconds else steps >= (self.steps or 1)


def parse_epoch(text: str) -> Epoch:
    """Return the epoch that `text` names: `20` is steps, `5s` is seconds.

    Raises:
        UsageError: it is neither, or not positive.
    """
    try:
        epoch = Epoch(None, float(text[:-1])) if text.endswith("s") else Epoch(int(text))
    except ValueError:
        epoch = Epoch(0)
    if not (epoch.seconds or epoch.steps or 0) > 0 or math.isinf(epoch.seconds or 0):
        raise UsageError(f"epoch is {text!r}, expected steps as in 20, or seconds as in 5s")
    return epoch


@dataclass(frozen=True)
class MeasuredStep:
    """A step with what it took; energy is None where a rail of the total was not measured."""

    step: Step
    phase_time_s: dict[str, float]
    phase_energy_j: dict[str, float | None]
    rail_energy_j: dict[str, float | None]
    energy_j: float | None


def measure_step(
    step: Step, timeline: EnergyTimeline, total: Sequence[str] | None, resolved: bool = True
) -> MeasuredStep:
    """Split the energy of `step` by phase and rail.

    `total` names the rails of the module's power, None where they are not known. Where the sensors
    are too slow for a phase to be `resolved`, the energy of phases is missing.
    """
    edges = np.array([(span.begin_ns, span.end_ns) for span in step.spans], dtype=np.int64)
    joules = timeline.between(edges)
    module = module_energy(joules, timeline.rails, total)
    times: dict[str, float] = defaultdict(float)
    energies: dict[str, float] = defaultdict(float)
    for span, energy_j in zip(step.spans, module.tolist(), strict=True):
        times[PHASES[span.phase]] += (span.end_ns - span.begin_ns) * 1e-9
        energies[PHASES[span.phase]] += energy_j
    rails = dict(zip(timeline.rails, joules.sum(axis=0).tolist(), strict=True))
    return MeasuredStep(
        step=step,
        phase_time_s=dict(times),
        phase_energy_j={
            phase: known(value) if resolved else None for phase, value in energies.items()
        },
        rail_energy_j={rail: known(value) for rail, value in rails.items()},
        energy_j=known(float(module.sum())),
    )


def module_energy(joules: Floats, rails: Sequence[str], total: Sequence[str] | None) -> Floats:
    """Sum the rails of the module's total, [spans, rails] to [spans]; NaN where one is missing."""
    if not total or not set(total) <= set(rails):
        return np.full(len(joules), np.nan)
    columns = [rails.index(label) for label in total]
    return np.asarray(joules[:, columns].sum(axis=1))


def known(value: float) -> float | None:
    """Return the value, or None for NaN."""
    return None if math.isnan(value) else value


def add_known(a: float | None, b: float | None) -> float | None:
    """Add two values; None where either is missing."""
    return None if a is None or b is None else a + b


@dataclass
class _Telemetry:
    """Clock and load as polled while a window lasts."""

    clock_hz: float = 0.0  # sums, and how many readings are in them
    clocks: int = 0
    load: float = 0.0
    loads: int = 0
    cycles: float = 0.0

    def mean_clock_hz(self) -> float | None:
        return self.clock_hz / self.clocks if self.clocks else None

    def mean_load(self) -> float | None:
        return self.load / self.loads if self.loads else None


class WindowBuilder:
    """Gathers what is measured under one operating point until the decision epoch is over."""

    def __init__(
        self,
        epoch: Epoch,
        timeline: EnergyTimeline,
        total: Sequence[str] | None,
        quanta_w: Mapping[str, float | None] = MappingProxyType({}),
    ) -> None:
        self._usual = epoch
        self._quanta_w = quanta_w
        self._timeline = timeline
        self._total = total
        self._counts = Counts()
        self.begin(None, 0)

    def begin(
        self, target_hz: int | None, not_before_ns: int | None, state: State = State.WARMUP
    ) -> None:
        """Start a window under `target_hz`; steps that began before `not_before_ns` are left out.

        None as `not_before_ns` leaves all out, until a later call says when the clock had changed.
        """
        self.target_hz = target_hz
        self._epoch = self._usual.during(state)
        self._begin(not_before_ns)

    def _begin(self, not_before_ns: int | None) -> None:
        self._not_before_ns = not_before_ns
        self._steps: list[MeasuredStep] = []
        self._telemetry = _Telemetry()
        # The first reading stands for the time since the window began: there may be only one.
        self._telemetry_ns = not_before_ns or None

    def begin_again(self, now_ns: int) -> None:
        """Start the window anew, as what went before `now_ns` was not measured."""
        if self._not_before_ns is not None:
            self._begin(max(now_ns, self._not_before_ns))

    def poll(self, now_ns: int, clock_hz: int | None, load: float | None) -> None:
        """Add one reading of the clock and the load."""
        if self._not_before_ns is None or now_ns < self._not_before_ns:
            return
        if clock_hz is not None:
            self._telemetry.clock_hz += clock_hz
            self._telemetry.clocks += 1
        if load is not None:
            self._telemetry.load += load
            self._telemetry.loads += 1
        if clock_hz is None or load is None:
            return  # the next reading stands for the time since the last one
        if self._telemetry_ns is not None:
            self._telemetry.cycles += clock_hz * load * (now_ns - self._telemetry_ns) * 1e-9
        self._telemetry_ns = now_ns

    def add(self, measured: MeasuredStep) -> Window | None:
        """Add a step; return the window where it completes one."""
        if counts := measured.step.counts:
            self._counts = counts
            if not counts.by_shapes:
                return None  # counting lengthened it
        if self._not_before_ns is None or measured.step.begin_ns < self._not_before_ns:
            return None
        self._steps.append(measured)
        duration_s = sum(each.step.duration_s for each in self._steps)
        if not self._epoch.is_over(len(self._steps), duration_s):
            return None
        return self._window_of_steps(duration_s)

    def close(self) -> Window | None:
        """Return a window of the steps so far; None where they are too few to be measured."""
        duration_s = sum(each.step.duration_s for each in self._steps)
        if not self._steps or duration_s < self._usual.least_s:
            return None
        return self._window_of_steps(duration_s)

    def close_by_time(self, now_ns: int) -> Window | None:
        """Return a window of time alone, for a script without steps, once its span is over."""
        start_ns = self._not_before_ns
        if not start_ns or self._steps or now_ns - start_ns < self._epoch.span_s * 1e9:
            return None
        joules = self._timeline.between(np.array([(start_ns, now_ns)], dtype=np.int64))
        energy_j = known(float(module_energy(joules, self._timeline.rails, self._total)[0]))
        rails = dict(zip(self._timeline.rails, map(known, joules[0].tolist()), strict=True))
        return Window(
            start_ns=start_ns,
            end_ns=now_ns,
            duration_s=(now_ns - start_ns) * 1e-9,
            target_hz=self.target_hz,
            steps=0,
            work=self._telemetry.cycles or None,
            unit="busy cycle",
            energy_j=energy_j,
            rail_energy_j=rails,
            frequency_hz=self._telemetry.mean_clock_hz(),
            load=self._telemetry.mean_load(),
            coarseness=self._coarseness(start_ns, now_ns, energy_j),
            power_range_w=self._timeline.power_range_w(start_ns, now_ns, self._total),
        )

    def _coarseness(self, begin_ns: int, end_ns: int, energy_j: float | None) -> float | None:
        """Return the relative standard error of a window's energy that the sensors' steps cause.

        One reading is off by q / sqrt(12), and so is the mean of readings that never change; where
        they scatter over the steps, it falls with the root of their number.
        """
        if not energy_j or energy_j < 0 or not self._total:
            return None
        changes = dict(
            zip(self._timeline.rails, self._timeline.changes(begin_ns, end_ns), strict=True)
        )
        variance = sum(
            (self._quanta_w.get(rail) or 0.0) ** 2 / 12 / max(1, int(changes.get(rail, 0)))
            for rail in self._total
        )
        return math.sqrt(variance) * (end_ns - begin_ns) * 1e-9 / energy_j

    def _window_of_steps(self, duration_s: float) -> Window:
        steps = self._steps
        works = [each.step.work for each in steps]
        counted = all(work is not None for work in works)
        # Without a count of tokens or samples a step is its own unit of work.
        units = (
            [float(work) for work in works if work is not None] if counted else [1.0] * len(steps)
        )
        phases = {phase for each in steps for phase in each.phase_time_s}
        begin_ns, end_ns = steps[0].step.begin_ns, steps[-1].step.end_ns
        energy_j = _total_of([each.energy_j for each in steps])
        counts = self._counts.at_work(sum(units) / len(units) if counted else None)
        return Window(
            start_ns=begin_ns,
            end_ns=end_ns,
            duration_s=duration_s,
            target_hz=self.target_hz,
            steps=len(steps),
            work=sum(units),
            unit="unit of work" if counted else "step",
            energy_j=energy_j,
            rail_energy_j={
                rail: _total_of([each.rail_energy_j[rail] for each in steps])
                for rail in self._timeline.rails
            },
            phase_time_s={
                phase: sum(each.phase_time_s.get(phase, 0.0) for each in steps) for phase in phases
            },
            phase_energy_j={
                phase: _total_of([each.phase_energy_j.get(phase, 0.0) for each in steps])
                for phase in phases
            },
            frequency_hz=self._telemetry.mean_clock_hz(),
            load=self._telemetry.mean_load(),
            noise=relative_error(units, [each.step.duration_s for each in steps]),
            samples=[
                StepSample(unit, each.step.duration_s, each.energy_j)
                for unit, each in zip(units, steps, strict=True)
            ],
            coarseness=self._coarseness(begin_ns, end_ns, energy_j),
            operations_per_step=counts.operations,
            bytes_per_step=counts.moved,
            launches_per_step=counts.launches,
            by_shapes=counts.by_shapes,
            power_range_w=self._timeline.power_range_w(begin_ns, end_ns, self._total),
        )


def _total_of(values: Sequence[float | None]) -> float | None:
    total: float | None = 0.0
    for value in values:
        total = add_known(total, value)
    return total
