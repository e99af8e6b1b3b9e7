"""The tree: walking, words, what a leaf chooses, and what it expects at other clocks."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from orin_gov.deciding import load_policy
from orin_gov.policy.answer import smooth_doubt
from orin_gov.policy.features import FEATURES
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import (
    KNOWN,
    UNMODELLED,
    UNMODELLED_REACH,
    Leaf,
    Node,
    Policy,
    Split,
    choice_of,
    tree_lines,
    walk,
)

SHARES = (0.25, 0.5, 1.0)
TOP_HZ = 1_200_000_000
LOW = Leaf((0.6, 0.7, 1.0), (1.05, 1.02, 1.0), 0.5, 7)
MIDDLE = Leaf((0.8, 0.7, 1.0), (1.9, 1.08, 1.0), 1.0, 9)
HIGH = Leaf((1.5, 1.1, 1.0), (3.5, 1.8, 1.0), 2.0, 11)
TREE: tuple[Node, ...] = (
    Split("load", 0.5, 1, 2, missing="right"),
    LOW,
    Split("power_w", 30.0, 3, 4, missing="left"),
    HIGH,
    MIDDLE,
)
DEVIATIONS = np.array([[0.1, 0.0, 0.0, 0.4, 0.2, 0.0]])
POLICY = Policy(TREE, SHARES, DEVIATIONS, 0.01, {})


@pytest.mark.parametrize(
    ("load", "power_w", "leaf", "path"),
    [
        (0.2, 50.0, LOW, ("load 0.2 <= 0.5",)),
        (0.5, 50.0, LOW, ("load 0.5 <= 0.5",)),
        (0.9, 20.0, HIGH, ("load 0.9 > 0.5", "power_w 20 <= 30")),
        (0.9, 40.0, MIDDLE, ("load 0.9 > 0.5", "power_w 40 > 30")),
        (None, 40.0, MIDDLE, ("load is missing", "power_w 40 > 30")),
        (None, None, HIGH, ("load is missing", "power_w is missing")),
    ],
)
def test_a_walk_ends_at_its_leaf_and_tells_the_way(
    load: float | None, power_w: float | None, leaf: Leaf, path: tuple[str, ...]
) -> None:
    found = walk(TREE, {"load": load, "power_w": power_w})
    assert found.leaf is leaf
    assert found.path == path


def test_a_feature_asked_several_times_is_told_once_with_its_tightest_bounds() -> None:
    nodes = (
        Split("load", 0.9, 1, 2, missing="left"),
        Split("load", 0.5, 3, 4, missing="left"),
        HIGH,
        LOW,
        Split("load", 0.7, 5, 6, missing="left"),
        MIDDLE,
        HIGH,
    )
    assert walk(nodes, {"load": 0.6}).path == ("0.5 < load 0.6 <= 0.7",)


def test_a_feature_that_is_not_there_at_all_is_missing() -> None:
    assert walk(TREE, {}).path == ("load is missing", "power_w is missing")


def test_a_leaf_alone_is_a_tree() -> None:
    assert walk((LOW,), {}).leaf is walk((LOW,), {"load": 1.0}).leaf is LOW
    assert walk((LOW,), {}).path == ()


@pytest.mark.parametrize(
    ("leaf", "name", "budget", "clock"),
    [
        (LOW, "energy", 0.10, 0),
        (LOW, "energy", 0.03, 1),
        (LOW, "energy", 0.00, None),  # at the top it would take as much as the board's own
        (MIDDLE, "energy", 0.10, 1),
        (MIDDLE, "energy", 9.0, 1),
        (HIGH, "energy", 9.0, None),
        (LOW, "edp", 9.0, 0),
        (MIDDLE, "ed2p", 9.0, 1),
        (HIGH, "time", 0.0, 2),
    ],
)
def test_one_leaf_serves_every_objective_and_budget(
    leaf: Leaf, name: str, budget: float, clock: int | None
) -> None:
    assert choice_of(leaf, Objective(name, budget)) == clock


def test_a_tree_reads_as_text() -> None:
    assert tree_lines(POLICY, TOP_HZ, Objective("energy", 0.1)) == [
        "load <= 0.5",
        "  -> 300 MHz (energy -40.0%, time +5.0%, from 7 workloads)",
        "load > 0.5 or missing",
        "  power_w <= 30 or missing",
        "    -> the board's own governor (from 11 workloads)",
        "  power_w > 30",
        "    -> 600 MHz (energy -30.0%, time +8.0%, from 9 workloads)",
    ]


def test_a_split_that_asks_only_whether_a_value_is_known_says_so() -> None:
    nodes = (Split("load", KNOWN, 1, 2, missing="right"), LOW, HIGH)
    assert walk(nodes, {"load": 0.4}).path == ("load is known",)
    assert walk(nodes, {"load": None}).path == ("load is missing",)
    assert (walk(nodes, {"load": 0.4}).leaf, walk(nodes, {"load": None}).leaf) == (LOW, HIGH)
    lines = tree_lines(replace(POLICY, nodes=nodes), TOP_HZ, Objective())
    assert [line for line in lines if "->" not in line] == ["load is known", "load is missing"]


def test_a_leaf_expects_itself_at_its_clocks_and_between_them_what_lies_between() -> None:
    prior = POLICY.prior(MIDDLE, [0.25, 0.375, 1.0, 1.2])
    assert np.exp(prior.answer.energy[[0, 2, 3]]) == pytest.approx([0.8, 1.0, 1.0])
    assert np.exp(prior.answer.time[1]) == pytest.approx((1.9 * 1.08) ** 0.5)
    way = np.array([0.1, 0.05, 0.0, 0.0, 0.4, 0.3, 0.0, 0.0])
    assert prior.covariance - besides([0.25, 0.375, 1.0, 1.2]) == pytest.approx(
        np.outer(way, way) + 0.01**2 * np.eye(8)
    )


def besides(clocks: Sequence[float]) -> np.ndarray:
    """The covariance of what no policy knows of a workload, the same for every leaf."""
    return np.kron(np.eye(2), smooth_doubt(clocks, UNMODELLED, UNMODELLED_REACH))


def test_what_no_policy_knows_is_alike_at_like_clocks_only() -> None:
    doubt = smooth_doubt([0.5, 0.5 * np.exp(0.2), 1.0], 0.02, 0.2)
    assert np.sqrt(np.diag(doubt)) == pytest.approx([0.02] * 3)
    assert doubt[0, 1] == pytest.approx(0.5 * 0.02**2)
    assert doubt[0, 2] < 1e-3 * 0.02**2


def test_a_leaf_that_is_sure_lets_workloads_deviate_less_and_doubt_lets_them_more() -> None:
    sure, unsure = (POLICY.prior(leaf, SHARES) for leaf in (LOW, HIGH))
    doubted = POLICY.doubted(3.0).prior(MIDDLE, SHARES)
    one = DEVIATIONS.T @ DEVIATIONS + 0.01**2 * np.eye(6)
    for prior, factor in ((sure, 0.5), (unsure, 2.0), (doubted, 3.0)):
        assert prior.covariance - besides(SHARES) == pytest.approx(factor**2 * one)
    assert doubted.answer.joined == pytest.approx(POLICY.prior(MIDDLE, SHARES).answer.joined)


def test_a_walk_takes_microseconds() -> None:
    nodes = load_policy(None).nodes
    features = {name: 0.7 for name in FEATURES}
    took = []
    for _ in range(300):
        begin = perf_counter()
        walk(nodes, features)
        took.append(perf_counter() - begin)
    assert min(took) < 100e-6  # some microseconds on a machine that has time
