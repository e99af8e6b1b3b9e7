"""From steps and energy to windows: one a decision epoch, under one operating point each."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from orin_gov.counts import Counts
from orin_gov.energy import EnergyTimeline
from orin_gov.epoch import Epoch
from orin_gov.measured import MeasuredStep, known, module_energy, sum_known
from orin_gov.policy.decision import State
from orin_gov.policy.line import relative_error
from orin_gov.policy.window import StepSample, Window

TARGETS_KEPT = 64
"""How many targets are remembered, for steps that are told of after the clock has changed."""


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
        self._held: deque[tuple[int, int | None]] = deque(maxlen=TARGETS_KEPT)
        self.begin(None, 0)

    def begin(
        self, target_hz: int | None, not_before_ns: int | None, state: State = State.WARMUP
    ) -> None:
        """Start a window under `target_hz`; steps that began before `not_before_ns` are left out.

        None as `not_before_ns` leaves all out, until a later call says when the clock had changed.
        """
        self.target_hz = target_hz
        if not_before_ns is not None and (not self._held or self._held[-1][1] != target_hz):
            self._held.append((not_before_ns, target_hz))
        self._epoch = self._usual.during(state)
        self.begin_at(not_before_ns)

    def target_at(self, at_ns: int) -> int | None:
        """Return the target that held at a moment: the one before, until the clock had changed."""
        since = (target_hz for since_ns, target_hz in reversed(self._held) if since_ns <= at_ns)
        return next(since, self._held[0][1])

    def begin_at(self, not_before_ns: int | None) -> None:
        """Start the same window at another time."""
        self._not_before_ns = not_before_ns
        self._steps: list[MeasuredStep] = []
        self._duration_s = 0.0  # of the steps; summed anew at each, thousands would be quadratic
        self._telemetry = _Telemetry()
        # The first reading stands for the time since the window began: there may be only one.
        self._telemetry_ns = not_before_ns or None

    @property
    def begin_ns(self) -> int | None:
        """When the window begins; None where that is not known yet."""
        return self._not_before_ns or None

    def begin_again(self, now_ns: int) -> None:
        """Start the window anew, as what went before `now_ns` was not measured."""
        if self._not_before_ns is not None:
            self.begin_at(max(now_ns, self._not_before_ns))

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
        self._duration_s += measured.step.duration_s
        if not self._epoch.is_over(len(self._steps), self._duration_s):
            return None
        return self._window_of_steps()

    def close(self) -> Window | None:
        """Return a window of the steps so far; None where they are too few to be measured."""
        if not self._steps or self._duration_s < self._usual.least_s:
            return None
        return self._window_of_steps()

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

    def _window_of_steps(self) -> Window:
        steps = self._steps
        works = [each.step.work for each in steps]
        counted = all(work is not None for work in works)
        # Without a count of tokens or samples a step is its own unit of work.
        units = (
            [float(work) for work in works if work is not None] if counted else [1.0] * len(steps)
        )
        phases = {phase for each in steps for phase in each.phase_time_s}
        begin_ns, end_ns = steps[0].step.begin_ns, steps[-1].step.end_ns
        energy_j = sum_known([each.energy_j for each in steps])
        counts = self._counts.at_work(sum(units) / len(units) if counted else None)
        return Window(
            start_ns=begin_ns,
            end_ns=end_ns,
            duration_s=self._duration_s,
            target_hz=self.target_hz,
            steps=len(steps),
            work=sum(units),
            unit="unit of work" if counted else "step",
            energy_j=energy_j,
            rail_energy_j={
                rail: sum_known([each.rail_energy_j[rail] for each in steps])
                for rail in self._timeline.rails
            },
            phase_time_s={
                phase: sum(each.phase_time_s.get(phase, 0.0) for each in steps) for phase in phases
            },
            phase_energy_j={
                phase: sum_known([each.phase_energy_j.get(phase, 0.0) for each in steps])
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
