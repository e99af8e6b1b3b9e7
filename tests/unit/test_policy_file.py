"""Policy files: every way one can be wrong is told, and what is right comes back as it was."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov.deciding import load_policy
from orin_gov.errors import PolicyError
from orin_gov.policy.features import FEATURES
from orin_gov.policy.objective import Objective
from orin_gov.policy.policy_file import (
    FORMAT,
    MOST_DEVIATIONS,
    MOST_KNOTS,
    VERSION,
    dump_policy,
    parse_policy,
)
from orin_gov.policy.tree import Leaf, Node, Policy, Split, choice_of, tree_lines, walk
from orin_gov.virtual.plant import load_board

SHARES = (0.25, 0.5, 1.0)
LEAF_RECORD = {"energy": [0.8, 0.7, 1.0], "time": [2.0, 1.1, 1.0], "spread": 1.0, "samples": 3}
SPLIT_RECORD = {"feature": "load", "threshold": 0.5, "left": 1, "right": 2, "missing": "left"}
NAN, INF = float("nan"), float("inf")


def record(**changes: object) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "card": {},
        "clock_shares": list(SHARES),
        "nodes": [SPLIT_RECORD, LEAF_RECORD, LEAF_RECORD],
        "deviations": [[0.1] * 6, [0.0] * 6],
        "rest": 0.01,
        **changes,
    }


def record_with(index: int, **changes: object) -> dict[str, Any]:
    """Return a good policy but for the changed keys of one node; None takes a key away."""
    nodes = [dict(SPLIT_RECORD), dict(LEAF_RECORD), dict(LEAF_RECORD)]
    nodes[index].update(changes)
    kept = [{key: value for key, value in node.items() if value is not None} for node in nodes]
    return record(nodes=kept)


def same(one: Policy, other: Policy) -> bool:
    return (
        one.nodes == other.nodes
        and one.clock_shares == other.clock_shares
        and np.array_equal(one.deviations, other.deviations)
        and (one.rest, one.card) == (other.rest, other.card)
    )


def test_a_policy_comes_back_as_it_was_written() -> None:
    policy = parse_policy(json.dumps(record(card={"fitted_on": "nothing", "table_hz": [1]})), "x")
    assert policy.nodes[1] == Leaf((0.8, 0.7, 1.0), (2.0, 1.1, 1.0), 1.0, 3)
    assert policy.deviations.shape == (2, 6)
    assert same(parse_policy(dump_policy(policy), "here"), policy)


def test_whole_numbers_will_do_for_real_ones() -> None:
    parsed = parse_policy(json.dumps(record_with(1, energy=[1, 2, 1], spread=0)), "here")
    assert parsed.nodes[1] == Leaf((1.0, 2.0, 1.0), (2.0, 1.1, 1.0), 0.0, 3)


def test_a_policy_may_have_no_deviations_and_one_clock() -> None:
    leaf = {**LEAF_RECORD, "energy": [1.0], "time": [1.0]}
    parsed = parse_policy(
        json.dumps(record(clock_shares=[1.0], nodes=[leaf], deviations=[])), "here"
    )
    assert parsed.deviations.shape == (0, 2)
    assert np.isfinite(parsed.prior(parsed.nodes[0], [0.5, 1.0]).covariance).all()
    assert choice_of(walk(parsed.nodes, {}).leaf, Objective()) is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "is no policy"),
        ({}, "is no policy"),
        (record(format="something else"), "is no policy"),
        (record(version=1), "has version 1, this orin_gov reads 2; fit it again with orin-gov fit"),
        (record(version=None), "has version None"),
        (record(card="words"), "is incomplete"),
        (record(card=[["a", 1]]), "is incomplete"),
        (record(nodes=None), "has no nodes"),
        (record(nodes=[]), "has no nodes"),
        (record(nodes={}), "has no nodes"),
        (record(nodes="nodes"), "has no nodes"),
        (record(nodes=["energy"]), "node 0 is no JSON object"),
        (record(clock_shares=None), "no list 'clock_shares'"),
        (record(clock_shares=[]), "has clock_shares ()"),
        (record(clock_shares=[0.5, 0.5, 1.0]), "ascending shares"),
        (record(clock_shares=[1.0, 0.5, 0.25]), "ascending shares"),
        (record(clock_shares=[0.0, 0.5, 1.0]), "more than 0"),
        (record(clock_shares=[0.1, NAN, 1.0]), "has in clock_shares nan"),
        (record(clock_shares=[i + 1 for i in range(MOST_KNOTS + 1)]), f"up to {MOST_KNOTS}"),
        (record(clock_shares=[0.5, 1.0]), "node 1, energy has no list of 2 numbers"),
        (record(deviations=None), "has no deviations"),
        (record(deviations=[[0.1] * 6] * (MOST_DEVIATIONS + 1)), f"up to {MOST_DEVIATIONS} rows"),
        (record(deviations=[[0.1] * 5]), "deviation 0 has no list of 6 numbers"),
        (record(deviations=[[0.1] * 5 + [INF]]), "deviation 0 has inf"),
        (record(deviations=[[0.1] * 5 + [99.0]]), "a deviation over 6.9"),
        (record(rest=None), "has rest None"),
        (record(rest=-0.1), "has rest -0.1, expected 0 to"),
        (record(rest=NAN), "has rest nan"),
        (record_with(0, feature="mood"), "unknown feature 'mood'; known: load"),
        (record_with(0, feature=None), "unknown feature None"),
        (record_with(0, feature=["load"]), "unknown feature ['load']"),
        (record_with(0, missing="up"), "'up', expected left or right"),
        (record_with(0, missing=None), "None, expected left or right"),
        (record_with(0, threshold=None), "threshold None"),
        (record_with(0, threshold="0.5"), "threshold '0.5'"),
        (record_with(0, threshold=NAN), "threshold nan"),
        (record_with(0, threshold=True), "threshold True"),
        (record_with(0, left=0), "node 0 leads to node 0, a cycle or a hole; expected 1 to 2"),
        (record_with(0, right=3), "leads to node 3"),
        (record_with(0, right=10**30), f"leads to node {10**30}"),
        (record_with(0, left=-1), "left -1, expected a whole number"),
        (record_with(0, left=1.0), "left 1.0, expected a whole number"),
        (record_with(0, left=True), "left True"),
        (record_with(0, right=1), "2 branches lead to node 1"),
        (record_with(0, **LEAF_RECORD), "0 branches lead to node 1"),
        (record_with(1, energy=[0.8, 0.7]), "energy has no list of 3 numbers"),
        (record_with(1, energy="0.8"), "energy has no list of 3 numbers"),
        (record_with(1, time=None), "time has no list of 3 numbers"),
        (record_with(1, energy=[0.8, 0.0, 1.0]), "a leaf of ratios beyond"),
        (record_with(1, time=[2.0, -1.1, 1.0]), "a leaf of ratios beyond"),
        (record_with(1, time=[2e9, 1.1, 1.0]), "a leaf of ratios beyond"),
        (record_with(1, time=[NAN, 1.1, 1.0]), "time has nan"),
        (record_with(1, time=[10**400, 1.1, 1.0]), "expected a finite number"),
        (record_with(1, spread=-1.0), "spread -1.0, expected 0 to"),
        (record_with(1, spread=None), "spread None"),
        (record_with(1, samples=None), "samples None"),
        (record_with(1, samples=INF), "samples inf"),
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
    | st.sampled_from(["left", "right", "load", "energy", "time"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["load", "nodes", "card"]), inner)
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
        "version": st.just(VERSION),
        "card": JSON | st.just({}),
        "clock_shares": st.just(list(SHARES)) | JSON,
        "nodes": JSON | st.lists(NODES | NEARLY, max_size=5),
        "deviations": st.just([]) | JSON | st.lists(st.lists(st.floats(), max_size=7), max_size=3),
        "rest": st.just(0.01) | JSON,
    }
)


@given(st.one_of(JSON, POLICIES))
@settings(max_examples=150, deadline=None)
def test_any_json_is_a_policy_that_can_be_walked_or_is_refused(value: Any) -> None:
    try:
        policy = parse_policy(json.dumps(value), "here")
    except PolicyError:
        return
    leaf = walk(policy.nodes, dict.fromkeys(FEATURES)).leaf
    prior = policy.prior(leaf, [0.1, 0.3, 2.0])
    assert np.isfinite(prior.answer.joined).all()
    assert np.isfinite(prior.covariance).all()
    assert tree_lines(policy, 1e9, Objective())


@st.composite
def trees(draw: st.DrawFn) -> tuple[Node, ...]:
    """Draw a tree grown by splitting one leaf after the other."""
    ratios = st.tuples(*[st.floats(0.1, 10.0)] * len(SHARES))
    leaves = st.builds(Leaf, ratios, ratios, st.floats(0, 3), st.integers(1, 99))
    nodes: list[Node] = [draw(leaves)]
    for _ in range(draw(st.integers(0, 6))):
        at = [i for i, node in enumerate(nodes) if isinstance(node, Leaf)]
        nodes[draw(st.sampled_from(at))] = Split(
            feature=draw(st.sampled_from(list(FEATURES))),
            threshold=draw(st.floats(allow_nan=False, allow_infinity=False)),
            left=len(nodes),
            right=len(nodes) + 1,
            missing=draw(st.sampled_from(["left", "right"])),
        )
        nodes += [draw(leaves), draw(leaves)]
    return tuple(nodes)


@given(trees(), st.dictionaries(st.sampled_from(list(FEATURES)), st.floats(allow_nan=False)))
@settings(max_examples=60, deadline=None)
def test_any_tree_survives_the_file_and_every_walk_ends(
    nodes: tuple[Node, ...], features: dict[str, float | None]
) -> None:
    policy = Policy(nodes, SHARES, np.zeros((0, 6)), 0.01, {})
    back = parse_policy(dump_policy(policy), "here")
    assert same(back, policy)
    assert walk(back.nodes, features) == walk(nodes, features)


def test_the_policy_that_ships_is_small_says_what_it_is_and_knows_only_the_boards_clocks() -> None:
    policy = load_policy(None)
    board = load_board("agx-orin-64gb")
    assert sum(isinstance(node, Leaf) for node in policy.nodes) <= 16
    assert policy.clock_shares == tuple(hz / board.top_hz for hz in board.frequencies_hz)
    assert policy.card["table_hz"] == list(board.frequencies_hz)
    assert "virtual board" in policy.card["fitted_on"]
    assert "nothing measured on a real board" in policy.card["fitted_on"]


def test_the_policy_that_ships_is_what_dump_would_write() -> None:
    policy = load_policy(None)
    assert same(parse_policy(dump_policy(policy), "again"), policy)
