"""The plan: what a deadline and an energy budget leave of the slowdown, anew after every window.

The rest of the job is taken to be like what was seen of it: so many seconds and joules a step under
the board's own governor, times what is believed of an operating point, and as much between steps.
"""

import math
from dataclasses import replace

import numpy as np

from orin_gov.policy.answer import Floats
from orin_gov.policy.belief import Belief
from orin_gov.policy.choice import ONE_IN_20, best_point, within_power
from orin_gov.policy.evidence import Evidence
from orin_gov.policy.objective import Objective
from orin_gov.policy.pace import Pace
from orin_gov.policy.promise import SURE
from orin_gov.policy.window import Window

RESERVE = 0.01
"""This share of the time and of the energy given is not planned with."""

EASED = 0.01
"""What was short counts as short until there is so much more than it takes."""

CLEAR = 0.02
"""Short by less than this share is not told as impossible: it may still turn out well."""

JOULES_PER_WH = 3600.0


class Plan:
    """Tightens an objective to what finishes in time and with the energy there is.

    Without a deadline, an energy budget or a known number of steps it leaves the objective as it
    is. The user's slowdown budget holds in any case. Not thread-safe.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._pace = Pace()
        self._words: list[str] = []
        self._notices: list[str] = []
        self._told: set[str] = set()
        self._saves = False
        self.hurries = False

    def see(self, window: Window, evidence: Evidence) -> None:
        """Learn from a window how the job goes."""
        if self._objective.steps is not None:
            self._pace.see(window, evidence)

    def planned(self, objective: Objective, evidence: Evidence) -> Objective:
        """Return `objective` with the slowdown allowed by the plan, from what is believed now."""
        self._words = []
        belief, steps = evidence.belief, self._steps_left()
        if belief is None or not steps or not self._pace.is_known:
            self.hurries = False
            return objective
        baseline_w = evidence.baseline_power_w()
        if objective.deadline_s is not None:
            objective = self._in_time(objective, belief, baseline_w, steps)
        if objective.energy_budget_j is not None:
            objective = self._within_energy(objective, belief, baseline_w, steps)
        return objective

    def told(self, reason: str) -> tuple[str, str | None]:
        """Return the reason with what binds, and what is to be told, once, of the impossible."""
        # What was found when a baseline window was due waits for the next decision.
        notices, self._notices = self._notices, []
        return "; ".join([reason, *(notices or self._words)]), "; ".join(notices) or None

    def _steps_left(self) -> int:
        if self._objective.steps is None or self._pace.last is None:
            return 0
        return max(0, self._objective.steps - self._pace.last.steps)

    def _left_s(self, deadline_s: float) -> float:
        assert self._pace.last is not None
        last = self._pace.last
        return deadline_s - last.elapsed_s - last.asleep_s - self._pace.longest_pause_s

    def _in_time(
        self, objective: Objective, belief: Belief, baseline_w: float | None, steps: int
    ) -> Objective:
        assert objective.deadline_s is not None
        pace, left_s = self._pace, self._left_s(objective.deadline_s)
        own_s = steps * pace.step_s * math.exp(belief.machine[1])
        between_s = steps * pace.between_s
        plannable_s = left_s - RESERVE * objective.deadline_s - between_s
        slowdown = plannable_s / own_s - 1
        self.hurries = slowdown < (EASED if self.hurries else 0.0)
        power = within_power(belief, objective, baseline_w) > 0
        times = np.where(power, belief.answer.time, np.inf)
        fastest = int(times.argmin()) if power.any() else 0
        fastest_s = own_s * math.exp(belief.answer.time[fastest]) + between_s
        if fastest_s > left_s * (1 + CLEAR + pace.error + SURE * belief.time_error[fastest]):
            self._tell(
                "deadline",
                f"the deadline cannot be kept: {steps} steps take {span_words(fastest_s)} at the "
                f"fastest, and {span_words(left_s)} are left; running as fast as can be",
            )
        if self.hurries:
            self._words.append(f"{span_words(left_s)} left for {steps} steps: as fast as can be")
            return replace(objective, name="time")
        if objective.name == "time" or slowdown >= objective.max_slowdown:
            return objective
        self._words.append(
            f"{span_words(left_s)} left for {steps} steps: at most {slowdown:.1%} slower"
        )
        return replace(objective, max_slowdown=slowdown)

    def _within_energy(
        self, objective: Objective, belief: Belief, baseline_w: float | None, steps: int
    ) -> Objective:
        assert objective.energy_budget_j is not None
        assert self._pace.last is not None
        pace, spent_j = self._pace, self._pace.last.spent_j
        if spent_j is None or pace.step_j is None:
            self._tell("energy", "the energy budget cannot be planned: energy is not measured")
            return objective
        left_j = objective.energy_budget_j - spent_j - pace.largest_pause_j
        plannable_j = left_j - RESERVE * objective.energy_budget_j
        own_j = steps * pace.step_j * math.exp(belief.machine[0])
        between_j = steps * pace.between_j
        # The board's own governor is the last of the points; it keeps no power cap.
        own_fits = objective.power_cap_w is None
        times = np.append(belief.answer.time, 0.0)
        needs_j = own_j * np.exp(np.append(belief.answer.energy, 0.0)) + between_j
        open_to = np.append(within_power(belief, objective, baseline_w) > 0, own_fits)
        chosen = best_point(belief, objective, baseline_w)
        chosen = len(times) - 1 if chosen is None else chosen
        need_j = needs_j[chosen]
        self._saves = bool(need_j > plannable_j / (1 + EASED if self._saves else 1))
        if not self._saves:
            return objective
        enough = open_to & (needs_j <= plannable_j)
        allowed = times <= math.log1p(objective.max_slowdown)
        if self.hurries or not (enough & allowed).any():
            if not self.hurries:
                chosen = int(np.where(open_to & allowed, needs_j, needs_j[-1]).argmin())
            known = chosen == len(times) - 1  # the board's own is what all is compared with
            error = 0.0 if known else SURE * belief.expected(chosen, 0).energy_error
            if needs_j[chosen] > left_j * (1 + CLEAR + pace.error + error):
                self._tell("energy", self._short(steps, left_j, needs_j[chosen], times[enough]))
            return objective if self.hurries else replace(objective, name="energy")
        errors = np.append(belief.time_error, 0.0)
        fastest = int(np.where(enough & allowed, times, np.inf).argmin())
        slowdown = math.expm1(max(0.0, times[fastest]) + ONE_IN_20 * errors[fastest])
        slowdown = min(objective.max_slowdown, slowdown)
        self._words.append(
            f"{left_j / JOULES_PER_WH:.3g} Wh left for {steps} steps: {slowdown:.1%} slower to save"
        )
        return replace(objective, name="energy", max_slowdown=slowdown)

    def _short(self, steps: int, left_j: float, need_j: float, slower: Floats) -> str:
        told = (
            f"the energy budget cannot be kept: {steps} steps take {need_j / JOULES_PER_WH:.3g} Wh "
            f"within what is allowed, and {left_j / JOULES_PER_WH:.3g} Wh are left"
        )
        if len(slower):
            return f"{told}; it would suffice at {math.expm1(min(slower)):.0%} slower"
        assert self._pace.last is not None
        reached = self._pace.last.steps + int(steps * max(0.0, left_j) / need_j)
        return f"{told}, which reach step {reached} or so"

    def _tell(self, what: str, notice: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._notices.append(notice)


def span_words(seconds: float) -> str:
    """Return a span of time for people, its two largest units."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
