"""What came of one job: where it settled, its regret, excess, saving, slowdown, and drift."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bench._environment import Played, Seen
from bench._table_job import Segment, Target
from orin_gov.policy.decision import Decision, State

HELD = (State.HOLD, State.FALLBACK)
RESETTLE_EPOCHS = 3
"""After a drift, steps count from the end of so many decision epochs on."""

TOLERANCE = 0.005
"""A budget counts as exceeded beyond half a point of percent."""

NEAR = 0.005
"""Points whose energies differ by less are as good as each other for `near_step`."""

_CYCLE_CHANGES = 3
"""So many changes of the held point within one segment, without a drift, are a limit cycle; and so
are more looks than there are points."""


@dataclass(frozen=True)
class Settled:
    """The point held at the end, and after how many steps it was taken up for good."""

    target: Target
    step: int


def settled(played: Played) -> Settled:
    """Where a job came to rest; one that never held anything did at its end, where it last was."""
    decisions = [seen.decision for seen in played.epochs]
    first = _taken_up(decisions)
    if first is None:
        return Settled(decisions[-1].target_hz if decisions else None, played.job.steps)
    from_the_start = first == 0 and played.epochs[0].state in HELD
    return Settled(decisions[first].target_hz, 0 if from_the_start else played.epochs[first].steps)


def near_step(played: Played, max_slowdown: float) -> int:
    """After how many steps every point that was held is within `NEAR` of the oracle's energy."""
    segment = played.job.segments[-1]
    most_j = segment.at[segment.best(max_slowdown)].energy_j * (1 + NEAR)

    def near(target: Target) -> bool:
        return segment.costs(target).energy_j <= most_j

    at_last = settled(played)
    if not near(at_last.target):
        return played.job.steps
    first = _taken_up([seen.decision for seen in played.epochs], near)
    return played.job.steps if first is None else min(at_last.step, played.epochs[first].steps)


def settled_regret(played: Played, max_slowdown: float) -> float:
    """Energy of the point held at the end above the oracle's, without noise (percent).

    A point over the budget by more than half a point of percent is worth nothing: it counts as
    podgov.
    """
    segment = played.job.segments[-1]
    costs, podgov = segment.costs(settled(played).target), segment.at[None]
    if costs.time_s > podgov.time_s * (1 + max_slowdown + TOLERANCE):
        costs = podgov
    return 100 * (costs.energy_j / segment.at[segment.best(max_slowdown)].energy_j - 1)


def job_excess(played: Played, max_slowdown: float) -> float:
    """Energy of all steps above the oracle's best constant point in each segment (percent)."""
    best_j = played.other_j(oracle(played, max_slowdown)).sum()
    return float(100 * (played.step_j.sum() / best_j - 1))


def saving(played: Played, against: Sequence[Target]) -> float:
    """Energy of all steps below that at a constant target in each segment (percent)."""
    return float(100 * (1 - played.step_j.sum() / played.other_j(against).sum()))


def podgov(played: Played) -> list[Target]:
    """Podgov in every segment."""
    return [None] * len(played.job.segments)


def pinned_max(played: Played) -> list[Target]:
    """The highest allowed clock in every segment."""
    return [max(segment.points_hz) for segment in played.job.segments]


def oracle(played: Played, max_slowdown: float) -> list[Target]:
    """The best constant point of every segment."""
    return [segment.best(max_slowdown) for segment in played.job.segments]


def settled_saving(played: Played) -> float:
    """What the point held at the end saves against podgov, without noise (percent)."""
    segment = played.job.segments[-1]
    settled_j = segment.costs(settled(played).target).energy_j
    return 100 * (1 - settled_j / segment.at[None].energy_j)


def oracle_saving(played: Played, max_slowdown: float) -> float:
    """What the oracle saves on the very same steps (percent of podgov's energy)."""
    best_j = played.other_j(oracle(played, max_slowdown)).sum()
    return float(100 * (1 - best_j / played.other_j(podgov(played)).sum()))


def held_regret(played: Played, max_slowdown: float) -> float:
    """Energy of the points held at each segment's end above the oracle's, without noise (percent).

    What baseline windows and looks cost is left out here.
    """
    held_j = best_j = 0.0
    for index, segment in enumerate(played.job.segments):
        held = [
            each.decision.target_hz
            for each in played.epochs
            if each.segment <= index and each.decision.state in HELD
        ]
        held_j += segment.costs(held[-1] if held else None).energy_j
        best_j += segment.at[segment.best(max_slowdown)].energy_j
    return 100 * (held_j / best_j - 1)


