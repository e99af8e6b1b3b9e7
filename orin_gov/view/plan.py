"""Deadline and energy budget in words, for the summary."""

from collections.abc import Iterable, Mapping
from typing import Any

from orin_gov.policy.plan import JOULES_PER_WH, span_words

MET = {True: "met", False: "missed", None: "unknown"}


def plan_words(objective: Mapping[str, Any]) -> str:
    """Return what a run's plan was: its steps, by when, with how much energy."""
    words = [f"{objective['steps']} steps"]
    if deadline_s := objective.get("deadline_s"):
        words.append(f"within {span_words(deadline_s)}")
    if budget_j := objective.get("energy_budget_j"):
        words.append(f"with {budget_j / JOULES_PER_WH:.3g} Wh")
    return ", ".join(words)


def plan_lines(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield label and words of what was planned and what it came to."""
    planned, steps = summary.get("steps_planned"), summary["steps"]
    undone = f"; {steps} of {planned} steps" if planned and steps < planned else ""
    if deadline := summary.get("deadline"):
        taken, given = span_words(deadline["taken_s"]), span_words(deadline["given_s"])
        yield "deadline", f"{MET[deadline['met']]}: {taken} of {given}{undone}"
    if budget := summary.get("energy_budget"):
        joules = budget["taken_j"]
        taken = "not measured," if joules is None else f"{joules / JOULES_PER_WH:.3g}"
        given = f"{budget['given_j'] / JOULES_PER_WH:.3g} Wh"
        yield "battery", f"{MET[budget['met']]}: {taken} of {given}{undone}"
