"""The rivals, each from its published description, as deciders over the same tables.

All of them choose among the same operating points under the same slowdown budget, and pay for what
they measure: those that need a reference take the same baseline windows as our own governor.
"""

from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise

import numpy as np

from bench._bayesian import bayesian_optimisation
from bench._environments_virtual import steady_jobs
from bench._rival import Plan, Rival, Search, Trial
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.objective import Objective
from orin_gov.policy.window import Window
from orin_gov.virtual.plant import BoardModel, load_board

NVPMODEL_HZ = {"15w": 408_000_000, "30w": 612_000_000, "50w": 816_000_000}
"""GPU clocks of the fixed power modes of the AGX Orin 64 GB (its nvpmodel.conf)."""

RIVALS = (
    "podgov",
    "pinned_max",
    *(f"nvpmodel_{mode}" for mode in NVPMODEL_HZ),
    "one_shot",
    "golden_section",
    "hill_climbing",
    "bayesian",
)

PROFILING_STEPS = 30
_FITTED_WORKLOADS = 100
_GOLDEN = (5**0.5 - 1) / 2


def rival(
    name: str,
    points_hz: Sequence[int],
    objective: Objective,
    board: BoardModel,
    load: float | None = None,
) -> Decider:
    """One of RIVALS. `load` stands in for the GPU's load where a job's windows have none."""
    if name == "podgov":
        return Podgov()
    if name == "pinned_max":
        return Rival(points_hz, objective, _pin(None), windows=0)
    if name.startswith("nvpmodel_"):
        clock_hz = NVPMODEL_HZ[name.removeprefix("nvpmodel_")]
        return Rival(points_hz, objective, _pin(clock_hz), windows=0)
    if name == "one_shot":
        rule = one_shot_rule(board.name, objective.max_slowdown)
        return Rival(points_hz, objective, _one_shot(rule, load), steps=PROFILING_STEPS)
    searches: dict[str, Plan] = {
        "golden_section": golden_section,
        "hill_climbing": hill_climbing,
        "bayesian": partial(bayesian_optimisation, max_slowdown=objective.max_slowdown),
    }
    return Rival(points_hz, objective, searches[name])


class Podgov:
    """The board's own governor from the first step to the last (nvhost_podgov, in MAXN)."""

    _ALL = Decision(State.HOLD, None, "the board's own governor")

    def first(self) -> Decision:
        """The board's own governor."""
        return self._ALL

    def outcome(self, window: Window) -> Outcome:
        """Nothing: it compares nothing."""
        return Outcome(None, None, None)

    def decide(self, window: Window) -> Decision:
        """The board's own governor."""
        return self._ALL

    def fall_back(self) -> None:
        """Nothing: it is there already."""

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """The board's own governor, below another cap."""
        return self._ALL


def _pin(clock_hz: int | None) -> Plan:
    """A constant clock: the highest point at or below it, the top one for None.

    The power modes only cap the GPU; pinned at its cap is what work that keeps it busy sees.
    """

    def plan(points_hz: Sequence[int], baseline: Sequence[Window]) -> Search:
        allowed = [hz for hz in points_hz if clock_hz is None or hz <= clock_hz]
        return allowed[-1] if allowed else points_hz[0]
        yield  # a generator that measures nothing

    return plan


@cache
def one_shot_rule(board: str, max_slowdown: float) -> tuple[float, float]:
    """The rule's slope and intercept: best operating point (Hz) = slope * GPU load + intercept.

    The thesis' own thresholds are not public. This line is fitted by least squares on what our own
    policy is fitted on, the workload family's seed 0, under the same budget.
    """
    jobs = steady_jobs(load_board(board), _FITTED_WORKLOADS, steps=1, seed=0)
    segments = [job.segments[0] for job in jobs]
    loads = [segment.at[None].load for segment in segments]
    best = [segment.best_point(max_slowdown) for segment in segments]
    slope, intercept = np.polyfit(np.array(loads, float), np.array(best, float), 1)
    return float(slope), float(intercept)


def _one_shot(rule: tuple[float, float], load: float | None) -> Plan:
    """One-shot choice by GPU utilisation over 30 profiling steps under the default governor.

    Source: nur.nu.edu.kz/handle/123456789/18744 (thesis, Nazarbayev University, 2026). It looks at
    nothing afterwards.
    """

    def plan(points_hz: Sequence[int], baseline: Sequence[Window]) -> Search:
        seen = [window.load if load is None else load for window in baseline]
        mean = float(np.mean([each for each in seen if each is not None]))
        wanted_hz = rule[0] * mean + rule[1]
        return min(points_hz, key=lambda hz: abs(hz - wanted_hz))
        yield  # a generator that measures nothing

    return plan


class _Measured(dict[int, float]):
    """Values by index of a point; each point is measured once."""

    def __init__(self, points_hz: Sequence[int]) -> None:
        super().__init__()
        self._points_hz = points_hz

    def at(self, index: int) -> "Search":
        """Measure the point unless it was; to be yielded from."""
        if index not in self:
            trial: Trial = yield self._points_hz[index]
            self[index] = trial.value
        return index

    def best_hz(self) -> int:
        """The best point so far."""
        return self._points_hz[min(self, key=lambda index: self[index])]


def golden_section(points_hz: Sequence[int], baseline: Sequence[Window]) -> Search:
    """Golden-section search over the table of clocks (J. Kiefer, Proc. AMS 4, 1953), as if energy
    over the clock were unimodal and free of noise; one window a point."""
    low, high = 0, len(points_hz) - 1
    values = _Measured(points_hz)
    while high - low > 2:
        inner = round(_GOLDEN * (high - low))
        left = high - inner
        right = max(low + inner, left + 1)
        yield from values.at(left)
        yield from values.at(right)
        if values[left] <= values[right]:
            high = right
        else:
            low = left
    for index in range(low, high + 1):
        yield from values.at(index)
    return values.best_hz()


def hill_climbing(points_hz: Sequence[int], baseline: Sequence[Window]) -> Search:
    """From the top clock, one point down at a time for as long as that is better.

    The local search of online GPU governors, as in GPOEO (arXiv 2201.01684) after its prediction.
    """
    values = _Measured(points_hz)
    downwards = range(len(points_hz) - 1, -1, -1)
    yield from values.at(downwards[0])
    for above, index in pairwise(downwards):
        yield from values.at(index)
        if values[index] >= values[above]:
            break
    return values.best_hz()
