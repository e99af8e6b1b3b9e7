"""Fitting: from workloads whose every operating point is known to a tree with its deviations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orin_gov.errors import PolicyError
from orin_gov.policy.answer import Floats
from orin_gov.policy.features import FEATURES, features_of
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import KNOWN, Leaf, Node, Policy, Split, choice_of, walk
from orin_gov.policy.window import Window

MAX_LEAVES = 16
LEAST_SHARE = 0.01
"""No leaf stands for less than this share of the examples: a person is to read the tree."""

LEAST_GAIN = 1e-9
"""Splits that tell less of the answers (their mean variance) are rounding errors."""

DEVIATIONS = 5
FOLDS = 5
NO_BUDGET = 100.0
CHECKED_BUDGETS = (0.02, 0.05, 0.10, NO_BUDGET)
GROUPS = {
    "load": r"load",
    "counts": r".*(operations|bytes|launch|intensity).*",
    "phases": r"(data|forward|backward|optimizer|idle|host_gap)_.*",
    "rails": r"(gpu_rail|other_rails)_.*|power_(p99_w|range)",
}
"""Features that are missing together, by pattern."""

BLIND = (("counts",), ("load", "counts"), ("load", "counts", "rails"), tuple(GROUPS))
"""What a board or a script may not show: the tree is fitted on examples that lack it as well."""

NOT_ASKED = frozenset(
    ["max_slowdown", "sensitivity", "temperature_c", "floor_hz", "ceiling_hz", "emc_hz", "power_mode"]
)
"""Features that leaves do not depend on: the budget chooses within a leaf, not among them, and the
others are the same for every workload of a fit."""

NAMES = tuple(name for name in FEATURES if name not in NOT_ASKED)


@dataclass(frozen=True)
class Example:
    """One workload: features under the board's own governor (row 0) and at each operating point,
    [1 + points, features], NaN where missing; and log energy, then log time at each operating point
    against the board's own governor, [2 * points]."""

    features: Floats
    answer: Floats


def example_of(baseline: Window, windows: Sequence[Window], top_hz: int) -> Example:
    """Return the example of one workload; `windows` has one for each point, ascending.

    Raises:
        PolicyError: an operating point lacks its energy or its time.
    """
    pairs = [(each.energy_per_work_j, each.time_per_work_s) for each in (baseline, *windows)]
    measured = np.array(pairs, dtype=np.float64)
    if not (np.isfinite(measured).all() and (measured > 0).all()):
        raise PolicyError(
            "a fit needs the energy and the time of every operating point and of the baseline; "
            f"{int((~(measured > 0)).sum())} of {measured.size} are missing"
        )
    logs = np.log(measured[1:] / measured[0])
    rows = [_vector(features_of(each, top_hz, 0.0)) for each in (baseline, *windows)]
    return Example(np.stack(rows), np.concatenate([logs[:, 0], logs[:, 1]]))


def fit_policy(
    examples: Sequence[Example], points_hz: Sequence[int], card: Mapping[str, Any]
) -> Policy:
    """Fit a policy on `examples`, whose operating points are `points_hz`; its card says how well.

    The regret on the card is that of workloads left out of the fit, never of single windows.
    """
    policy = _fit(examples, points_hz)
    return replace(policy, card={**card, "left_out": _cross_validated(examples, points_hz)})


def _fit(examples: Sequence[Example], points_hz: Sequence[int]) -> Policy:
    from sklearn.tree import DecisionTreeRegressor

    inputs, answers, weights = _rows(examples)
    fitted = DecisionTreeRegressor(
        max_leaf_nodes=MAX_LEAVES,
        min_weight_fraction_leaf=LEAST_SHARE,
        min_impurity_decrease=LEAST_GAIN,
        random_state=0,
    ).fit(inputs, answers, sample_weight=weights)
    leaf_of = fitted.apply(inputs)
    means = {
        int(leaf): np.average(answers[leaf_of == leaf], axis=0, weights=weights[leaf_of == leaf])
        for leaf in np.unique(leaf_of)
    }
    residuals = answers - np.stack([means[int(leaf)] for leaf in leaf_of])
    deviations, rest = _deviations(residuals, weights)
    overall = _rms(residuals, weights)
    rows_each = len(inputs) / len(examples)
    nodes: list[Node] = []
    tree = fitted.tree_
    for index in range(tree.node_count):
        if index not in means:
            nodes.append(_split(tree, index))
            continue
        inside = leaf_of == index
        energy, time = np.split(np.exp(means[index]), 2)
        spread = _rms(residuals[inside], weights[inside]) / overall if overall else 0.0
        samples = max(1, round(int(inside.sum()) / rows_each))
        nodes.append(Leaf(tuple(energy.tolist()), tuple(time.tolist()), spread, samples))
    shares = tuple(hz / points_hz[-1] for hz in points_hz)
    return Policy(tuple(nodes), shares, deviations, rest, {})


