"""The loop tree -> clock -> features -> tree, with the policy that ships: the governor rests.

The bare tree need not: neighbouring leaves may send each other's clocks to and fro.
"""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov.deciding import load_policy
from orin_gov.policy.decision import State
from orin_gov.policy.features import features_of
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import choice_of, walk
from orin_gov.policy.window import Window
from orin_gov.virtual.family import (
    VirtualWorkload,
    window_at,
    window_at_podgov,
    workload_family,
)
from orin_gov.virtual.plant import load_board

BOARD = load_board("agx-orin-64gb")
CLOCKS = BOARD.frequencies_hz
WORKLOADS = workload_family(40, seed=11)  # none that the policy was fitted on
BUDGETS = (0.02, 0.1, 1.0)


@cache
def measured(number: int, hz: int | None) -> Window:
    workload: VirtualWorkload = WORKLOADS[number]
    if hz is None:
        return window_at_podgov(BOARD, workload, 10)
    return window_at(BOARD, workload, hz, 10)


def orbit(number: int, start: int | None, objective: Objective) -> Sequence[int | None]:
    """The clocks that the bare tree asks for, one after the other, until one comes again."""
    policy, seen = load_policy(None), [start]
    while True:
        features = features_of(measured(number, seen[-1]), BOARD.top_hz, objective.max_slowdown)
        chosen = choice_of(walk(policy.nodes, features).leaf, objective)
        seen.append(None if chosen is None else CLOCKS[chosen])
        if seen[-1] in seen[:-1]:
            return seen


def is_fixed(found: Sequence[int | None]) -> bool:
    return found[-1] == found[-2]


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_bare_tree_comes_to_rest_or_goes_to_and_fro_among_few_like_clocks(
    budget: float,
) -> None:
    objective = Objective("energy", budget)
    orbits = [(n, orbit(n, hz, objective)) for n in range(12) for hz in (None, *CLOCKS)]
    assert sum(is_fixed(found) for _, found in orbits) >= 0.5 * len(orbits)
    for number, found in orbits:
        cycle = found[found.index(found[-1]) : -1]
        energies = [measured(number, hz).energy_per_work_j or 0.0 for hz in cycle]
        assert len(cycle) <= 4
        assert max(energies) <= 1.10 * min(energies)


def governed(number: int, start: int | None, budget: float, windows: int) -> list[int | None]:
    """The clocks that the governor holds; the first windows after its baseline are at `start`."""
    governor = Governor(load_policy(None), CLOCKS, Objective("energy", budget))
    decision, held = governor.first(), []
    for i in range(windows):
        hz = start if i == 3 and decision.target_hz is not None else decision.target_hz
        decision = governor.decide(measured(number, hz))
        if decision.state is State.HOLD:
            held.append(decision.target_hz)
    return held


@given(
    st.integers(0, len(WORKLOADS) - 1),
    st.sampled_from((None, *CLOCKS)),
    st.sampled_from(BUDGETS),
)
@settings(max_examples=25, deadline=None)
def test_from_any_clock_the_governor_comes_to_rest(
    number: int, start: int | None, budget: float
) -> None:
    held = governed(number, start, budget, windows=90)
    assert len(set(held[-30:])) == 1
    slowdown = measured(number, held[-1]).duration_s / measured(number, None).duration_s - 1
    assert slowdown <= budget + 0.005


def test_where_the_bare_tree_goes_to_and_fro_the_governor_does_not() -> None:
    cycling = [
        (number, hz, budget)
        for budget in BUDGETS
        for number in range(len(WORKLOADS))
        for hz in (None, CLOCKS[0], CLOCKS[-1])
        if not is_fixed(orbit(number, hz, Objective("energy", budget)))
    ]
    for number, hz, budget in cycling[:6]:
        assert len(set(governed(number, hz, budget, windows=90)[-30:])) == 1
