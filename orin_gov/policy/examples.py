"""Examples: what a fit learns from, a workload each, as features and as answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orin_gov.errors import PolicyError
from orin_gov.policy.answer import Floats
from orin_gov.policy.features import FEATURES, features_of
from orin_gov.policy.window import Window

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
    [
        "max_slowdown",
        "sensitivity",
        "temperature_c",
        "floor_hz",
        "ceiling_hz",
        "emc_hz",
        "power_mode",
    ]
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

    @property
    def under_own_governor(self) -> dict[str, float | None]:
        """The features that the tree is asked with."""
        values = (None if np.isnan(value) else float(value) for value in self.features[0])
        return dict(zip(NAMES, values, strict=True))


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


def rows(examples: Sequence[Example]) -> tuple[Floats, Floats, Floats]:
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


def _vector(features: Mapping[str, float | None]) -> Floats:
    return np.array([features[name] for name in NAMES], dtype=np.float64)
