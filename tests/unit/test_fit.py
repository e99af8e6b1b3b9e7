"""Fitting: a rule that is in the examples is found, and what is left is said as deviations."""

import json
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from orin_gov.errors import PolicyError
from orin_gov.policy.examples import NAMES, Example, example_of
from orin_gov.policy.features import FEATURES
from orin_gov.policy.fit import DEVIATIONS, MAX_LEAVES, fit_policy, tree_regret
from orin_gov.policy.objective import Objective
from orin_gov.policy.policy_file import dump_policy, parse_policy
from orin_gov.policy.tree import Leaf, Policy, Split, choice_of, walk
from orin_gov.policy.window import Window

pytest.importorskip("sklearn", reason="fitting needs scikit-learn (the extra named fit)")

POINTS = (300_000_000, 600_000_000, 900_000_000)
IDLE = ([0.7, 0.8, 1.0], [1.0, 1.0, 1.0])
BUSY = ([1.4, 1.1, 1.0], [1.9, 1.4, 1.0])


def example(energy: list[float], time: list[float], **features: float) -> Example:
    """The example of a workload whose features are the same at every clock."""
    row = np.array([features.get(name, 0.0) for name in NAMES])
    return Example(np.tile(row, (1 + len(POINTS), 1)), np.log(np.array(energy + time)))


def rule_examples(threshold: float = 0.4, n: int = 200) -> list[Example]:
    """Below a load of `threshold` nothing is slowed down by a low clock; above, everything is."""
    rng = random.Random(0)
    found = []
    for _ in range(n):
        load = rng.random()
        found.append(
            example(*(IDLE if load < threshold else BUSY), load=load, power_w=rng.uniform(10, 60))
        )
    return found


@pytest.fixture(scope="module")
def fitted() -> Policy:
    return fit_policy(rule_examples(), POINTS, {"fitted_on": "a rule"})


def features_of_example(each: Example) -> dict[str, float | None]:
    return dict(zip(NAMES, each.features[0].tolist(), strict=True))


def leaf_of(policy: Policy, **features: float | None) -> Leaf:
    return walk(policy.nodes, features).leaf


def test_a_threshold_in_the_examples_is_found(fitted: Policy) -> None:
    root = fitted.nodes[0]
    assert isinstance(root, Split)
    assert root.feature == "load"
    assert root.threshold == pytest.approx(0.4, abs=0.02)
    for each in rule_examples():
        leaf = walk(fitted.nodes, features_of_example(each)).leaf
        idle = each.features[0][NAMES.index("load")] < 0.4
        assert leaf.energy == pytest.approx((IDLE if idle else BUSY)[0], rel=0.02)
        assert choice_of(leaf, Objective()) == (0 if idle else None)


def test_a_leaf_says_the_mean_answer_and_deviations_say_the_rest() -> None:
    # Alike in their features, so one leaf; they differ in one way.
    rng = np.random.default_rng(0)
    ways = rng.normal(size=200)
    alike = [
        example([0.7 * np.exp(0.1 * x), 0.8, 1.0], [1.2 * np.exp(0.2 * x), 1.1, 1.0]) for x in ways
    ]
    policy = fit_policy(alike, POINTS, {})
    (leaf,) = policy.nodes
    assert isinstance(leaf, Leaf)
    assert leaf.samples == 200
    assert leaf.spread == pytest.approx(1.0)
    assert leaf.time[0] == pytest.approx(1.2, rel=0.05)
    covariance = policy.deviations.T @ policy.deviations
    assert covariance[0, 0] ** 0.5 == pytest.approx(0.1, rel=0.2)
    assert covariance[3, 3] ** 0.5 == pytest.approx(0.2, rel=0.2)
    assert covariance[0, 3] == pytest.approx((covariance[0, 0] * covariance[3, 3]) ** 0.5)
    assert policy.rest == pytest.approx(0.0, abs=1e-6)
    assert len(policy.deviations) <= DEVIATIONS


def test_what_no_few_ways_explain_is_left_at_each_clock_by_itself() -> None:
    rng = np.random.default_rng(1)
    many_hz = tuple(range(100_000_000, 1_300_000_000, 100_000_000))
    alike = [
        Example(np.zeros((1 + len(many_hz), len(NAMES))), rng.normal(0.0, 0.05, 2 * len(many_hz)))
        for _ in range(300)
    ]
    policy = fit_policy(alike, many_hz, {})
    told = (policy.deviations**2).sum() / (2 * len(many_hz)) + policy.rest**2
    assert told == pytest.approx(0.05**2, rel=0.1)
    assert policy.rest > 0.03


def test_a_fitted_policy_survives_its_file_and_keeps_its_card(fitted: Policy) -> None:
    assert fitted.clock_shares == pytest.approx((1 / 3, 2 / 3, 1.0))
    back = parse_policy(dump_policy(fitted), "here")
    assert back.nodes == fitted.nodes
    assert np.array_equal(back.deviations, fitted.deviations)
    assert json.loads(dump_policy(fitted))["card"]["fitted_on"] == "a rule"


def test_a_split_between_known_and_missing_survives_its_file() -> None:
    # Only who shows no load has another answer.
    found = [
        example(*(IDLE if i % 2 else BUSY), load=(0.5 if i % 2 else np.nan)) for i in range(40)
    ]
    policy = fit_policy(found, POINTS, {})
    assert parse_policy(dump_policy(policy), "here").nodes == policy.nodes
    assert leaf_of(policy, load=0.7).energy[0] < 0.9 < leaf_of(policy, load=None).energy[0]


