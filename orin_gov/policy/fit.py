"""Fitting: from workloads whose every operating point is known to a tree with its deviations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from orin_gov.policy.answer import Floats
from orin_gov.policy.examples import NAMES, Example, rows
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import KNOWN, Leaf, Node, Policy, Split, choice_of, walk

MAX_LEAVES = 16
LEAST_SHARE = 0.01
"""No leaf stands for less than this share of the examples: a person is to read the tree."""

LEAST_GAIN = 1e-9
"""Splits that tell less of the answers (their mean variance) are rounding errors."""

DEVIATIONS = 5
FOLDS = 5
FEW = 20
"""With fewer workloads than this, how they differ among the leaves tells little of others."""

NO_BUDGET = 100.0
CHECKED_BUDGETS = (0.02, 0.05, 0.10, NO_BUDGET)


def fit_policy(
    examples: Sequence[Example],
    points_hz: Sequence[int],
    card: Mapping[str, Any],
    workloads: Sequence[str] | None = None,
    top_hz: int | None = None,
) -> Policy:
    """Fit a policy on `examples`, whose operating points are `points_hz`; its card says how well.

    The regret on the card is that of workloads left out of the fit, never of single windows.
    `workloads` names the workload of each example where one may have several: they are left out
    together. `top_hz` is the top of the board's table where that is no point.
    """
    top_hz = top_hz or points_hz[-1]
    policy = _fit(examples, points_hz, top_hz)
    workloads = workloads or [str(number) for number in range(len(examples))]
    left_out = _left_out(examples, points_hz, top_hz, _folds(workloads))
    if len(set(workloads)) < FEW:
        policy = _doubted(policy, examples, left_out)
    return replace(policy, card={**card, "left_out": _regrets(left_out)})


def _fit(examples: Sequence[Example], points_hz: Sequence[int], top_hz: int) -> Policy:
    from sklearn.tree import DecisionTreeRegressor

    inputs, answers, weights = rows(examples)
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
    shares = tuple(hz / top_hz for hz in points_hz)
    return Policy(tuple(nodes), shares, deviations, rest, {})


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


def _folds(workloads: Sequence[str]) -> list[list[int]]:
    """Return which examples are left out together, as indices; none where all are one workload's."""
    names = list(dict.fromkeys(workloads))
    folds = min(FOLDS, len(names))
    if folds < 2:
        return []
    place = {name: number % folds for number, name in enumerate(names)}
    return [[i for i, name in enumerate(workloads) if place[name] == fold] for fold in range(folds)]


def _left_out(
    examples: Sequence[Example], points_hz: Sequence[int], top_hz: int, folds: Sequence[list[int]]
) -> list[tuple[Policy, Example]]:
    """Return each example with the policy fitted without its workload."""
    found = []
    for fold in folds:
        others = [each for i, each in enumerate(examples) if i not in fold]
        policy = _fit(others, points_hz, top_hz)
        found += [(policy, examples[i]) for i in fold]
    return found


def _doubted(
    policy: Policy, examples: Sequence[Example], left_out: Sequence[tuple[Policy, Example]]
) -> Policy:
    """Return a policy of few workloads, which says how far off it is of those it does not know.

    A leaf that is one workload's own knows it by heart. Where there is only one at all, another may
    lie as far from it as it lies from the board's own governor.
    """
    off = [each.answer - _told(without, each) for without, each in left_out]
    residuals = np.stack(off or [each.answer for each in examples])
    deviations, rest = _deviations(residuals, np.ones(len(residuals)))
    nodes = [replace(node, spread=1.0) if isinstance(node, Leaf) else node for node in policy.nodes]
    return replace(policy, nodes=tuple(nodes), deviations=deviations, rest=rest)


def _told(policy: Policy, example: Example) -> Floats:
    leaf = walk(policy.nodes, example.under_own_governor).leaf
    return np.asarray(np.log(np.array(leaf.energy + leaf.time)))


def _regrets(left_out: Sequence[tuple[Policy, Example]]) -> dict[str, Any]:
    """Return by budget the mean and worst regret of the tree alone on workloads it has not seen."""
    if not left_out:
        return {"why_missing": "a single workload cannot be left out"}
    found = {}
    for budget in CHECKED_BUDGETS:
        objective = Objective("energy", budget)
        regrets = [tree_regret(policy, each, objective) for policy, each in left_out]
        found["no budget" if budget == NO_BUDGET else f"budget {budget:.0%}"] = {
            "regret_mean": round(float(np.mean(regrets)), 5),
            "regret_worst": round(float(np.max(regrets)), 5),
            "workloads": len(regrets),
        }
    return found


def tree_regret(policy: Policy, example: Example, objective: Objective) -> float:
    """Return how much more energy the tree's own choice takes than the best within the budget.

    A choice over the budget counts with the energy of the best within it: it has no regret, and is
    no success either; the loop, not the tree, keeps the budget.
    """
    energy, time = np.split(np.exp(example.answer), 2)
    allowed = np.append(energy[time <= 1 + objective.max_slowdown], 1.0)
    chosen = choice_of(walk(policy.nodes, example.under_own_governor).leaf, objective)
    taken = 1.0 if chosen is None else float(energy[chosen])
    return max(0.0, taken / float(allowed.min()) - 1)
