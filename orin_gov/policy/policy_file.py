"""Policies as JSON: read with every number checked, since anyone may hand us one; and written."""

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orin_gov.errors import PolicyError
from orin_gov.policy.answer import Floats
from orin_gov.policy.features import FEATURES
from orin_gov.policy.tree import Leaf, Node, Policy, Split

FORMAT = "orin_gov policy"
VERSION = 2

MOST_KNOTS, MOST_DEVIATIONS = 64, 16
MOST_RATIO = 1000.0
MOST_LOG = math.log(MOST_RATIO)
"""Nothing takes a thousand times the energy: a policy that says so is broken."""


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
    card = record.get("card")
    if not isinstance(card, dict):
        raise PolicyError(f'{source} is incomplete: expected the object "card"')
    shares = _numbers(record, "clock_shares", source)
    if not 1 <= len(shares) <= MOST_KNOTS or shares[0] <= 0 or sorted(set(shares)) != list(shares):
        raise PolicyError(
            f"{source} has clock_shares {shares[:4]}..., expected up to {MOST_KNOTS} ascending "
            "shares of the top clock, more than 0"
        )
    return Policy(
        nodes=_tree(record.get("nodes"), source, len(shares)),
        clock_shares=shares,
        deviations=_deviations(record.get("deviations"), source, len(shares)),
        rest=_number(record, "rest", source, least=0.0, most=MOST_LOG),
        card=card,
    )


def _tree(entries: Any, where: str, clocks: int) -> tuple[Node, ...]:
    if not isinstance(entries, list) or not entries:
        raise PolicyError(f"{where} has no nodes")
    nodes = tuple(_node(entry, f"{where}, node {i}", clocks) for i, entry in enumerate(entries))
    _check_shape(nodes, where)
    return nodes


def _deviations(entries: Any, where: str, clocks: int) -> Floats:
    if not isinstance(entries, list) or len(entries) > MOST_DEVIATIONS:
        raise PolicyError(f"{where} has no deviations: expected up to {MOST_DEVIATIONS} rows")
    rows = [_row(entry, f"{where}, deviation {i}", 2 * clocks) for i, entry in enumerate(entries)]
    if any(abs(value) > MOST_LOG for row in rows for value in row):
        raise PolicyError(f"{where} has a deviation over {MOST_LOG}, in logarithms")
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * clocks)


def _node(entry: Any, where: str, clocks: int) -> Node:
    if not isinstance(entry, dict):
        raise PolicyError(f"{where} is no JSON object")
    if "energy" in entry:
        energy, time = (
            _row(entry.get(key), f"{where}, {key}", clocks) for key in ("energy", "time")
        )
        if not all(1 / MOST_RATIO <= value <= MOST_RATIO for value in energy + time):
            raise PolicyError(f"{where} is a leaf of ratios beyond 1/{MOST_RATIO} to {MOST_RATIO}")
        return Leaf(
            energy,
            time,
            spread=_number(entry, "spread", where, least=0.0, most=MOST_RATIO),
            samples=_index(entry, "samples", where),
        )
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


def _numbers(entry: Mapping[str, Any], key: str, where: str) -> tuple[float, ...]:
    values = entry.get(key)
    if not isinstance(values, list):
        raise PolicyError(f"{where} has no list {key!r}")
    return tuple(_finite(value, f"{where} has in {key}") for value in values)


def _row(values: Any, where: str, length: int) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != length:
        raise PolicyError(f"{where} has no list of {length} numbers")
    return tuple(_finite(value, f"{where} has") for value in values)


def _number(
    entry: Mapping[str, Any],
    key: str,
    where: str,
    least: float = -sys.float_info.max,
    most: float = sys.float_info.max,
) -> float:
    value = _finite(entry.get(key), f"{where} has {key}")
    if not least <= value <= most:
        raise PolicyError(f"{where} has {key} {value!r}, expected {least:g} to {most:g}")
    return value


def _finite(value: Any, told: str) -> float:
    # JSON's integers have no bound, and Python reads NaN and Infinity as JSON.
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not abs(value) <= sys.float_info.max:
        raise PolicyError(f"{told} {value!r}, expected a finite number")
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
        "clock_shares": list(policy.clock_shares),
        "nodes": [dict(vars(node)) for node in policy.nodes],
        "deviations": policy.deviations.tolist(),
        "rest": policy.rest,
    }
    return json.dumps(record, indent=1)
