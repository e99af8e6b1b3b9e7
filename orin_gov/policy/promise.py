"""What was promised of an operating point: within the budget, and better than the board's own."""

import math

from orin_gov.policy.belief import Belief
from orin_gov.policy.choice import GRACE
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.window import Window

SURE = 2.0
"""A promise counts as missed when the miss is this many standard errors clear."""


def broken(belief: Belief, objective: Objective, point: int) -> str | None:
    """Return in words how the point has clearly not kept its promise, or None."""
    # Under a cap, what is measured leads to a lower clock; the board's own keeps no cap.
    if objective.name == "time" or objective.power_cap_w is not None:
        return None
    slow = float(belief.answer.time[point] - SURE * belief.time_error[point])
    budget = objective.max_slowdown
    if slow > math.log1p(budget + GRACE):
        return f"{math.expm1(belief.answer.time[point]):.1%} slower, over the {budget:.1%} chosen"
    exponent = TIME_EXPONENT[objective.name]
    value = belief.objective(exponent)[point]
    error = belief.difference_error(exponent, None)[point]
    if value - SURE * error > 0:
        return f"{math.expm1(value):.1%} worse than the baseline"
    return None


def keeps(belief: Belief, objective: Objective, point: int, baseline_w: float | None) -> bool:
    """Tell whether the point is believed to keep the constraints."""
    time = float(belief.answer.time[point])
    power = belief.answer.energy[point] - time
    cap_w = objective.power_cap_w
    cool = cap_w is None or baseline_w is None or baseline_w * math.exp(power) <= cap_w
    return time <= math.log1p(objective.max_slowdown) and cool


def over_cap(objective: Objective, is_lowest: bool, window: Window) -> str:
    """Return in words by how much the window's power lies over the cap."""
    power_w, cap_w = objective.power_of(window), objective.power_cap_w
    lowest = " at the lowest operating point" if is_lowest else ""
    return f"{power_w:.1f} W, over the cap of {cap_w:.1f} W{lowest}"