def _rows(examples: Sequence[Example]) -> tuple[Floats, Floats, Floats]:
    """Return inputs, answers and weights: each workload whole, and as a blinder board sees it."""
    points = len(examples[0].features) - 1
    own = np.array([1.0] + [1.0 / points] * points)
    inputs, answers, weights = [], [], []
    for example in examples:
        for missing, share in ((), 1.0), *((each, 0.3) for each in BLIND):
            inputs.append(_blinded(example.features, missing))
            answers.append(np.tile(example.answer, (points + 1, 1)))
            weights.append(share * own)
    return np.concatenate(inputs), np.concatenate(answers), np.concatenate(weights)


def _blinded(features: Floats, missing: Sequence[str]) -> Floats:
    hidden = [any(re.fullmatch(GROUPS[group], name) for group in missing) for name in NAMES]
    return np.where(hidden, np.nan, features)


def _deviations(residuals: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the main ways in which answers leave their leaf's mean, and what is left besides."""
    share = np.sqrt(weights / weights.sum())[:, None]
    _, sizes, ways = np.linalg.svd(residuals * share, full_matrices=False)
    rest = float(np.sqrt((sizes[DEVIATIONS:] ** 2).sum() / residuals.shape[1]))
    return sizes[:DEVIATIONS, None] * ways[:DEVIATIONS], rest


def _rms(residuals: Floats, weights: Floats) -> float:
    return float(np.sqrt(np.average((residuals**2).mean(axis=1), weights=weights)))


def _split(tree: Any, index: int) -> Split:
    return Split(
        feature=NAMES[tree.feature[index]],
        # Where it asks only whether the value is missing, the threshold is infinite.
        threshold=min(float(tree.threshold[index]), KNOWN),
        left=int(tree.children_left[index]),
        right=int(tree.children_right[index]),
        missing="left" if tree.missing_go_to_left[index] else "right",
    )


def _vector(features: Mapping[str, float | None]) -> Floats:
    return np.array([features[name] for name in NAMES], dtype=np.float64)


def _cross_validated(examples: Sequence[Example], points_hz: Sequence[int]) -> dict[str, Any]:
    """Return by budget the mean and worst regret of the tree alone on workloads it has not seen."""
    folds = min(FOLDS, len(examples))
    if folds < 2:
        return {"why_missing": "a single workload cannot be left out"}
    found: dict[float, list[float]] = {budget: [] for budget in CHECKED_BUDGETS}
    for fold in range(folds):
        policy = _fit([each for i, each in enumerate(examples) if i % folds != fold], points_hz)
        for example in examples[fold::folds]:
            for budget, regrets in found.items():
                regrets.append(tree_regret(policy, example, Objective("energy", budget)))
    return {
        "no budget" if budget == NO_BUDGET else f"budget {budget:.0%}": {
            "regret_mean": round(float(np.mean(regrets)), 5),
            "regret_worst": round(float(np.max(regrets)), 5),
            "workloads": len(regrets),
        }
        for budget, regrets in found.items()
    }


def tree_regret(policy: Policy, example: Example, objective: Objective) -> float:
    """Return how much more energy the tree's own choice takes than the best within the budget.

    A choice over the budget counts with the energy of the best within it: it has no regret, and is
    no success either; the loop, not the tree, keeps the budget.
    """
    features = dict(zip(NAMES, _known(example.features[0]), strict=True))
    energy, time = np.split(np.exp(example.answer), 2)
    allowed = np.append(energy[time <= 1 + objective.max_slowdown], 1.0)
    chosen = choice_of(walk(policy.nodes, features).leaf, objective)
    taken = 1.0 if chosen is None else float(energy[chosen])
    return max(0.0, taken / float(allowed.min()) - 1)


def _known(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
