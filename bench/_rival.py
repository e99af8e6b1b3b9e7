"""How a rival goes about a job: a baseline where it needs one, a search, then the point it found.

Rivals are open loop once they have found: they look at nothing again but when the operating points
change, which starts the search anew.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.governor import BASELINE_WINDOWS
from orin_gov.policy.objective import Objective
from orin_gov.policy.reference import Reference
from orin_gov.policy.window import Window


@dataclass(frozen=True)
class Trial:
    """One operating point as measured for one window, relative to the baseline's windows.

    `value` is the `objective` where the slowdown is within the budget; a point over it has one above
    all that keep it, the higher the slower, so that a search along the clock still sees one valley.
    """

    value: float
    slowdown: float
    objective: float


Search = Generator[int, Trial, int]
"""Yields the next point to measure (Hz), is sent its trial, and returns the point to keep."""

Plan = Callable[[Sequence[int], Sequence[Window]], Search]
"""Begins a search over points (ascending), given the windows under the board's own governor."""

_OVER_BUDGET = 10.0


class Rival:
    """A decider that follows a plan after so many `windows`, and `steps`, of warm-up and baseline.

    The default is what our own governor measures before it asks its tree.
    """

    def __init__(
        self,
        points_hz: Sequence[int],
        objective: Objective,
        plan: Plan,
        windows: int = 1 + BASELINE_WINDOWS,
        steps: int = 0,
    ) -> None:
        self._points, self._objective, self._plan = tuple(points_hz), objective, plan
        self._least, self._least_steps = windows, steps
        self._search: Search | None = None
        self._baseline: list[Window] = []
        self._reference = Reference()
        self._kept: Decision | None = None

    def first(self) -> Decision:
        """The board's own governor, or the point at once where no window is needed."""
        if not self._least:
            return self._begin()
        return Decision(State.WARMUP, None, "the board's own governor, until the job is warm")

    def outcome(self, window: Window) -> Outcome:
        """Nothing: a rival compares for itself."""
        return Outcome(None, None, None)

    def fall_back(self) -> None:
        """Leave the board to its own governor."""
        self._kept = Decision(State.FALLBACK, None, "the board's own governor")

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Search anew among other points."""
        self._points = tuple(points_hz)
        self._search, self._kept = None, None
        self._baseline.clear()
        self._reference = Reference()
        if not self._least:
            return self._begin()
        return Decision(State.BASELINE, None, told)

    def decide(self, window: Window) -> Decision:
        """Go on with the search, or stay where it has ended."""
        if self._kept is not None:
            return self._kept
        if self._search is not None:
            return self._go_on(self._search, self._trial(window))
        self._baseline.append(window)
        steps = sum(each.steps for each in self._baseline)
        if len(self._baseline) < self._least or steps < self._least_steps:
            return Decision(State.BASELINE, None, "measuring the board's own governor")
        return self._begin()

    def _begin(self) -> Decision:
        for window in self._baseline[1:]:  # the first one is warm-up
            self._reference.add(window)
        self._search = self._plan(self._points, self._baseline)
        return self._go_on(self._search, None)

    def _go_on(self, search: Search, trial: Trial | None) -> Decision:
        try:
            target = next(search) if trial is None else search.send(trial)
        except StopIteration as ended:
            self._kept = Decision(State.HOLD, ended.value, "the search has ended")
            return self._kept
        return Decision(State.SWEEP, target, "searching")

    def _trial(self, window: Window) -> Trial:
        time = self._reference.relative_time(window)
        energy = self._reference.relative_energy(window)
        value = self._objective.combine(time, energy)
        assert time is not None, "a rival needs steps"
        assert value is not None, "a rival needs their energy"
        over = time - 1 > self._objective.max_slowdown
        return Trial(_OVER_BUDGET + time if over else value, time - 1, value)