def test_the_same_examples_give_the_same_policy(fitted: Policy) -> None:
    again = fit_policy(rule_examples(), POINTS, {"fitted_on": "a rule"})
    assert dump_policy(again) == dump_policy(fitted)


def test_a_tree_stays_small_enough_to_read() -> None:
    rng = random.Random(3)
    noise = [
        example([rng.uniform(0.5, 1.5) for _ in POINTS], [1.0, 1.0, 1.0], load=rng.random())
        for _ in range(200)
    ]
    leaves = [node for node in fit_policy(noise, POINTS, {}).nodes if isinstance(node, Leaf)]
    assert 1 < len(leaves) <= MAX_LEAVES
    assert min(leaf.samples for leaf in leaves) >= 1


def test_where_load_is_missing_the_tree_goes_by_what_is_there() -> None:
    # Power tells as much as load here; a board that shows no load is led by it.
    rng = random.Random(1)
    found = []
    for _ in range(200):
        load = rng.random()
        answer = IDLE if load < 0.5 else BUSY
        found.append(example(*answer, load=load, power_w=60 * load))
    policy = fit_policy(found, POINTS, {})
    for power_w, answer in ((10.0, IDLE), (50.0, BUSY)):
        seen = leaf_of(policy, load=None, power_w=power_w)
        assert seen.energy[0] == pytest.approx(answer[0][0], rel=0.2)


def test_the_card_says_the_regret_on_workloads_that_were_left_out(fitted: Policy) -> None:
    card = fitted.card["left_out"]
    assert set(card) == {"budget 2%", "budget 5%", "budget 10%", "no budget"}
    for each in card.values():
        assert each["workloads"] == 200
        assert 0 <= each["regret_mean"] < 0.02  # a few close to the threshold
    # Of a workload whose answer no other tells anything of, the regret is what it must be.
    odd = [example(*IDLE, load=i / 20) for i in range(19)]
    odd.append(example([0.5, 2.0, 1.0], [9.0, 1.0, 1.0], load=1.0))
    worst = fit_policy(odd, POINTS, {}).card["left_out"]["no budget"]["regret_worst"]
    assert worst == pytest.approx(0.0, abs=1e-9)  # the others' best is its best
    odd[-1] = example([2.0, 0.5, 1.0], [1.0, 1.0, 1.0], load=1.0)
    worst = fit_policy(odd, POINTS, {}).card["left_out"]["no budget"]["regret_worst"]
    assert worst == pytest.approx(2.0 / 0.5 - 1)


def test_a_single_workload_cannot_be_left_out() -> None:
    card = fit_policy([example(*IDLE)], POINTS, {}).card
    assert card["left_out"] == {"why_missing": "a single workload cannot be left out"}


def test_regret_counts_against_the_best_within_the_budget() -> None:
    leaf = Leaf((0.7, 0.8, 1.0), (1.05, 1.02, 1.0), 1.0, 1)
    policy = Policy((leaf,), (1 / 3, 2 / 3, 1.0), np.zeros((0, 6)), 0.0, {})
    truth = example([0.9, 0.6, 1.0], [1.05, 1.02, 1.0])
    assert tree_regret(policy, truth, Objective("energy", 0.1)) == pytest.approx(0.9 / 0.6 - 1)
    assert tree_regret(policy, truth, Objective("energy", 0.03)) == 0.0
    # It would choose the board's own governor, where a point saves.
    nothing = replace(policy, nodes=(Leaf((1.1, 1.1, 1.0), (1.0, 1.0, 1.0), 1.0, 1),))
    assert tree_regret(nothing, truth, Objective("energy", 0.1)) == pytest.approx(1 / 0.6 - 1)


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


def test_a_workload_gives_one_example_with_a_row_for_each_clock() -> None:
    windows = [measured(hz, s, j) for hz, s, j in zip(POINTS, (4, 3, 2), (30, 40, 60), strict=True)]
    found = example_of(measured(None, 2.5, 50.0), windows, POINTS[-1])
    assert np.exp(found.answer) == pytest.approx([0.6, 0.8, 1.2, 1.6, 1.2, 0.8])
    assert found.features.shape == (1 + len(POINTS), len(NAMES))
    assert found.features[0][NAMES.index("clock_share")] == 0.5
    assert "max_slowdown" in FEATURES
    assert "max_slowdown" not in NAMES


@pytest.mark.parametrize(
    "broken",
    [
        lambda: example_of(measured(None, 2.0, None), [measured(POINTS[0], 2.0, 1.0)], 1),
        lambda: example_of(measured(None, 2.0, 1.0), [measured(POINTS[0], 2.0, None)], 1),
        lambda: example_of(measured(None, 2.0, 1.0), [measured(POINTS[0], 2.0, -1.0)], 1),
        lambda: example_of(measured(None, 2.0, 1.0), [measured(POINTS[0], float("nan"), 1.0)], 1),
    ],
)
def test_a_characterization_with_holes_is_refused(broken: Callable[[], object]) -> None:
    with pytest.raises(PolicyError, match="a fit needs the energy and the time of every"):
        broken()
