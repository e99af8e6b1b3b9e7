"""Choosing: from what is believed to the next decision.

The best point where it was never measured, a look at another one where that is worth it, a baseline
window where one is due; else the best one is held.
"""

import math
from dataclasses import replace

from orin_gov.policy.asking import Asking
from orin_gov.policy.decision import Decision, State
from orin_gov.policy.objective import Objective
from orin_gov.policy.outlook import Outlook
from orin_gov.policy.plan import Plan
from orin_gov.policy.power_cap import PowerCap
from orin_gov.policy.promise import broken
from orin_gov.policy.upkeep import Upkeep

LOOKS_IN_A_ROW, LOOKS_AFTER_DRIFT = 5, 1
"""After so many looks a while is spent where it is best as far as known."""

NONE_IS_BETTER = "no operating point within the constraints is better than the board's own governor"


class Choosing:
    """Chooses for one job, from one baseline to the next start.

    `is_first` tells whether nothing is known of a job before. Where `doubts` is set, a baseline
    window that is due does not wait until a point is held. Not thread-safe.
    """

    def __init__(
        self,
        objective: Objective,
        cap: PowerCap,
        plan: Plan,
        outlook: Outlook,
        asking: Asking,
        upkeep: Upkeep,
        is_first: bool,
    ) -> None:
        self._objective, self._cap, self._plan = objective, cap, plan
        self._planned = cap.planned(objective)
        self._outlook, self._asking, self._upkeep = outlook, asking, upkeep
        self._is_first = is_first
        self._looks = self._in_vain = 0
        self.doubts = False

    def look_less(self) -> None:
        """What is known leaves less to be found than at the start."""
        self._looks = LOOKS_IN_A_ROW - LOOKS_AFTER_DRIFT

    def advice(self) -> Decision:
        """Return what would be done."""
        return self.go_to_best(State.ADVISE, "what it would do")

    def go_to_best(self, state: State, told: str) -> Decision:
        """Return the decision for what is best, whatever is known of it."""
        return self._decision(state, self._best(), told)

    def choose(self, told: str | None, held: bool) -> Decision:
        """Return the next decision; `told` is why, and `held` whether a point was held till now."""
        best, evidence = self._best(), self._outlook.evidence
        usual = evidence.reference.windows[-1]
        if self._upkeep.is_due(usual) and (held or self.doubts):
            self.doubts = False
            return Decision(State.BASELINE, None, "a baseline window, to compare with")
        if best is not None and best not in self._outlook.measured:
            self._looks += 1
            return self._decision(State.VERIFY, best, told or "expected to be better")
        look = self._outlook.look(self._planned, best, usual.steps, self._is_first)
        # As many looks as there are points, and still the same is held: more would go round.
        points = len(self._outlook.points_hz)
        if look is not None and self._looks < LOOKS_IN_A_ROW and self._in_vain < points:
            self._looks += 1
            self._in_vain += 1
            return self._decision(State.REFINE, look, "worth a look")
        self._looks = 0
        if self._outlook.hold(best):
            self._in_vain = 0
        return self._decision(State.HOLD, best, told or "within budget")

    def broken(self, place: int) -> str | None:
        """Return in words how a clock of the table has clearly not kept its promise, or None."""
        belief = self._outlook.evidence.belief
        # What a plan asks for is no promise to the user; that it asks for something else counts.
        promised = replace(self._planned, max_slowdown=self._objective.max_slowdown)
        return None if belief is None else broken(belief, promised, place)

    def _best(self) -> int | None:
        """Return the best point as planned now."""
        capped = self._cap.planned(self._objective)
        self._planned = self._plan.planned(capped, self._outlook.evidence)
        return self._outlook.best(self._planned)

    def _decision(self, state: State, point: int | None, told: str) -> Decision:
        """Return the decision for an operating point, with what is expected of it."""
        told, notice = self._plan.told(NONE_IS_BETTER if point is None else told)
        if point is None:
            return Decision(state, None, told, self._asking.path, notice=notice)
        answer = self._outlook.belief.answer
        return Decision(
            state,
            self._outlook.points_hz[point],
            told,
            self._asking.path,
            -math.expm1(answer.energy[point]),
            math.expm1(answer.time[point]),
            notice,
        )
