"""Whether a run has kept its deadline and its energy budget."""

from typing import Any

from orin_gov.policy.objective import Objective


def kept_plan(
    objective: Objective, lasted_s: float, spent_j: float | None, steps: int
) -> dict[str, Any]:
    """Return the figures of the plan for the summary; empty where there was none.

    `lasted_s` is the script's time and `spent_j` the module's energy in it, None where not
    measured. With fewer steps than planned nothing is kept.
    """
    found: dict[str, Any] = {}
    if objective.steps is None:
        return found
    done = steps >= objective.steps
    found["steps_planned"] = objective.steps
    if objective.deadline_s is not None:
        found["deadline"] = {
            "given_s": objective.deadline_s,
            "taken_s": lasted_s,
            "met": done and lasted_s <= objective.deadline_s,
        }
    if objective.energy_budget_j is not None:
        met = None if spent_j is None else done and spent_j <= objective.energy_budget_j
        found["energy_budget"] = {
            "given_j": objective.energy_budget_j,
            "taken_j": spent_j,
            "met": met,
        }
    return found
