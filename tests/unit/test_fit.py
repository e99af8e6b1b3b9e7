"""Fitting: a rule that is in the examples is found, and a leaf keeps its budgets."""

import json
import random
from collections.abc import Callable

import numpy as np
import pytest

from orin_gov.policy.features import FEATURES
from orin_gov.policy.fit import BUDGETS, MAX_LEAVES, Example, best_point, examples_of, fit_policy
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.tree import Leaf, Policy, dump_policy, parse_policy, walk
from orin_gov.policy.window import Window

pytest.importorskip("sklearn", reason="fitting needs scikit-learn (the extra named fit)")

POINTS = (300_000_000, 600_000_000, 900_000_000)
NAMES = list(FEATURES)


def example(
    saving: list[float], slowdown: list[float], budget: float = 0.1, **features: float
) -> Example:
    vector = np.zeros(len(FEATURES))
    for name, value in {"max_slowdown": budget, **features}.items():
        vector[NAMES.index(name)] = value
    return Example(vector, budget, np.array(saving), np.array(slowdown))


def as_features(each: Example) -> dict[str, float | None]:
    return dict(zip(NAMES, each.features.tolist(), strict=True))


def rule_examples(threshold: float = 0.4) -> list[Example]:
    """Below a load of `threshold` the lowest point is best; above, nothing may be slowed down."""
    rng = random.Random(0)
    found = []
    for _ in range(400):
        load = rng.random()
        idle = load < threshold
        slowdown = [0.0, 0.0, 0.0] if idle else [0.9, 0.4, 0.0]
        found.append(example([0.3, 0.2, 0.0], slowdown, load=load, power_w=rng.uniform(10, 60)))
    return found


def chosen(policy: Policy, each: Example) -> float:
    return walk(policy.trees["energy"], as_features(each)).leaf.frequency_hz


def test_a_threshold_in_the_examples_is_found_and_nothing_else() -> None:
    examples = rule_examples()
    policy = fit_policy(examples, POINTS, {})
    tree = policy.trees["energy"]
    assert {node.feature for node in tree if not isinstance(node, Leaf)} == {"load"}
    for each in examples:
        idle = each.features[NAMES.index("load")] < 0.4
        assert chosen(policy, each) == (POINTS[0] if idle else POINTS[2])


def test_a_fitted_policy_survives_its_file_and_keeps_its_card() -> None:
    policy = fit_policy(rule_examples(), POINTS, {"fitted_on": "a rule"})
    assert set(policy.trees) == set(TIME_EXPONENT)
    assert parse_policy(dump_policy(policy), "here") == policy
    assert json.loads(dump_policy(policy))["card"] == {"fitted_on": "a rule"}


def test_the_same_examples_give_the_same_policy() -> None:
    assert fit_policy(rule_examples(), POINTS, {}) == fit_policy(rule_examples(), POINTS, {})


@pytest.mark.parametrize(("threshold", "point"), [(0.4, POINTS[2]), (0.6, POINTS[0])])
def test_a_missing_value_goes_where_most_examples_went(threshold: float, point: int) -> None:
    policy = fit_policy(rule_examples(threshold), POINTS, {})
    assert walk(policy.trees["energy"], {"load": None}).leaf.frequency_hz == point


def test_a_tree_stays_small_enough_to_read() -> None:
    rng = random.Random(3)
    noise = [
        example([rng.random() for _ in POINTS], [0.0, 0.0, 0.0], load=rng.random())
        for _ in range(300)
    ]
    leaves = [n for n in fit_policy(noise, POINTS, {}).trees["energy"] if isinstance(n, Leaf)]
    assert 1 < len(leaves) <= MAX_LEAVES
    assert sum(leaf.samples for leaf in leaves) == 300


@pytest.mark.parametrize(("keeping", "point"), [(70, POINTS[1]), (95, POINTS[0])])
def test_a_leaf_keeps_the_budget_of_nine_in_ten(keeping: int, point: int) -> None:
    # Alike in their features, so one leaf; the lowest point saves most but may be too slow.
    alike = [example([0.3, 0.2, 0.0], [0.05, 0.02, 0.0]) for _ in range(keeping)]
    alike += [example([0.3, 0.2, 0.0], [0.50, 0.02, 0.0]) for _ in range(100 - keeping)]
    (leaf,) = fit_policy(alike, POINTS, {}).trees["energy"]
    assert isinstance(leaf, Leaf)
    assert leaf.frequency_hz == point
    assert leaf.samples == 100
    assert leaf.saving == pytest.approx(0.3 if point == POINTS[0] else 0.2)


def test_where_no_point_keeps_nine_in_ten_the_one_that_keeps_most_is_taken() -> None:
    alike = [example([0.3, 0.2, 0.1], [0.5, 0.5, 0.05]) for _ in range(60)]
    alike += [example([0.3, 0.2, 0.1], [0.5, 0.5, 0.5]) for _ in range(40)]
    (leaf,) = fit_policy(alike, POINTS, {}).trees["energy"]
    assert isinstance(leaf, Leaf)
    assert leaf.frequency_hz == POINTS[2]


@pytest.mark.parametrize(
    ("objective", "budget", "best"),
    [("energy", 1.0, 0), ("edp", 1.0, 1), ("ed2p", 1.0, 2), ("energy", 0.2, 1), ("energy", 0.0, 2)],
)
def test_the_best_point_lowers_the_objective_within_the_budget(
    objective: str, budget: float, best: int
) -> None:
    each = example([0.4, 0.3, 0.0], [0.5, 0.2, 0.0], budget)
    assert best_point(each, Objective(objective)) == best


def test_where_every_point_is_too_slow_the_top_is_best() -> None:
    assert best_point(example([0.4, 0.3, 0.2], [0.5, 0.4, 0.3], 0.1), Objective()) == 2


def measured(target_hz: int | None, duration_s: float, energy_j: float | None) -> Window:
    return Window(
        start_ns=0,
        end_ns=1,
        duration_s=duration_s,
        target_hz=target_hz,
        steps=2,
        work=10.0,
        unit="step",
        energy_j=energy_j,
        phase_time_s={"forward": duration_s},
        frequency_hz=450e6,
        load=0.5,
    )


def test_a_workload_gives_an_example_for_each_budget() -> None:
    windows = [measured(hz, s, j) for hz, s, j in zip(POINTS, (4, 3, 2), (30, 40, 60), strict=True)]
    found = examples_of(measured(None, 2.5, 50.0), windows, POINTS[-1])
    assert [each.budget for each in found] == list(BUDGETS)
    assert found[0].saving == pytest.approx([0.4, 0.2, -0.2])
    assert found[0].slowdown == pytest.approx([0.6, 0.2, -0.2])
    assert as_features(found[1])["max_slowdown"] == BUDGETS[1]
    assert as_features(found[1])["clock_share"] == 0.5


@pytest.mark.parametrize(
    "broken",
    [
        lambda: examples_of(measured(None, 2.0, None), [measured(POINTS[0], 2.0, 1.0)], 1),
        lambda: examples_of(measured(None, 2.0, 1.0), [measured(POINTS[0], 2.0, None)], 1),
    ],
)
def test_a_workload_that_was_not_measured_is_refused(broken: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="a fit needs"):
        broken()
