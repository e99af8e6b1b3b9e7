"""From jobs played to figures: regret, excess, settling, budgets, drift."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bench._environment import Played
from bench._figures import RESAMPLES, Figure
from bench._table_job import Target
from orin_gov.policy.governor import State

HELD = (State.HOLD, State.FALLBACK)
RESETTLE_EPOCHS = 3
"""After a drift, steps count from the end of so many decision epochs on."""

_CYCLE_CHANGES = 3
"""So many changes of the held point within one segment, without a drift, are a limit cycle."""


@dataclass(frozen=True)
class Settled:
    """The point held at the end, and after how many steps it was taken up for good."""

    target: Target
    step: int


def settled(played: Played) -> Settled:
    """Where a job came to rest. Looks elsewhere and baseline windows that return don't count.

    One that never held anything is settled at its end, where it last was.
    """
    decisions = [(seen.steps, seen.decision) for seen in played.epochs]
    held = [index for index, (_, decision) in enumerate(decisions) if decision.state in HELD]
    if not held:
        last = decisions[-1][1].target_hz if decisions else None
        return Settled(last, played.job.steps)
    target = decisions[held[-1]][1].target_hz
    first = held[-1]
    for index in reversed(held):
        if decisions[index][1].target_hz != target:
            break
        first = index
    # It was taken up before, where the epochs up to the first hold verified it.
    while first and decisions[first - 1][1].target_hz == target:
        first -= 1
    begun = played.epochs[0].state in HELD and first == 0
    return Settled(target, 0 if begun else decisions[first][0])


def settled_regret(played: Played, max_slowdown: float) -> float:
    """Energy of the point held at the end above the oracle's, without noise (percent)."""
    segment = played.job.segments[-1]
    best_j = segment.at[segment.best(max_slowdown)].energy_j
    return 100 * (segment.costs(settled(played).target).energy_j / best_j - 1)


def job_excess(played: Played, max_slowdown: float) -> float:
    """Energy of all steps above the oracle's best constant point in each segment (percent)."""
    best = [segment.best(max_slowdown) for segment in played.job.segments]
    return float(100 * (played.step_j.sum() / played.other_j(best).sum() - 1))


def saving(played: Played, against: Target) -> float:
    """Energy of all steps below that at a constant target (percent)."""
    targets = [
        max(segment.points_hz) if against == 0 else against for segment in played.job.segments
    ]
    return float(100 * (1 - played.step_j.sum() / played.other_j(targets).sum()))


def slowdown(played: Played, since_step: int, governed: bool) -> float:
    """Time of the steps from `since_step` on against podgov's for the same steps (share).

    With `governed`, of those at a pinned point alone; 0 where there are none.
    """
    here = np.arange(played.job.steps) >= since_step
    if governed:
        here &= (played.target != 0) & ~played.dropped
    podgov_s = played.other_s([None] * len(played.job.segments))
    return float(played.step_s[here].sum() / podgov_s[here].sum() - 1) if here.any() else 0.0


@dataclass(frozen=True)
class AfterDrift:
    """One segment after a drift: energy taken and least (J) from the third epoch on, how many
    epochs it took to hold what it then held, whether it went round in circles."""

    taken_j: float
    best_j: float
    epochs: int
    cycles: bool


def after_drifts(played: Played, max_slowdown: float) -> list[AfterDrift]:
    """Every segment that begins with a drift."""
    best = [segment.best(max_slowdown) for segment in played.job.segments]
    best_j = played.other_j(best)
    numbers = np.arange(played.job.steps)
    found = []
    for index, segment in enumerate(played.job.segments):
        if not index:
            continue
        seen = [each for each in played.epochs if each.segment == index]
        since = seen[RESETTLE_EPOCHS - 1].steps if len(seen) >= RESETTLE_EPOCHS else 0
        here = (played.segment == index) & (numbers >= since)
        held = [
            (number, each.decision.target_hz)
            for number, each in enumerate(seen)
            if each.decision.state in HELD
        ]
        changes = sum(a[1] != b[1] for a, b in pairwise(held))
        last = [number for number, target in held if target != held[-1][1]]
        again = next((n for n, _ in held if not last or n > last[-1]), len(seen))
        if segment.is_drift or segment.told is not None or segment.pause:
            found.append(
                AfterDrift(
                    taken_j=float(played.step_j[here].sum()),
                    best_j=float(best_j[here].sum()),
                    epochs=again,
                    cycles=changes >= _CYCLE_CHANGES,
                )
            )
    return found


def mean_figure(
    name: str, values: Iterable[float], unit: str = "%", bar: str | None = None
) -> Figure:
    """The mean of `values` with its 95 % bootstrap interval (seeded)."""
    data = np.asarray(list(values), dtype=float)
    picks = np.random.default_rng(0).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(data[picks].mean(axis=1), (0.025, 0.975))
    return Figure(name, float(data.mean()), unit, len(data), (float(low), float(high)), bar)


def quantile_figure(
    name: str, values: Iterable[float], share: float, unit: str, bar: str | None = None
) -> Figure:
    """A quantile of `values` with its 95 % bootstrap interval (seeded)."""
    data = np.asarray(list(values), dtype=float)
    rng = np.random.default_rng(0)
    found = [np.quantile(data[rng.integers(0, len(data), len(data))], share) for _ in range(500)]
    low, high = np.quantile(found, (0.025, 0.975))
    value = float(np.quantile(data, share))
    return Figure(name, value, unit, len(data), (float(low), float(high)), bar)


def by_job(names: Sequence[str], values: Sequence[float]) -> list[float]:
    """The mean of each job's values: its seeds are no jobs of their own."""
    of = defaultdict(list)
    for name, value in zip(names, values, strict=True):
        of[name].append(value)
    return [float(np.mean(each)) for each in of.values()]
