"""Choosing among operating points: the best as believed, and the one that is worth a look."""

import math

import numpy as np
import pytest

from orin_gov.policy.answer import Answer, Prior
from orin_gov.policy.belief import Belief
from orin_gov.policy.choice import (
    GRACE,
    LEAST_CHANCE,
    SWITCH_COST,
    best_point,
    chance_within,
    promising_neighbour,
    within_budget,
    within_power,
    worth_a_look,
)
from orin_gov.policy.objective import Objective

ENERGY = np.log([0.70, 0.75, 0.85, 1.00])
TIME = np.log([1.30, 1.08, 1.02, 1.00])
ERROR = 0.01  # of a window


def belief(
    energy: np.ndarray = ENERGY,
    time: np.ndarray = TIME,
    error: float | list[float] = 1e-4,
) -> Belief:
    """A belief whose points are known to such standard deviations, each by itself."""
    errors = np.broadcast_to(error, len(energy))
    known = np.diag(np.concatenate([errors, errors]) ** 2)
    return Belief(Prior(Answer(energy, time), known), 1e-4)


def look(
    belief: Belief,
    objective: Objective,
    power_w: float | None,
    best: int | None,
    error: float = ERROR,
    least_gain: float = 0.0,
) -> int | None:
    return worth_a_look(belief, objective, power_w, best, error, least_gain)


@pytest.mark.parametrize(
    ("name", "budget", "best"),
    [
        ("energy", 1.0, 0),
        ("energy", 0.10, 1),
        ("energy", 0.03, 2),
        ("energy", 0.01, None),  # at the top nothing is saved
        ("edp", 1.0, 1),
        ("ed2p", 1.0, 1),
        ("time", 0.0, 3),
    ],
)
def test_the_best_lowers_the_objective_within_the_budget(
    name: str, budget: float, best: int | None
) -> None:
    assert best_point(belief(), Objective(name, budget), None) == best


def test_where_no_point_keeps_the_budget_it_is_the_boards_own() -> None:
    slow = belief(time=np.log([1.5, 1.4, 1.3, 1.2]))
    assert best_point(slow, Objective("energy", 0.1), 30.0) is None


def test_what_is_less_sure_must_keep_more_clear_of_the_budget() -> None:
    objective = Objective("energy", 0.10)
    assert within_budget(belief(error=0.001), objective).tolist() == [0, 1, 1, 1]
    assert within_budget(belief(error=0.02), objective).tolist() == [0, 0, 1, 1]
    # A mean just over the budget does not keep it, however well it is known.
    over = belief(time=np.log([1.1001, 1.0999, 1.0, 1.0]), error=1e-6)
    assert within_budget(over, objective).tolist() == [0, 1, 1, 1]
    assert GRACE > 0.0001


def test_power_is_expected_from_energy_and_time() -> None:
    # 30 W of the board's own: 16.2, 20.8, 25.0 and 30 W.
    assert within_power(belief(), Objective(power_cap_w=21.0), 30.0).tolist() == [1, 1, 0, 0]
    assert within_power(belief(), Objective(), 30.0).tolist() == [1, 1, 1, 1]
    assert within_power(belief(), Objective(power_cap_w=21.0), None).tolist() == [1, 1, 1, 1]


def test_a_cap_is_kept_though_it_costs_the_budget_or_energy() -> None:
    assert best_point(belief(), Objective("energy", 0.0, 17.0), 30.0) == 0
    dear = belief(energy=np.log([1.2, 1.1, 1.05, 1.0]))
    assert best_point(dear, Objective("energy", 1.0, 31.0), 30.0) == 3
    assert best_point(dear, Objective("energy", 1.0, 29.0), 30.0) == 0


def test_a_cap_that_no_point_keeps_leaves_the_lowest() -> None:
    for name in ("energy", "time"):
        assert best_point(belief(), Objective(name, 0.1, 1.0), 30.0) == 0


def test_what_is_well_known_is_not_looked_at() -> None:
    objective = Objective("energy", 1.0)
    assert look(belief(error=1e-5), objective, None, 0, ERROR) is None


def test_a_look_is_worth_it_where_a_point_may_well_be_better() -> None:
    objective = Objective("energy", 1.0)
    unsure = belief(error=[1e-4, 0.05, 1e-4, 1e-4])
    assert best_point(unsure, objective, None) == 0
    assert look(unsure, objective, None, 0, ERROR) == 1
    # The best itself is no look.
    assert look(belief(error=[0.05, 1e-5, 1e-5, 1e-5]), objective, None, 0, ERROR) is None


