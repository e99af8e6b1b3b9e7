"""A decision tree that a person can read, stored as JSON with a card that says where it is from."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orin_gov.errors import PolicyError
from orin_gov.policy.features import FEATURES, Features

FORMAT = "orin_gov policy"
VERSION = 1


@dataclass(frozen=True)
class Leaf:
    """A leaf: the operating point, and what it did on average to the workloads it was fitted on.

    `saving` and `slowdown` are shares (0.12 is 12 %) against the board's own governor.
    """

    frequency_hz: float
    saving: float
    slowdown: float
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


@dataclass(frozen=True)
class Policy:
    """A tree for each objective, and the card: what they were fitted on, for which board state."""

    trees: Mapping[str, Sequence[Node]]
    card: Mapping[str, Any]


@dataclass(frozen=True)
class Walk:
    """The leaf a window's features lead to, and the path there in words."""

    leaf: Leaf
    path: tuple[str, ...]


def walk(nodes: Sequence[Node], features: Features) -> Walk:
    """Follow the tree from its root (node 0) to a leaf."""
    node = nodes[0]
    path: list[tuple[Split, str]] = []
    while isinstance(node, Split):
        value = features.get(node.feature)
        side = node.side(value)
        path.append((node, side))
        node = nodes[node.left if side == "left" else node.right]
    return Walk(node, path_in_words(path, features))


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
        elif above is None:
            words[feature] = f"{feature} {value:.3g} <= {below:.3g}"
        elif below is None:
            words[feature] = f"{feature} {value:.3g} > {above:.3g}"
        else:
            words[feature] = f"{above:.3g} < {feature} {value:.3g} <= {below:.3g}"
    return tuple(words.values())


def tree_lines(nodes: Sequence[Node], index: int = 0, depth: int = 0) -> list[str]:
    """Return the tree as indented lines of text."""
    node, indent = nodes[index], "  " * depth
    if isinstance(node, Leaf):
        return [
            f"{indent}-> {node.frequency_hz / 1e6:.0f} MHz (saving {node.saving:.1%}, "
            f"slowdown {node.slowdown:.1%}, from {node.samples} workloads)"
        ]
    return [
        f"{indent}{node.feature} <= {node.threshold:.3g}{_missing(node, 'left')}",
        *tree_lines(nodes, node.left, depth + 1),
        f"{indent}{node.feature} > {node.threshold:.3g}{_missing(node, 'right')}",
        *tree_lines(nodes, node.right, depth + 1),
    ]


def _missing(node: Split, side: str) -> str:
    return " or missing" if node.missing == side else ""


def parse_policy(text: str, source: str) -> Policy:
    """Return the policy in `text`, which came from `source`, having checked all of it.

    Raises:
        PolicyError: not JSON, another format or version, an unknown feature, a cycle, a bad number.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{source} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise PolicyError(
            f'{source} is no policy: expected a JSON object with "format": "{FORMAT}"'
        )
    if record.get("version") != VERSION:
        raise PolicyError(
            f"{source} has version {record.get('version')!r}, this orin_gov reads {VERSION}; "
            "fit it again with orin-gov fit"
        )
    trees, card = record.get("trees"), record.get("card")
    if not isinstance(trees, dict) or not isinstance(card, dict):
        raise PolicyError(f'{source} is incomplete: expected the objects "trees" and "card"')
    return Policy(
        {name: _tree(nodes, f"{source}, tree {name!r}") for name, nodes in trees.items()}, card
    )


def _tree(entries: Any, where: str) -> tuple[Node, ...]:
    if not isinstance(entries, list) or not entries:
        raise PolicyError(f"{where} has no nodes")
    nodes = tuple(_node(entry, f"{where}, node {i}") for i, entry in enumerate(entries))
    _check_shape(nodes, where)
    return nodes


def _node(entry: Any, where: str) -> Node:
    if not isinstance(entry, dict):
        raise PolicyError(f"{where} is no JSON object")
    if "frequency_hz" in entry:
        leaf = Leaf(
            frequency_hz=_number(entry, "frequency_hz", where),
            saving=_number(entry, "saving", where),
            slowdown=_number(entry, "slowdown", where),
            samples=_index(entry, "samples", where),
        )
        if leaf.frequency_hz <= 0:
            raise PolicyError(f"{where} is a leaf of {leaf.frequency_hz} Hz, expected more than 0")
        return leaf
    feature, missing = entry.get("feature"), entry.get("missing")
    if not isinstance(feature, str) or feature not in FEATURES:
        raise PolicyError(
            f"{where} uses the unknown feature {feature!r}; known: {', '.join(FEATURES)}"
        )
    if missing not in ("left", "right"):
        raise PolicyError(f"{where} sends missing values {missing!r}, expected left or right")
    return Split(
        feature=feature,
        threshold=_number(entry, "threshold", where),
        left=_index(entry, "left", where),
        right=_index(entry, "right", where),
        missing=missing,
    )


def _number(entry: Mapping[str, Any], key: str, where: str) -> float:
    value: Any = entry.get(key)
    # JSON's integers have no bound, and Python reads NaN and Infinity as JSON.
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not abs(value) <= sys.float_info.max:
        raise PolicyError(f"{where} has {key} {value!r}, expected a finite number")
    return float(value)


def _index(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PolicyError(f"{where} has {key} {value!r}, expected a whole number")
    return value


def _check_shape(nodes: Sequence[Node], where: str) -> None:
    parents: Counter[int] = Counter()
    for index, node in enumerate(nodes):
        if isinstance(node, Split):
            # Children come after their parent: so a walk always ends.
            for child in (node.left, node.right):
                if not index < child < len(nodes):
                    raise PolicyError(
                        f"{where}: node {index} leads to node {child}, a cycle or a hole; "
                        f"expected {index + 1} to {len(nodes) - 1}"
                    )
            parents.update((node.left, node.right))
    if strays := [index for index in range(1, len(nodes)) if parents[index] != 1]:
        raise PolicyError(
            f"{where}: {parents[strays[0]]} branches lead to node {strays[0]}, expected 1"
        )


def dump_policy(policy: Policy) -> str:
    """Return `policy` as the JSON text that parse_policy reads."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "card": dict(policy.card),
        "trees": {
            objective: [dict(vars(node)) for node in nodes]
            for objective, nodes in policy.trees.items()
        },
    }
    return json.dumps(record, indent=1)
