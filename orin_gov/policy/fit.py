"""Fitting: from workloads whose every operating point is known to a tree for each objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orin_gov.policy.features import FEATURES, features_of
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.tree import Leaf, Node, Policy, Split
from orin_gov.policy.window import Window

BUDGETS = (0.02, 0.05, 0.10, 0.20, 0.50, 2.0)
"""The slowdown budgets that every workload is shown with."""

MAX_LEAVES = 16
LEAST_SHARE = 0.01
"""No leaf stands for less than this share of the examples: a person is to read the tree."""

KEPT_SHARE = 0.9
"""A leaf's operating point must keep the budget of this share of its examples, if any can."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """One workload under one budget: its features under the board's own governor, and what each
    operating point does to it against that (shares; arrays of shape [points])."""

    features: Floats
    budget: float
    saving: Floats
    slowdown: Floats


def examples_of(
    baseline: Window, windows: Sequence[Window], top_hz: int, budgets: Sequence[float] = BUDGETS
) -> list[Example]:
    """Return the examples of one workload; `windows` has one for each point, ascending."""
    reference_j, reference_s = baseline.energy_per_work_j, baseline.time_per_work_s
    energy = np.array([window.energy_per_work_j for window in windows], dtype=np.float64)
    time = np.array([window.time_per_work_s for window in windows], dtype=np.float64)
    assert reference_j, "a fit needs workloads whose baseline energy was measured"
    assert reference_s, "a fit needs workloads whose baseline time was measured"
    assert np.isfinite(energy).all(), "a fit needs the energy of every operating point"
    assert np.isfinite(time).all(), "a fit needs the time of every operating point"
    return [
        Example(
            features=_vector(features_of(baseline, top_hz, budget)),
            budget=budget,
            saving=1 - energy / reference_j,
            slowdown=time / reference_s - 1,
        )
        for budget in budgets
    ]


def _vector(features: Mapping[str, float | None]) -> Floats:
    return np.array([features[name] for name in FEATURES], dtype=np.float64)


def fit_policy(
    examples: Sequence[Example], points_hz: Sequence[int], card: Mapping[str, Any]
) -> Policy:
    """Fit a tree for each objective on `examples`, whose operating points are `points_hz`."""
    trees = {name: _fit_tree(examples, points_hz, Objective(name)) for name in TIME_EXPONENT}
    return Policy(trees, card)


def objective_values(example: Example, objective: Objective) -> Floats:
    """Return the objective at each operating point, against the baseline's (1 = as good)."""
    return (1 - example.saving) * (1 + example.slowdown) ** TIME_EXPONENT[objective.name]


def best_point(example: Example, objective: Objective) -> int:
    """Return the index of the best operating point within the budget (the top one if none is)."""
    values = objective_values(example, objective)
    allowed = example.slowdown <= example.budget
    return int(np.where(allowed, values, np.inf).argmin()) if allowed.any() else len(values) - 1


def _fit_tree(
    examples: Sequence[Example], points_hz: Sequence[int], objective: Objective
) -> tuple[Node, ...]:
    from sklearn.tree import DecisionTreeRegressor

    inputs = np.stack([example.features for example in examples])
    best_hz = np.array([points_hz[best_point(example, objective)] for example in examples])
    fitted = DecisionTreeRegressor(
        max_leaf_nodes=MAX_LEAVES, min_samples_leaf=LEAST_SHARE, random_state=0
    ).fit(inputs, best_hz)
    leaf_of = fitted.apply(inputs)
    tree, names = fitted.tree_, tuple(FEATURES)
    nodes: list[Node] = []
    for index in range(tree.node_count):
        left, right = int(tree.children_left[index]), int(tree.children_right[index])
        if left < 0:
            inside = [examples[int(i)] for i in np.flatnonzero(leaf_of == index)]
            nodes.append(_leaf(inside, points_hz, objective))
        else:
            larger_left = tree.n_node_samples[left] >= tree.n_node_samples[right]
            nodes.append(
                Split(
                    feature=names[tree.feature[index]],
                    threshold=float(tree.threshold[index]),
                    left=left,
                    right=right,
                    missing="left" if larger_left else "right",
                )
            )
    return tuple(nodes)


def _leaf(inside: Sequence[Example], points_hz: Sequence[int], objective: Objective) -> Leaf:
    """Return the leaf with the point that is best on average among those that keep budgets."""
    values = np.stack([objective_values(example, objective) for example in inside]).mean(axis=0)
    slowdown = np.stack([example.slowdown for example in inside])
    budgets = np.array([example.budget for example in inside])[:, None]
    kept = (slowdown <= budgets).mean(axis=0)
    candidates = kept >= min(KEPT_SHARE, kept.max())
    chosen = int(np.where(candidates, values, np.inf).argmin())
    return Leaf(
        frequency_hz=float(points_hz[chosen]),
        saving=float(np.mean([example.saving[chosen] for example in inside])),
        slowdown=float(slowdown[:, chosen].mean()),
        samples=len(inside),
    )
