"""Objectives and constraints: what a governor lowers, and within which bounds."""

import math
from dataclasses import dataclass

from orin_gov.errors import UsageError
from orin_gov.policy.window import Window

TIME_EXPONENT = {"energy": 0, "edp": 1, "ed2p": 2}
"""Objective value = energy x time^exponent, both per unit of work."""

OBJECTIVES = (*TIME_EXPONENT, "time")

CAPPED_POWERS = {
    "module": "mean of the module",
    "gpu": "mean of the GPU's rail",
    "p99": "99th percentile of the module",
}


@dataclass(frozen=True)
class Objective:
    """What to lower (`name`), at most how much slower (0.1 is 10 %), at most how many watts, and
    which power (`capped_power`) they cap.

    A job of so many `steps` is to end within `deadline_s` of its start, and to take no more than
    `energy_budget_j` of the module's energy (policy/plan.py).
    """

    name: str = "energy"
    max_slowdown: float = 0.10
    power_cap_w: float | None = None
    capped_power: str = "module"
    deadline_s: float | None = None
    energy_budget_j: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES:
            raise UsageError(f"objective is {self.name!r}, expected one of {', '.join(OBJECTIVES)}")
        if not (math.isfinite(self.max_slowdown) and self.max_slowdown >= 0):
            raise UsageError(
                f"max_slowdown is {self.max_slowdown}, expected a share >= 0 (0.1 = 10 %)"
            )
        if self.power_cap_w is not None and not self.power_cap_w > 0:
            raise UsageError(f"power_cap is {self.power_cap_w} W, expected more than 0")
        if self.capped_power not in CAPPED_POWERS:
            raise UsageError(
                f"power_cap is on {self.capped_power!r}, expected one of {', '.join(CAPPED_POWERS)}"
            )
        self._check_plan()

    def _check_plan(self) -> None:
        for value, what in (
            (self.deadline_s, "deadline is {:g} s"),
            (self.energy_budget_j, "energy budget is {:g} J"),
        ):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{what.format(value)}, expected more than 0")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"steps is {self.steps}, expected at least 1")
        if self.steps is None and (self.deadline_s or self.energy_budget_j):
            raise UsageError(
                "a deadline and an energy budget take the number of steps that the job has: "
                "name it with --steps N"
            )

    def combine(self, time: float | None, energy: float | None) -> float | None:
        """Return what is to be lowered, from time and energy; None where it takes a missing one."""
        if self.name == "time":
            return time
        if time is None or energy is None:
            return None
        return float(energy * time ** TIME_EXPONENT[self.name])

    def value(self, window: Window) -> float | None:
        """Return what is to be lowered per unit of work, or None where it was not measured."""
        return self.combine(window.time_per_work_s, window.energy_per_work_j)

    def over_power(self, window: Window) -> bool:
        """Tell whether the window's capped power lies above the cap."""
        power_w = self.power_of(window)
        return self.power_cap_w is not None and power_w is not None and power_w > self.power_cap_w

    def power_of(self, window: Window) -> float | None:
        """Return the window's power that the cap is on, in watts, or None where not measured."""
        if self.capped_power == "gpu":
            return window.mean_gpu_rail_w
        if self.capped_power == "p99":
            return None if window.power_range_w is None else window.power_range_w[1]
        return window.power_w