def slowdown(played: Played, since_step: int, governed: bool) -> float:
    """Time of the steps from `since_step` on against podgov's for the same steps (share).

    With `governed`, of those at a pinned point alone; 0 where there are none.
    """
    here = np.arange(played.job.steps) >= since_step
    if governed:
        here &= (played.target != 0) & ~played.dropped
    podgov_s = played.other_s(podgov(played))
    return float(played.step_s[here].sum() / podgov_s[here].sum() - 1) if here.any() else 0.0


@dataclass(frozen=True)
class AfterDrift:
    """One segment after a drift: energy taken and least (J) from the third epoch on, how many
    epochs passed before what it then held was taken up, and before all it held was within `NEAR`
    of the oracle's energy, whether it went round in circles."""

    taken_j: float
    best_j: float
    epochs: int
    near_epochs: int
    cycles: bool


def after_drifts(played: Played, max_slowdown: float) -> list[AfterDrift]:
    """Every segment but the first: each begins with a drift."""
    best_j = played.other_j(oracle(played, max_slowdown))
    numbers = np.arange(played.job.steps)
    found = []
    for index, segment in list(enumerate(played.job.segments))[1:]:
        seen = [each for each in played.epochs if each.segment == index]
        since = seen[RESETTLE_EPOCHS - 1].steps if len(seen) >= RESETTLE_EPOCHS else 0
        here = (played.segment == index) & (numbers >= since)
        held = [each.decision.target_hz for each in seen if each.decision.state in HELD]
        changes = sum(one != other for one, other in pairwise(held))
        looks = sum(each.decision.state is State.REFINE for each in seen)
        found.append(
            AfterDrift(
                taken_j=float(played.step_j[here].sum()),
                best_j=float(best_j[here].sum()),
                epochs=_epochs_until_settled(seen),
                near_epochs=_epochs_until_near(seen, segment, max_slowdown),
                cycles=changes >= _CYCLE_CHANGES or looks > len(segment.points_hz),
            )
        )
    return found


def drift_regret(played: Played, max_slowdown: float) -> float:
    """Energy above the oracle's from the third epoch after each drift on (percent)."""
    drifts = after_drifts(played, max_slowdown)
    taken_j = sum(drift.taken_j for drift in drifts)
    return 100 * (taken_j / sum(drift.best_j for drift in drifts) - 1)


def _epochs_until_settled(seen: Sequence[Seen]) -> int:
    """How many of a segment's epochs passed before the point held at its end was taken up."""
    first = _taken_up([each.decision for each in seen])
    if first is None:
        return len(seen)
    undisturbed = seen[0].window.target_hz == seen[first].decision.target_hz
    return 0 if first == 0 and undisturbed else first + 1


def _epochs_until_near(seen: Sequence[Seen], segment: Segment, max_slowdown: float) -> int:
    """How many of a segment's epochs passed before all that was held was near the oracle."""
    most_j = segment.at[segment.best(max_slowdown)].energy_j * (1 + NEAR)

    def near(target: Target) -> bool:
        return segment.costs(target).energy_j <= most_j

    decisions = [each.decision for each in seen]
    first = _taken_up(decisions, near)
    held = [each.target_hz for each in decisions if each.state in HELD]
    if first is None or not near(held[-1]):
        return len(seen)
    undisturbed = near(seen[0].window.target_hz) and seen[0].state in HELD
    return 0 if first == 0 and undisturbed else first + 1


def _taken_up(
    decisions: Sequence[Decision], alike: Callable[[Target], bool] | None = None
) -> int | None:
    """Which decision took up for good what the last one holds; None where nothing is held.

    Looks elsewhere and baseline windows that return don't count. With `alike`, any such target is
    as good as the last.
    """
    held = [index for index, decision in enumerate(decisions) if decision.state in HELD]
    if not held:
        return None
    target, first = decisions[held[-1]].target_hz, held[-1]
    for index in reversed(held):
        other = decisions[index].target_hz
        if other != target and not (alike and alike(other)):
            break
        first = index
    # It was taken up before, where the epochs up to the first hold verified it.
    target = decisions[first].target_hz
    while first and decisions[first - 1].target_hz == target:
        first -= 1
    return first
