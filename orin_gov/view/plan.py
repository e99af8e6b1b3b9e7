"""Deadline and energy budget in words: what was asked for, how it stands, what came of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from orin_gov.policy.plan import JOULES_PER_WH, span_words
from orin_gov.view.state import Snapshot

MET = {True: "met", False: "missed", None: "unknown"}


def plan_words(objective: Mapping[str, Any]) -> str:
    """Return what a run's plan was: its steps, by when, with how much energy."""
    words = [f"{objective['steps']} steps"]
    if deadline_s := objective.get("deadline_s"):
        words.append(f"within {span_words(deadline_s)}")
    if budget_j := objective.get("energy_budget_j"):
        words.append(f"with {budget_j / JOULES_PER_WH:.3g} Wh")
    return ", ".join(words)


def standing(snapshot: Snapshot) -> Iterator[tuple[str, bool]]:
    """Yield in words how a run stands against its plan, and whether that would miss it.

    What the rest takes is told by the pace of the last steps and the mean power so far; it knows
    nothing of the pauses that are yet to come. The governor plans with more (policy/plan.py).
    """
    if snapshot.steps_planned is None:
        return
    rest = max(0, snapshot.steps_planned - snapshot.steps)
    rest_s = rest / snapshot.steps_per_s if rest and snapshot.steps_per_s else None
    yield f"{rest:,} of {snapshot.steps_planned:,} steps to go", False
    if snapshot.deadline_s is not None:
        left_s = snapshot.deadline_s - snapshot.elapsed_s
        if left_s < 0:
            yield f"the deadline was {span_words(-left_s)} ago", True
        else:
            yield _of_what_is_left(rest_s, left_s, span_words)
    if snapshot.energy_budget_j is not None:
        taken_j, mean_w = snapshot.total.energy_j, snapshot.total.mean_w
        if taken_j is None or mean_w is None:
            yield "energy is not measured", False
            return
        rest_j = None if rest_s is None else rest_s * mean_w
        words, misses = _of_what_is_left(rest_j, snapshot.energy_budget_j - taken_j, _watt_hours)
        yield words + (" (simulated)" if snapshot.virtual else ""), misses


def _of_what_is_left(
    rest: float | None, left: float, told: Callable[[float], str]
) -> tuple[str, bool]:
    if rest is None:
        return f"{told(left)} left", False
    if rest > left:
        return f"about {told(rest)}, but {told(left)} left", True
    return f"about {told(rest)} of the {told(left)} left", False


def _watt_hours(joules: float) -> str:
    return f"{max(0.0, joules) / JOULES_PER_WH:.3g} Wh"


def plan_lines(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield label and words of what was planned and what it came to."""
    planned, steps = summary.get("steps_planned"), summary.get("steps", 0)
    undone = f"; {steps} of {planned} steps" if planned and steps < planned else ""
    if deadline := summary.get("deadline"):
        taken, given = span_words(deadline["taken_s"]), span_words(deadline["given_s"])
        yield "deadline", f"{MET[deadline['met']]}: {taken} of {given}{undone}"
    if budget := summary.get("energy_budget"):
        joules = budget["taken_j"]
        taken = "not measured," if joules is None else f"{joules / JOULES_PER_WH:.3g}"
        given = f"{budget['given_j'] / JOULES_PER_WH:.3g} Wh"
        virtual = " (simulated)" if summary.get("virtual") else ""
        yield "battery", f"{MET[budget['met']]}: {taken} of {given}{virtual}{undone}"
