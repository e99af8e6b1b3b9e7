"""The governor: from each window to the next decision. Pure: it does no I/O and knows no clock.

Baseline -> Decide -> Verify -> Refine -> Hold -> (Baseline now and then, Decide on drift)
                         |
                         +-> Fallback for a while, when a promise is missed twice
"""

from collections.abc import Sequence

from orin_gov.policy.answer import Answer, answer_at_clocks
from orin_gov.policy.asking import Asking
from orin_gov.policy.choosing import Choosing
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.evidence import Evidence
from orin_gov.policy.fallback import Fallback
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.outlook import Outlook
from orin_gov.policy.plan import Plan
from orin_gov.policy.power_cap import PowerCap
from orin_gov.policy.promise import over_cap
from orin_gov.policy.saving import Expected
from orin_gov.policy.sound import sound
from orin_gov.policy.tree import Leaf, Policy
from orin_gov.policy.upkeep import BASELINE_SHARE, Upkeep
from orin_gov.policy.window import Window

BASELINE_WINDOWS = 2
"""Windows under the board's own governor, after one of warm-up, that freeze the reference."""

DOUBT = 0.03
"""How far, then, every operating point may have moved (standard deviation, relative)."""


class Governor:
    """Decides the operating point of the next window from the window just measured.

    `points_hz` is the ascending table of operating points it may choose, already within every cap,
    and `top_hz` the top of the board's table, to which clocks are relative; `set_points` follows a
    cap that moves. With `advise` it decides after every window and expects nothing to have been
    written. `baseline_share` is the share of steps for recurring baseline windows, at most.
    """

    def __init__(
        self,
        policy: Policy,
        points_hz: Sequence[int],
        objective: Objective,
        advise: bool = False,
        top_hz: int | None = None,
        baseline_share: float = BASELINE_SHARE,
    ) -> None:
        self._policy, self._objective, self._advise = policy, objective, advise
        self._cap, self._plan = PowerCap(), Plan(objective)
        self._table = self._points = tuple(points_hz)
        self._known_top_hz = top_hz
        self._top_hz = top_hz or self._points[-1]
        self._share = baseline_share
        self._fallback = Fallback()
        self._exponent = TIME_EXPONENT.get(objective.name, 0)
        self._state = State.WARMUP
        self._baseline_windows = BASELINE_WINDOWS
        self._lesson: Answer | None = None
        self._evidence: Evidence
        self._begin()

    def first(self) -> Decision:
        """Return the decision for the time before any window."""
        return Decision(State.WARMUP, None, "the board's own governor, until the job is warm")

    def decide(self, window: Window) -> Decision:
        """Return what to do next, given the window measured under the last decision."""
        window = sound(window)
        self._cap.see(window)
        self._plan.see(window, self._evidence)
        decision = self._next(window)
        self._state = decision.state
        return decision

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Go on with other operating points, as `told`; return what replaces the last decision.

        The board's own governor is another one under another cap, so its baseline is measured anew.
        """
        self._advise = self._advise if advise is None else advise
        self._learn()
        before: Evidence | None = self._evidence
        self._points = tuple(points_hz)
        if not set(points_hz) <= set(self._table):
            if self._lesson is not None:
                self._lesson = answer_at_clocks(self._table, self._lesson, points_hz)
            self._table, before = self._points, None
            self._top_hz = self._known_top_hz or self._points[-1]
        decision = self._start_over(told, before)
        if self._state is State.FALLBACK:
            return Decision(State.FALLBACK, None, told)
        self._state = decision.state
        return decision

    def fall_back(self) -> None:
        """Leave the board to its own governor for good: someone else, or a fault, took it."""
        self._state = State.FALLBACK
        self._fallback.for_good()

    def believed_top(self) -> Expected | None:
        """What is believed of the highest operating point; None before anything is."""
        belief = self._evidence.belief
        return None if belief is None else belief.expected(len(self._table) - 1, self._table[-1])

    def outcome(self, window: Window) -> Outcome:
        """Compare `window` with the board's own governor as it is now."""
        return self._evidence.outcome(sound(window), self._objective)

    def _begin(self, before: Evidence | None = None) -> None:
        self._evidence = Evidence(self._lesson, before)
        self._outlook = Outlook(self._evidence, self._table, self._points)
        self._asking = Asking(self._policy, self._top_hz, self._objective.max_slowdown)
        self._upkeep = Upkeep(self._share)
        is_first = self._lesson is None
        aims = self._objective, self._cap, self._plan
        self._choosing = Choosing(*aims, self._outlook, self._asking, self._upkeep, is_first)
        self._other: tuple[Window, int] | None = None
        self._surprises = 0

    def _learn(self) -> None:
        if self._evidence.belief is not None:
            self._lesson = self._evidence.belief.lesson

    def _start_over(self, told: str, before: Evidence | None = None) -> Decision:
        """Measure anew; `before` is what is known of the same job."""
        if before is None:
            self._learn()
        self._begin(before)
        if self._lesson is not None:
            self._baseline_windows = 1
            self._choosing.look_less()
        return Decision(State.BASELINE, None, f"{told}; measuring the board's own governor anew")

    def _next(self, window: Window) -> Decision:
        if self._state is State.FALLBACK:
            return self._fallback.sit_out() or self._start_over("trying again")
        if self._state is State.WARMUP:
            return Decision(State.BASELINE, None, "warm; measuring the board's own governor")
        if not window.work or not window.duration_s > 0:
            return self._once_more(window.target_hz, "no work was seen")
        if self._evidence.is_other_unit(window):
            return self._start_over(f"work is now counted by {window.unit}")
        # Until the reference is frozen, steps of other lengths only make it better.
        if self._evidence.belief is not None and self._evidence.is_other_work(window):
            return self._with_other_work(window)
        if self._objective.value(window) is None and not self._advise:
            again = self._once_more(window.target_hz, "energy was not measured")
            return self._fallback.missed("energy was not measured") or again
        if self._evidence.belief is None:
            return self._after_baseline(window)
        if self._advise:
            self._expect(self._asking.ask(window))
            return self._choosing.advice()
        return self._after(window)

    def _once_more(self, target_hz: int | None, told: str) -> Decision:
        """Measure at the same operating point again."""
        governed = self._state is not State.BASELINE and target_hz in self._points
        return Decision(self._state, target_hz if governed else None, f"{told}; once more")

    def _after_baseline(self, window: Window) -> Decision:
        self._fallback.kept()
        self._evidence.add_baseline(window)
        if len(self._evidence.reference.windows) < self._baseline_windows:
            return Decision(State.BASELINE, None, "measuring the board's own governor")
        leaf = self._asking.ask(window)
        if not self._evidence.rebase():
            self._expect(leaf)
        if self._other is not None and not self._evidence.is_other_work(self._other[0]):
            self._evidence.observe(*self._other)
        self._other = None
        return self._choosing.advice() if self._advise else self._choose("the tree")

    def _expect(self, leaf: Leaf) -> None:
        """Expect what the leaf says."""
        clocks = [hz / self._top_hz for hz in self._table]
        self._evidence.believe(self._policy, leaf, clocks)

    def _with_other_work(self, window: Window) -> Decision:
        """Start over, and keep what the window has already measured of the new work."""
        others, target = self._evidence.other_work_of(window), window.target_hz
        decision = self._start_over("the steps' work has changed")
        if others is not None and target in self._table:
            self._other = others, self._table.index(target)
        if others is not None and target is None and others.steps == window.steps:
            return self._after_baseline(window)
        return decision

    def _after(self, window: Window) -> Decision:
        """Take a window in, and go on from what is believed then."""
        target = window.target_hz
        if target is not None and target not in self._points:
            return self._choosing.go_to_best(State.VERIFY, "another operating point was measured")
        point = None if target is None else self._table.index(target)
        known = point is None or point in self._evidence.measured
        off = self._evidence.observe(window, point)
        if point is None:
            self._upkeep.pay(window)
        else:
            self._upkeep.add(window, self._outlook.gain_error(self._exponent))
        if off is not None:
            return self._surprised(window) if known else self._look_again(point, off)
        if self._state is State.HOLD and self._asking.leads_elsewhere(window):
            self._expect(self._asking.ask(window))
            return self._choose("the tree leads elsewhere now")
        if point is not None and self._objective.over_power(window):
            lowest = target == self._points[0]
            return self._choose(over_cap(self._objective, lowest, window))
        if point is not None and self._state is not State.REFINE:
            if told := self._choosing.broken(point):
                if missed := self._fallback.missed(told):
                    return missed
                if self._outlook.holds:
                    return Decision(State.BASELINE, None, f"{told}; is it the machine?")
                return self._choose(told)
            self._fallback.kept()
            self._surprises = 0 if self._state is State.HOLD else self._surprises
        return self._choose(None)

    def _surprised(self, window: Window) -> Decision:
        """What is measured at a known point no longer fits: look at the baseline, or start over."""
        self._surprises += 1
        if self._surprises > 1:
            decision = self._start_over("the job has changed")
            return self._after_baseline(window) if window.target_hz is None else decision
        self._evidence.doubt(DOUBT)
        self._choosing.look_less()
        return Decision(State.BASELINE, None, "this window does not fit the others; a baseline")

    def _look_again(self, point: int | None, off: float) -> Decision:
        """What was never measured is not as expected at all: believe it if it comes again.

        Then comes a baseline window, since the reference may be what is wrong.
        """
        assert point is not None
        assert self._evidence.belief is not None
        self._evidence.belief.widen_at(point, off)
        self._upkeep.demand(self._evidence.reference.windows[-1])
        self._choosing.doubts = True
        return self._once_more(self._table[point], "far from what was expected")

    def _choose(self, told: str | None) -> Decision:
        return self._choosing.choose(told, self._state is State.HOLD)
