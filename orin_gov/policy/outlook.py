"""The outlook: of the points that may be chosen, the best as believed, and one worth a look."""

from collections.abc import Sequence

from orin_gov.policy.belief import Belief
from orin_gov.policy.choice import HYSTERESIS, best_point, promising_neighbour, worth_a_look
from orin_gov.policy.evidence import Evidence
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.promise import keeps


class Outlook:
    """Evidence over a table of clocks, seen from the `points_hz` of it that may be chosen.

    Points are indices into `points_hz`, ascending; None is the board's own governor.
    Not thread-safe.
    """

    def __init__(
        self, evidence: Evidence, table_hz: Sequence[int], points_hz: Sequence[int]
    ) -> None:
        self.evidence, self.points_hz = evidence, points_hz
        self._places = [table_hz.index(hz) for hz in points_hz]
        self._sees_all = len(points_hz) == len(table_hz)
        self._held: int | None = None
        self.holds = False

    def hold(self, point: int | None) -> bool:
        """This one is held from now on; tell whether another one was before."""
        changed = self.holds and self._held != point
        self._held, self.holds = point, True
        return changed

    @property
    def belief(self) -> Belief:
        """What is believed of the points, once the reference is frozen."""
        assert self.evidence.belief is not None
        belief = self.evidence.belief
        return belief if self._sees_all else belief.of(self._places)

    @property
    def measured(self) -> set[int]:
        """Which of the points were measured."""
        places = self.evidence.measured
        return {point for point, place in enumerate(self._places) if place in places}

    def best(self, objective: Objective) -> int | None:
        """Return the point that is best as believed; the held one where it is about as good."""
        belief, held = self.belief, self._held
        baseline_w = self.evidence.baseline_power_w()
        best = best_point(belief, objective, baseline_w)
        if not self.holds or held == best or objective.name == "time":
            return best
        if held is not None and not keeps(belief, objective, held, baseline_w):
            return best
        exponent = TIME_EXPONENT[objective.name]
        values = belief.objective(exponent)
        at_held, at_best = (0.0 if each is None else values[each] for each in (held, best))
        other, one = (best, held) if best is not None else (held, None)
        error = belief.difference_error(exponent, one)[other]
        return held if at_held <= at_best + HYSTERESIS + error else best

    def look(
        self, objective: Objective, best: int | None, steps: int, is_first: bool
    ) -> int | None:
        """Return a point that is worth a look of so many steps, rather than going on at `best`.

        At a run's first settling (`is_first`) the best one's neighbours are looked at to be sure.
        """
        belief, power_w = self.belief, self.evidence.baseline_power_w()
        if is_first and not self.holds and best is not None:
            near = promising_neighbour(belief, objective, power_w, best, self.measured)
            if near is not None:
                return near
        least = HYSTERESIS if self.holds else 0.0
        error = self.evidence.look_error(steps)
        return worth_a_look(belief, objective, power_w, best, error, least)

    def gain_error(self, exponent: int) -> float | None:
        """How well the gain of what is held is known on a steady machine, else None."""
        if self.evidence.belief is None or self._held is None or not self.evidence.is_steady:
            return None
        return float(self.belief.difference_error(exponent, None)[self._held])
