"""A window: what was measured between two moments under one operating point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepSample:
    """One step of a window: its work, its time, its energy (None: not measured)."""

    work: float
    time_s: float
    energy_j: float | None


@dataclass(frozen=True)
class Window:
    """What was measured between two moments. Missing is None, never zero.

    `duration_s` is the time of the steps in it: evaluation and checkpoints between them are left
    out, of `energy_j` as well.
    `work` counts tokens (or samples) of the steps in the window; without steps it counts GPU busy
    cycles, and `unit` says which. `target_hz` is None under the board's own governor. `noise` is
    the relative standard error of the mean step time, from the scatter of the steps, `samples`;
    `coarseness` that of the energy, from the steps in which the sensors show a current.
    `disturbed` says what slowed the board in between, heat or over-current: such a window is no
    evidence of anything.
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
    coarseness: float | None = None
    disturbed: str | None = None

    @property
    def power_w(self) -> float | None:
        """Mean module power in watts, or None where the energy is missing."""
        return None if self.energy_j is None else self.energy_j / self.duration_s

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
