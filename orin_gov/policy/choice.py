"""Choosing among operating points: which is best as believed, and which is worth a look."""

import math
from collections.abc import Collection

import numpy as np

from orin_gov.policy.answer import Floats
from orin_gov.policy.belief import Belief
from orin_gov.policy.objective import TIME_EXPONENT, Objective

GRACE = 0.005
"""Half a point: a budget is kept where it is exceeded by more than this in one case of 20."""

ONE_IN_20 = 1.645
SWITCH_COST = 0.003
"""What a look costs besides its window: the step in which the clock changes is in no window."""

HYSTERESIS = 0.005
"""Another point must be expected to be this much better for the held one to be left."""

NEAR = 0.06
"""A neighbour that is expected to be worse by more than this is not looked at for certainty."""

HORIZON_LOOKS = 100
"""For how many windows as long as a look the outcome of one is of use, before things change."""

LEAST_TOLD = 0.001
"""A look that is expected to move what is believed by less than this tells nothing."""

LEAST_CHANCE = 0.1
"""A point that keeps the constraints with a smaller chance is not looked at."""


def within_budget(belief: Belief, objective: Objective) -> Floats:
    """Return for each point whether it may be chosen (1 or 0)."""
    return (belief.answer.time <= _longest(belief.time_error, objective)).astype(float)


def chance_within(belief: Belief, objective: Objective, window_error: float) -> Floats:
    """Return for each point the chance that it may be chosen after one window there.

    What a window can move shrinks faster than what is not known: no point is looked at for ever.
    """
    error = belief.time_error
    moved = error**2 / np.sqrt(error**2 + window_error**2 + 1e-18)
    left = np.sqrt(np.maximum(error**2 - moved**2, 0.0))
    room = _longest(left, objective) - belief.answer.time
    return _normal_cdf(room / np.maximum(moved, 1e-9))


def _longest(error: Floats, objective: Objective) -> Floats:
    """The longest time that may be chosen, known to such standard deviations; a logarithm."""
    budget = math.log1p(objective.max_slowdown)
    sure = math.log1p(objective.max_slowdown + GRACE) - ONE_IN_20 * error
    return np.minimum(budget, sure)


def within_power(belief: Belief, objective: Objective, baseline_w: float | None) -> Floats:
    """Return for each point whether its mean power is expected under the cap (1 or 0)."""
    answer = belief.answer
    if objective.power_cap_w is None or baseline_w is None:
        return np.ones(len(answer.time))
    return (baseline_w * np.exp(answer.energy - answer.time) <= objective.power_cap_w).astype(float)


def best_point(belief: Belief, objective: Objective, baseline_w: float | None) -> int | None:
    """Return the index of the best point within the constraints, None for the board's governor.

    Under a power cap that no point keeps, it is the lowest one; the board's own is no way out.
    """
    if objective.name == "time":
        values = belief.answer.time
        allowed = within_power(belief, objective, baseline_w)
    else:
        values = belief.objective(TIME_EXPONENT[objective.name])
        allowed = within_budget(belief, objective)
        power = within_power(belief, objective, baseline_w)
        allowed = allowed * power if (allowed * power).any() or not _capped(objective) else power
    if not allowed.any():
        return 0 if _capped(objective) else None
    best = int(np.where(allowed > 0, values, np.inf).argmin())
    worthless = values[best] >= 0 and objective.name != "time"
    return None if worthless and not _capped(objective) else best


def worth_a_look(
    belief: Belief,
    objective: Objective,
    baseline_w: float | None,
    best: int | None,
    window_error: float,
    least_gain: float,
) -> int | None:
    """Return the point whose measurement is expected to gain more than it costs, if there is one.

    The gain is the expected improvement over the best point beyond `least_gain`, as far as one
    window of relative error `window_error` can tell, times the chance to be within the budget, over
    the horizon.
    Jones et al. 1998 (expected improvement); Frazier et al. 2009 (knowledge gradient).
    """
    if objective.name == "time":
        return None
    exponent = TIME_EXPONENT[objective.name]
    values = belief.objective(exponent)
    behind = values - (0.0 if best is None else values[best])
    told = belief.told_by_a_window(exponent, best, (1 + exponent) * window_error)
    chance = chance_within(belief, objective, window_error)
    chance = chance * within_power(belief, objective, baseline_w)
    told = np.where(told < LEAST_TOLD, 0.0, told)
    worth = _expected_improvement(behind + least_gain, told)
    # What may be chosen without a look needs none: only what the look adds counts.
    worth -= within_budget(belief, objective) * np.maximum(-behind - least_gain, 0.0)
    worth = worth * np.where(chance < LEAST_CHANCE, 0.0, chance)
    net = worth * HORIZON_LOOKS - np.maximum(behind, 0.0) - SWITCH_COST
    if best is not None:
        net[best] = -np.inf
    found = int(net.argmax())
    return found if net[found] > 0 else None


def promising_neighbour(
    belief: Belief,
    objective: Objective,
    baseline_w: float | None,
    best: int,
    measured: Collection[int],
    window_error: float,
) -> int | None:
    """Return the better of the best point's neighbours that were never measured, if it is not
    expected to be worse than by `NEAR` and will probably keep the constraints.

    Energy over the clock has one valley: where both neighbours are worse, the best is its bottom.
    """
    if objective.name == "time":
        return None
    values = belief.objective(TIME_EXPONENT[objective.name])
    chance = chance_within(belief, objective, window_error)
    chance = chance * within_power(belief, objective, baseline_w)
    near = [
        point
        for point in (best - 1, best + 1)
        if 0 <= point < len(values)
        and point not in measured
        and values[point] - values[best] <= NEAR
        and chance[point] >= 0.5
    ]
    return min(near, key=values.__getitem__, default=None)


def _expected_improvement(behind: Floats, error: Floats) -> Floats:
    z = behind / np.maximum(error, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.maximum(error * density - behind * _normal_cdf(-z), 0.0)


def _normal_cdf(z: Floats) -> Floats:
    return np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z])


def _capped(objective: Objective) -> bool:
    return objective.power_cap_w is not None