def test_a_point_that_is_far_behind_is_not_looked_at() -> None:
    objective = Objective("energy", 1.0)
    behind = belief(energy=np.log([0.5, 0.95, 0.96, 1.0]), error=[1e-5, 0.05, 0.05, 0.05])
    assert look(behind, objective, None, 0, ERROR) is None


def test_the_gain_of_a_look_is_what_it_is_expected_to_be() -> None:
    # Draw the truth, look at it through noise, choose by it: the mean gain is the formula's.
    rng = np.random.default_rng(0)
    behind, spread, noise = 0.02, 0.03, 0.01
    truth = rng.normal(behind, spread, 400_000)
    seen = truth + rng.normal(0, noise, truth.size)
    weight = spread**2 / (spread**2 + noise**2)
    mean = behind + weight * (seen - behind)
    gained = np.where(mean < 0, -truth, 0.0).mean()
    told = spread * weight**0.5
    z = behind / told
    formula = told * math.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) - behind * 0.5 * math.erfc(
        z / math.sqrt(2)
    )
    assert gained == pytest.approx(formula, rel=0.03)
    # And it decides: one of so many looks is worth as much as the cost of one.
    energy = np.log([0.8, 0.8 * math.exp(behind)])
    two = belief(energy, np.zeros(2), [1e-9, spread])
    assert (100 * formula - behind > SWITCH_COST) == (
        look(two, Objective("energy", 1.0), None, 0, noise) == 1
    )


def test_a_point_with_hardly_a_chance_to_keep_the_budget_is_not_looked_at() -> None:
    unsure = belief(error=[0.05, 1e-4, 1e-4, 1e-4])
    chance = chance_within(unsure, Objective("energy", 0.10), ERROR)
    assert chance[0] < LEAST_CHANCE
    assert chance[1:] == pytest.approx([1.0, 1.0, 1.0])
    assert look(unsure, Objective("energy", 0.10), None, 1, ERROR) is None
    assert look(unsure, Objective("energy", 0.28), None, 1, ERROR) == 0


def test_a_point_just_over_its_budget_is_not_looked_at_for_ever() -> None:
    objective = Objective("energy", 0.0)
    just_over = belief(time=np.log([1.3, 1.08, 1.0005, 1.0]), error=[1e-4, 1e-4, 0.02, 1e-4])
    looks = 0
    while look(just_over, objective, None, None, ERROR) == 2:
        just_over.observe(2, ENERGY[2], math.log(1.0005), ERROR, ERROR)
        looks += 1
        assert looks < 60
    assert looks > 0


def test_a_point_over_the_power_cap_is_not_looked_at() -> None:
    unsure = belief(error=[1e-4, 0.05, 1e-4, 1e-4])
    assert look(unsure, Objective("energy", 1.0, 20.0), 30.0, 0, ERROR) is None
    assert look(unsure, Objective("energy", 1.0, 21.0), 30.0, 0, ERROR) == 1


def test_a_look_must_promise_more_where_more_is_asked_for() -> None:
    objective = Objective("energy", 1.0)
    unsure = belief(energy=np.log([0.70, 0.705, 0.85, 1.0]), error=[1e-4, 0.02, 1e-4, 1e-4])
    assert look(unsure, objective, None, 0) == 1
    assert look(unsure, objective, None, 0, least_gain=0.1) is None


def test_the_better_neighbour_of_the_best_is_looked_at_once() -> None:
    objective = Objective("energy", 1.0)
    four = belief(energy=np.log([0.74, 0.70, 0.72, 0.90]), time=np.zeros(4))

    def near(measured: set[int]) -> int | None:
        return promising_neighbour(four, objective, None, 1, measured, ERROR)

    assert near(set()) == 2
    assert near({2}) == 0
    assert near({0, 2}) is None
    # Neither where it is far worse, nor where it will hardly keep the constraints.
    assert promising_neighbour(four, objective, None, 2, {1}, ERROR) is None
    assert promising_neighbour(four, Objective("time"), None, 1, set(), ERROR) is None
    slow = belief(energy=np.log([0.74, 0.70, 0.72, 0.90]), time=np.log([1.5, 1.0, 1.4, 1.0]))
    assert promising_neighbour(slow, Objective("energy", 0.1), None, 1, set(), ERROR) is None


def test_for_time_nothing_is_looked_at() -> None:
    assert look(belief(error=0.1), Objective("time"), None, 3, ERROR) is None
