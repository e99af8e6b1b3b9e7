"""A decision tree that a person can read, stored as JSON with a card that says where it is from.

A leaf says how the energy and the time of a step answer to the clock, on average over the workloads
it was fitted on, so one tree serves every objective and every budget.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orin_gov.policy.answer import Answer, Floats, Prior, halves_at_clocks, smooth_doubt
from orin_gov.policy.features import Features
from orin_gov.policy.objective import Objective

KNOWN = sys.float_info.max
"""A threshold that no value exceeds: such a split asks whether the feature is known at all."""


@dataclass(frozen=True)
class Leaf:
    """A leaf: energy and time at each of the policy's clocks, relative to the board's own governor
    (1 = the same), and how far its workloads deviate (1 = as those of the whole tree do)."""

    energy: tuple[float, ...]
    time: tuple[float, ...]
    spread: float
    samples: int


@dataclass(frozen=True)
class Split:
    """An inner node: left where the feature is at most the threshold; `missing` names a side."""

    feature: str
    threshold: float
    left: int
    right: int
    missing: str

    def side(self, value: float | None) -> str:
        """Return which side, "left" or "right", a value (or None) goes."""
        if value is None:
            return self.missing
        return "left" if value <= self.threshold else "right"


Node = Leaf | Split

UNMODELLED, UNMODELLED_REACH = 0.02, 0.2
"""How far, and over how wide a range of clocks, a real workload on a real board is off besides."""


@dataclass(frozen=True)
class Policy:
    """The tree, and the card: what it was fitted on, for which board state.

    `clock_shares` are the clocks of the leaves, ascending, as shares of the table's top.
    `deviations` are the ways in which workloads deviate from their leaf, [k, 2 * clocks] in
    logarithms of energy, then time; `rest` is what is left at each clock (standard deviation).
    """

    nodes: Sequence[Node]
    clock_shares: tuple[float, ...]
    deviations: Floats
    rest: float
    card: Mapping[str, Any]

    def prior(self, leaf: Leaf, clocks: Sequence[float]) -> Prior:
        """What `leaf` expects at other clocks, as shares of the top.

        Workloads deviate from it as those of the fit did, and by what no family of workloads and
        no model of a board has in it.
        """
        n = len(clocks)
        joined = np.log(np.concatenate([leaf.energy, leaf.time]))
        mean = halves_at_clocks(self.clock_shares, joined, clocks)
        ways = leaf.spread * halves_at_clocks(self.clock_shares, self.deviations, clocks)
        covariance = ways.T @ ways + (leaf.spread * self.rest) ** 2 * np.eye(2 * n)
        covariance += np.kron(np.eye(2), smooth_doubt(clocks, UNMODELLED, UNMODELLED_REACH))
        return Prior(Answer(mean[:n], mean[n:]), covariance)

    def doubted(self, factor: float) -> "Policy":
        """The same policy, whose expectations are trusted `factor` times less."""
        return replace(self, deviations=factor * self.deviations, rest=factor * self.rest)


@dataclass(frozen=True)
class Walk:
    """The leaf a window's features lead to, and the way there."""

    leaf: Leaf
    passed: Sequence[tuple[Split, str]]
    features: Features

    @property
    def path(self) -> tuple[str, ...]:
        """The way in words."""
        return path_in_words(self.passed, self.features)


def walk(nodes: Sequence[Node], features: Features) -> Walk:
    """Follow the tree from its root (node 0) to a leaf."""
    node = nodes[0]
    passed: list[tuple[Split, str]] = []
    while isinstance(node, Split):
        side = node.side(features.get(node.feature))
        passed.append((node, side))
        node = nodes[node.left if side == "left" else node.right]
    return Walk(node, passed, features)


def path_in_words(path: Sequence[tuple[Split, str]], features: Features) -> tuple[str, ...]:
    """Return each feature on the path once, with the tightest bounds it was found within."""
    words = {}
    for feature in dict.fromkeys(split.feature for split, _ in path):
        value = features.get(feature)
        passed = [(split.threshold, side) for split, side in path if split.feature == feature]
        above = max((bound for bound, side in passed if side == "right"), default=None)
        below = min((bound for bound, side in passed if side == "left"), default=None)
        if value is None:
            words[feature] = f"{feature} is missing"
        elif above is None and below == KNOWN:
            words[feature] = f"{feature} is known"
        elif above is None:
            words[feature] = f"{feature} {value:.3g} <= {below:.3g}"
        elif below is None:
            words[feature] = f"{feature} {value:.3g} > {above:.3g}"
        else:
            words[feature] = f"{above:.3g} < {feature} {value:.3g} <= {below:.3g}"
    return tuple(words.values())


def choice_of(leaf: Leaf, objective: Objective) -> int | None:
    """Return the index of the clock that `leaf` alone would choose, None for the board's own."""
    values = [
        objective.combine(*pair) or math.inf for pair in zip(leaf.time, leaf.energy, strict=True)
    ]
    kept = [i for i, time in enumerate(leaf.time) if time <= 1 + objective.max_slowdown]
    if objective.name == "time":
        return min(range(len(values)), key=values.__getitem__)
    best = min(kept, key=values.__getitem__, default=None)
    return best if best is not None and values[best] < 1 else None


def tree_lines(
    policy: Policy, top_hz: float, objective: Objective, index: int = 0, depth: int = 0
) -> list[str]:
    """Return the tree as indented lines of text, with what each leaf chooses for `objective`."""
    node, indent = policy.nodes[index], "  " * depth
    if isinstance(node, Leaf):
        return [f"{indent}-> {_choice_in_words(policy, node, top_hz, objective)}"]
    if node.threshold == KNOWN:
        left, right = "is known", "is missing"
    else:
        left = f"<= {node.threshold:.3g}{_missing(node, 'left')}"
        right = f"> {node.threshold:.3g}{_missing(node, 'right')}"
    return [
        f"{indent}{node.feature} {left}",
        *tree_lines(policy, top_hz, objective, node.left, depth + 1),
        f"{indent}{node.feature} {right}",
        *tree_lines(policy, top_hz, objective, node.right, depth + 1),
    ]


def _choice_in_words(policy: Policy, leaf: Leaf, top_hz: float, objective: Objective) -> str:
    chosen = choice_of(leaf, objective)
    of = f"from {leaf.samples} workloads"
    if chosen is None:
        return f"the board's own governor ({of})"
    clock_mhz = policy.clock_shares[chosen] * top_hz / 1e6
    energy, time = leaf.energy[chosen] - 1, leaf.time[chosen] - 1
    return f"{clock_mhz:.0f} MHz (energy {energy:+.1%}, time {time:+.1%}, {of})"


def _missing(node: Split, side: str) -> str:
    return " or missing" if node.missing == side else ""
