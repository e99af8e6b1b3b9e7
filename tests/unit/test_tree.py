"""Trees and policy files: walking, words, and every way a file can be wrong."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov.errors import PolicyError
from orin_gov.policy.features import FEATURES
from orin_gov.policy.objective import TIME_EXPONENT
from orin_gov.policy.tree import (
    FORMAT,
    Leaf,
    Node,
    Policy,
    Split,
    dump_policy,
    parse_policy,
    tree_lines,
    walk,
)
from orin_gov.supervisor import load_policy
from orin_gov.virtual.plant import load_board

LOW, MIDDLE, HIGH = (Leaf(hz, 0.1, 0.05, 7) for hz in (306e6, 612e6, 1300.5e6))
TREE: tuple[Node, ...] = (
    Split("load", 0.5, 1, 2, missing="right"),
    LOW,
    Split("max_slowdown", 0.1, 3, 4, missing="left"),
    HIGH,
    MIDDLE,
)

LEAF_RECORD = {"frequency_hz": 306e6, "saving": 0.1, "slowdown": 0.0, "samples": 3}
SPLIT_RECORD = {"feature": "load", "threshold": 0.5, "left": 1, "right": 2, "missing": "left"}


def record(**changes: object) -> dict[str, Any]:
    nodes = [SPLIT_RECORD, LEAF_RECORD, LEAF_RECORD]
    return {"format": FORMAT, "version": 1, "card": {}, "trees": {"energy": nodes}, **changes}


def record_with(index: int, **changes: object) -> dict[str, Any]:
    """Return a good policy but for the changed keys of one node; None takes a key away."""
    nodes = [dict(SPLIT_RECORD), dict(LEAF_RECORD), dict(LEAF_RECORD)]
    nodes[index].update(changes)
    kept = [{key: value for key, value in node.items() if value is not None} for node in nodes]
    return record(trees={"energy": kept})


@pytest.mark.parametrize(
    ("load", "budget", "leaf", "path"),
    [
        (0.2, 0.5, LOW, ("load 0.2 <= 0.5",)),
        (0.5, 0.5, LOW, ("load 0.5 <= 0.5",)),
        (0.9, 0.05, HIGH, ("load 0.9 > 0.5", "max_slowdown 0.05 <= 0.1")),
        (0.9, 0.3, MIDDLE, ("load 0.9 > 0.5", "max_slowdown 0.3 > 0.1")),
        (None, 0.3, MIDDLE, ("load is missing", "max_slowdown 0.3 > 0.1")),
        (None, None, HIGH, ("load is missing", "max_slowdown is missing")),
    ],
)
def test_a_walk_ends_at_its_leaf_and_tells_the_way(
    load: float | None, budget: float | None, leaf: Leaf, path: tuple[str, ...]
) -> None:
    found = walk(TREE, {"load": load, "max_slowdown": budget})
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
    assert walk(TREE, {}).path == ("load is missing", "max_slowdown is missing")


def test_a_leaf_alone_is_a_tree() -> None:
    assert walk((LOW,), {}) == walk((LOW,), {"load": 1.0})
    assert walk((LOW,), {}).path == ()


def test_a_tree_reads_as_text() -> None:
    assert tree_lines(TREE) == [
        "load <= 0.5",
        "  -> 306 MHz (saving 10.0%, slowdown 5.0%, from 7 workloads)",
        "load > 0.5 or missing",
        "  max_slowdown <= 0.1 or missing",
        "    -> 1300 MHz (saving 10.0%, slowdown 5.0%, from 7 workloads)",
        "  max_slowdown > 0.1",
        "    -> 612 MHz (saving 10.0%, slowdown 5.0%, from 7 workloads)",
    ]


def test_a_policy_comes_back_as_it_was_written() -> None:
    policy = Policy({"energy": TREE, "edp": (HIGH,)}, {"fitted_on": "nothing", "table_hz": [1, 2]})
    assert parse_policy(dump_policy(policy), "here") == policy


def test_whole_numbers_will_do_for_real_ones() -> None:
    parsed = parse_policy(json.dumps(record_with(1, frequency_hz=306_000_000)), "here")
    assert parsed.trees["energy"][1] == Leaf(306e6, 0.1, 0.0, 3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "is no policy"),
        ({}, "is no policy"),
        (record(format="something else"), "is no policy"),
        (record(version=2), "has version 2, this orin_gov reads 1"),
        (record(version=None), "has version None"),
        (record(trees=None), "is incomplete"),
        (record(trees=[]), "is incomplete"),
        (record(card="words"), "is incomplete"),
        (record(card=[["a", 1]]), "is incomplete"),
        (record(trees={"energy": []}), "has no nodes"),
        (record(trees={"energy": {}}), "has no nodes"),
        (record(trees={"energy": "nodes"}), "has no nodes"),
        (record(trees={"energy": ["frequency_hz"]}), "node 0 is no JSON object"),
        (record_with(0, feature="mood"), "unknown feature 'mood'; known: load"),
        (record_with(0, feature=None), "unknown feature None"),
        (record_with(0, feature=["load"]), "unknown feature ['load']"),
        (record_with(0, missing="up"), "'up', expected left or right"),
        (record_with(0, missing=None), "None, expected left or right"),
        (record_with(0, threshold=None), "threshold None"),
        (record_with(0, threshold="0.5"), "threshold '0.5'"),
        (record_with(0, threshold=float("nan")), "threshold nan"),
        (record_with(0, threshold=True), "threshold True"),
        (record_with(0, left=0), "node 0 leads to node 0, a cycle or a hole; expected 1 to 2"),
        (record_with(0, right=3), "leads to node 3"),
        (record_with(0, right=10**30), f"leads to node {10**30}"),
        (record_with(0, left=-1), "left -1, expected a whole number"),
        (record_with(0, left=1.0), "left 1.0, expected a whole number"),
        (record_with(0, left=True), "left True"),
        (record_with(0, right=1), "2 branches lead to node 1"),
        (record_with(0, **LEAF_RECORD), "0 branches lead to node 1"),
        (record_with(1, frequency_hz=0), "a leaf of 0.0 Hz"),
        (record_with(1, frequency_hz=-306e6), "a leaf of -306000000.0 Hz"),
        (record_with(1, frequency_hz=float("nan")), "frequency_hz nan"),
        (record_with(1, frequency_hz=float("inf")), "frequency_hz inf"),
        (record_with(1, frequency_hz=10**400), "expected a finite number"),
        (record_with(1, frequency_hz="306e6"), "frequency_hz '306e6'"),
        (record_with(1, frequency_hz=[306e6]), "frequency_hz [306000000.0]"),
        (record_with(1, saving=float("nan")), "saving nan"),
        (record_with(1, saving=None), "saving None"),
        (record_with(1, slowdown=None), "slowdown None"),
        (record_with(1, samples=None), "samples None"),
        (record_with(1, samples=float("inf")), "samples inf"),
    ],
)
def test_a_wrong_policy_is_refused_and_told_why(wrong: object, says: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_policy(json.dumps(wrong), "some/file.json")
    assert says in str(raised.value)
    assert str(raised.value).startswith("some/file.json")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, "\ufeff{}", "9" * 5000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match=r"here is (not JSON|no policy)"):
        parse_policy(text, "here")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from(["left", "right", "load", "energy", "frequency_hz"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["load", "trees", "card"]), inner)
    ),
    max_leaves=8,
)
NODES = st.fixed_dictionaries({}, optional={key: JSON for key in (*LEAF_RECORD, *SPLIT_RECORD)})
NEARLY = st.sampled_from([SPLIT_RECORD, LEAF_RECORD]).flatmap(
    lambda node: NODES.map(lambda changes: {**node, **dict(list(changes.items())[:1])})
)
POLICIES = st.fixed_dictionaries(
    {
        "format": st.just(FORMAT),
        "version": st.just(1),
        "card": JSON | st.just({}),
        "trees": JSON | st.dictionaries(st.text(max_size=3), st.lists(NODES | NEARLY, max_size=5)),
    }
)


@given(st.one_of(JSON, POLICIES))
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_policy_that_can_be_walked_or_is_refused(value: Any) -> None:
    try:
        policy = parse_policy(json.dumps(value), "here")
    except PolicyError:
        return
    for nodes in policy.trees.values():
        assert walk(nodes, dict.fromkeys(FEATURES)).leaf.frequency_hz > 0
        assert tree_lines(nodes)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Node, ...]:
    """Draw a tree grown by splitting one leaf after the other."""
    nodes: list[Node] = [LOW]
    for _ in range(draw(st.integers(0, 6))):
        leaves = [i for i, node in enumerate(nodes) if isinstance(node, Leaf)]
        nodes[draw(st.sampled_from(leaves))] = Split(
            feature=draw(st.sampled_from(list(FEATURES))),
            threshold=draw(st.floats(allow_nan=False, allow_infinity=False)),
            left=len(nodes),
            right=len(nodes) + 1,
            missing=draw(st.sampled_from(["left", "right"])),
        )
        nodes += [Leaf(draw(st.floats(1, 2e9)), 0.1, 0.0, 1), HIGH]
    return tuple(nodes)


@given(trees(), st.dictionaries(st.sampled_from(list(FEATURES)), st.floats(allow_nan=False)))
@settings(max_examples=100, deadline=None)
def test_any_tree_survives_the_file_and_every_walk_ends(
    nodes: tuple[Node, ...], features: dict[str, float | None]
) -> None:
    back = parse_policy(dump_policy(Policy({"energy": nodes}, {})), "here").trees["energy"]
    assert back == nodes
    assert walk(back, features) == walk(nodes, features)


def test_the_policy_that_ships_has_every_tree_and_only_clocks_of_the_table() -> None:
    policy = load_policy(None)
    assert set(policy.trees) == set(TIME_EXPONENT)
    table = load_board("agx-orin-64gb").frequencies_hz
    for nodes in policy.trees.values():
        leaves = [node for node in nodes if isinstance(node, Leaf)]
        assert {leaf.frequency_hz for leaf in leaves} <= set(table)
        assert len(leaves) <= 16
    assert policy.card["table_hz"] == list(table)
    assert "virtual board" in policy.card["fitted_on"]


def test_the_policy_that_ships_is_what_dump_would_write() -> None:
    policy = load_policy(None)
    assert parse_policy(dump_policy(policy), "again") == policy
