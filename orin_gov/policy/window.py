"""A window: what was measured between two moments under one operating point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orin_gov.policy.line import Sums


@dataclass(frozen=True, slots=True)
class StepSample:
    """One step of a window: its work, its time, its energy (None: not measured)."""

    work: float
    time_s: float
    energy_j: float | None


class StepSums(NamedTuple):
    """Of the steps of a window: the sums of their times over their work, and of their energies.

    None: one of the energies was not measured.
    """

    time: Sums
    energy: Sums | None


@dataclass(frozen=True)
class Surroundings:
    """What a window was measured under and what its board can do; None where it is not told.

    `floor_hz` and `ceiling_hz` are the clocks that may be chosen. The peaks are the GPU's
    operations a cycle and the memory's bytes a second: the board's own, or where no table tells
    them the highest seen so far. `gpu_rail` feeds the GPU, among other things.
    """

    temperature_c: float | None = None
    floor_hz: int | None = None
    ceiling_hz: int | None = None
    emc_hz: int | None = None
    power_mode: int | None = None
    gpu_rail: str | None = None
    peak_operations_per_cycle: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Progress:
    """What a run had come to when a window ended, in no window or in one; None: not measured.

    `steps_s` and `steps_j` are those of the steps, `elapsed_s` and `spent_j` (the module's energy)
    those of all since the start: what is between them went into loading, evaluation, checkpoints.
    `asleep_s` is how long the machine was suspended, on top of `elapsed_s`.
    """

    steps: int
    steps_s: float
    elapsed_s: float
    steps_j: float | None = None
    spent_j: float | None = None
    asleep_s: float = 0.0


@dataclass(frozen=True)
class Window:
    """What was measured between two moments. Missing is None, never zero.

    `duration_s` is the time of the steps in it: evaluation and checkpoints between them are left
    out, of `energy_j` as well.
    `work` counts tokens (or samples) of the steps in the window; without steps it counts GPU busy
    cycles, and `unit` says which. `target_hz` is None under the board's own governor. `noise` is
    the relative standard error of the mean step time, from the scatter of the steps, `samples`;
    `coarseness` that of the energy, from the steps in which the sensors show a current. `sums`
    stands for `samples` in a window that was kept for long.
    `disturbed` says what slowed the board in between, heat or over-current: such a window is no
    evidence of anything.

    `operations_per_step`, `bytes_per_step` and `launches_per_step` are by phase, from the last step
    that was counted, brought to this window's work per step (orin_gov.counts); a phase or a
    quantity that never was is not in them. `by_shapes` tells that operations come from the model's
    shapes. A step that a dispatch mode counted is in no window: counting takes time.

    `power_range_w` is the 1st and the 99th percentile of the module's power as sampled.
    `sensitivity` is how time followed the clock between this window and an earlier one at
    another clock: 1 where it is the clock's, 0 where the clock does not matter.
    """

    start_ns: int
    end_ns: int
    duration_s: float
    target_hz: int | None
    steps: int
    work: float | None
    unit: str
    energy_j: float | None
    rail_energy_j: Mapping[str, float | None] = field(default_factory=dict)
    phase_time_s: Mapping[str, float] = field(default_factory=dict)
    phase_energy_j: Mapping[str, float | None] = field(default_factory=dict)
    frequency_hz: float | None = None
    load: float | None = None
    noise: float | None = None
    samples: Sequence[StepSample] = ()
    sums: StepSums | None = None
    coarseness: float | None = None
    disturbed: str | None = None
    operations_per_step: Mapping[str, float] = field(default_factory=dict)
    bytes_per_step: Mapping[str, float] = field(default_factory=dict)
    launches_per_step: Mapping[str, float] = field(default_factory=dict)
    by_shapes: bool = False
    power_range_w: tuple[float, float] | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    sensitivity: float | None = None
    progress: Progress | None = None

    @property
    def power_w(self) -> float | None:
        """Mean module power in watts, or None where the energy is missing."""
        return None if self.energy_j is None else self.energy_j / self.duration_s

    @property
    def mean_gpu_rail_w(self) -> float | None:
        """Mean watts of the rail that feeds the GPU, or None where it is not measured."""
        joules = self.rail_energy_j.get(self.surroundings.gpu_rail or "")
        return None if joules is None else joules / self.duration_s

    @property
    def energy_per_work_j(self) -> float | None:
        """Joules of module energy per unit of work, or None where either is missing."""
        if self.energy_j is None or not self.work:
            return None
        return self.energy_j / self.work

    @property
    def time_per_work_s(self) -> float | None:
        """Seconds per unit of work, or None where the work is missing."""
        return self.duration_s / self.work if self.work else None
