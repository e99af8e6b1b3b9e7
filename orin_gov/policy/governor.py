"""The governor: from each window to the next decision. Pure: it does no I/O and knows no clock.

Baseline -> Decide -> Verify -> Refine -> Hold -> (Decide on drift, Baseline now and then)
                         |
                         +-> Fallback, when a promise is missed twice
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from orin_gov.errors import PolicyError
from orin_gov.policy.features import features_of
from orin_gov.policy.objective import TIME_EXPONENT, Objective
from orin_gov.policy.reference import Reference
from orin_gov.policy.tree import Policy, walk
from orin_gov.policy.window import Window

BASELINE_WINDOWS = 2
"""Windows under the board's own governor, after one of warm-up, that freeze the reference."""

LEAST_NOISE = 0.01
"""Relative noise of a window's time and energy where its steps do not tell more."""

SURE = 2.0
"""A promise counts as missed when the miss is this many standard errors clear."""

LOOK_GAIN = 0.005
"""A neighbouring operating point must be this much better to be kept."""

MISSES_ALLOWED = 2
FIRST_BASELINE_AFTER = 3
RAREST_BASELINE = 19
"""Baseline windows recur after 3 windows, then 4, 5, ... and at last 19 (5 % of a long run)."""


class State(Enum):
    """What the governor is about while the next window is measured."""

    WARMUP = "warm-up"
    BASELINE = "baseline"
    VERIFY = "verify"
    REFINE = "refine"
    HOLD = "hold"
    FALLBACK = "fallback"
    ADVISE = "advise"
    SWEEP = "sweep"


@dataclass(frozen=True)
class Decision:
    """What the next window is run at (`target_hz` None: the board's own governor), and why."""

    state: State
    target_hz: int | None
    reason: str
    path: tuple[str, ...] = ()
    predicted_saving: float | None = None
    predicted_slowdown: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A window against the frozen reference, per unit of work; shares, None where not measured."""

    slowdown: float | None
    saving: float | None
    gain: float | None  # of the objective
    margin: float = LEAST_NOISE  # differences within it decide nothing
    coarse: float = 0.0  # the same for energy alone, from the sensors' resolution


class Governor:
    """Decides the operating point of the next window from the window just measured.

    `points_hz` is the ascending table of operating points it may choose, already within every cap;
    `set_points` follows a cap that moves.
    With `advise` it decides after every window and expects nothing to have been written.
    """

    def __init__(
        self,
        policy: Policy,
        points_hz: Sequence[int],
        objective: Objective,
        advise: bool = False,
    ) -> None:
        if objective.name != "time" and objective.name not in policy.trees:
            raise PolicyError(
                f"the policy has no tree for {objective.name!r}, only {', '.join(policy.trees)}"
            )
        self._policy = policy
        self._points = tuple(points_hz)
        self._objective = objective
        self._advise = advise
        self._state = State.WARMUP
        self._reference = Reference()
        self._misses = 0
        self._best: tuple[int, float] | None = None  # operating point and its gain
        self._tried: set[int] = set()
        self._until_baseline = self._baseline_gap = FIRST_BASELINE_AFTER

    def first(self) -> Decision:
        """Return the decision for the time before any window."""
        return Decision(State.WARMUP, None, "the board's own governor, until the job is warm")

    def decide(self, window: Window) -> Decision:
        """Return what to do next, given the window measured under the last decision."""
        if self._reference.windows and window.unit != self._reference.windows[-1].unit:
            decision = self._start_over(window)
        else:
            decision = self._next(window)
        self._state = decision.state
        return decision

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Go on with other operating points, as `told`; return what replaces the last decision.

        The board's own governor is another one under another cap, so its baseline is measured anew.
        """
        self._points = tuple(points_hz)
        self._advise = self._advise if advise is None else advise
        if self._state is State.FALLBACK:
            return Decision(State.FALLBACK, None, told)
        self._forget()
        self._state = State.BASELINE
        return Decision(State.BASELINE, None, f"{told}; measuring the board's own governor anew")

    def _start_over(self, window: Window) -> Decision:
        """Measure the baseline anew: a time per token says nothing about a time per step."""
        if self._state is State.FALLBACK:
            return self._next(window)
        self._forget()
        return Decision(
            State.BASELINE, None, f"work is now counted by {window.unit}; measuring anew"
        )

    def fall_back(self) -> None:
        """Leave the board to its own governor for good: someone else, or a fault, took it."""
        self._state = State.FALLBACK

    def outcome(self, window: Window) -> Outcome:
        """Compare `window` with the frozen reference."""
        time = self._reference.relative_time(window)
        energy = self._reference.relative_energy(window)
        value = self._objective.combine(time, energy)
        noise = math.hypot(window.noise or 0.0, self._reference.noise)
        return Outcome(
            slowdown=None if time is None else time - 1,
            saving=None if energy is None else 1 - energy,
            gain=None if value is None else 1 - value,
            margin=max(LEAST_NOISE, SURE * noise),
            coarse=SURE * math.hypot(window.coarseness or 0.0, self._reference.coarseness),
        )

    def _forget(self) -> None:
        self._reference = Reference()
        self._best = None
        self._misses = 0

    def _next(self, window: Window) -> Decision:
        if self._state is State.FALLBACK:
            return Decision(State.FALLBACK, None, "the board's own governor to the end")
        if self._state is State.WARMUP:
            return Decision(State.BASELINE, None, "warm; measuring the board's own governor")
        if self._state in (State.BASELINE, State.ADVISE):
            return self._after_baseline(window)
        return self._after_target(window)

    def _after_baseline(self, window: Window) -> Decision:
        if self._best is not None and not self._advise:
            return self._hold(window, "baseline seen again; back to the best point")
        if window.work and self._objective.value(window) is None and not self._advise:
            told = "energy was not measured"
            again = Decision(State.BASELINE, None, f"{told}; measuring the baseline again")
            return self._missed(told) or again
        if len(self._reference.windows) < BASELINE_WINDOWS:
            self._misses = 0
            self._reference.add(window)
            if len(self._reference.windows) < BASELINE_WINDOWS:
                return Decision(State.BASELINE, None, "measuring the board's own governor")
        return self._decide(window)

    def _decide(self, window: Window) -> Decision:
        """Ask the tree, and go where it says."""
        state = State.ADVISE if self._advise else State.VERIFY
        self._tried.clear()
        if self._objective.name == "time":
            target = self._points[-1]
            return Decision(state, target, "objective time: the highest operating point")
        features = features_of(window, self._points[-1], self._objective.max_slowdown)
        found = walk(self._policy.trees[self._objective.name], features)
        target = self._snap(found.leaf.frequency_hz)
        return Decision(
            state, target, "the tree", found.path, found.leaf.saving, found.leaf.slowdown
        )

    def _after_target(self, window: Window) -> Decision:
        target = window.target_hz
        if target is None:
            return self._decide(window)
        outcome = self.outcome(window)
        if self._objective.over_power(window):
            return self._slower(target, window)
        if outcome.gain is None:
            return self._miss("energy or time was not measured", target, target)
        if (outcome.slowdown or 0.0) > self._objective.max_slowdown + outcome.margin:
            return self._over_budget(target, outcome)
        # Energy scatters as time does, and the objective as energy times a power of time.
        margin = outcome.margin * (1 + TIME_EXPONENT.get(self._objective.name, 0))
        margin = max(margin, outcome.coarse)
        if outcome.gain < -margin and not self._power_bound():
            return self._miss(f"{-outcome.gain:.1%} worse than the baseline", target)
        self._misses = 0
        return self._within_promise(target, outcome.gain, max(LOOK_GAIN, outcome.coarse), window)

    def _within_promise(
        self, target: int, gain: float, least_gain: float, window: Window
    ) -> Decision:
        self._tried.add(target)
        if self._best is None or self._state is State.VERIFY or gain > self._best[1] + least_gain:
            better = self._best is None or target != self._best[0]
            self._best = (target, gain)
            if better and (neighbour := self._neighbour(target)) is not None:
                return Decision(
                    State.REFINE, neighbour, f"{_gained(gain)}; is its neighbour better?"
                )
        elif target == self._best[0]:
            self._best = (target, gain)  # holding: keep the gain current
        return self._hold(window, f"{_gained(self._best[1])}, within budget")

    def _hold(self, window: Window, reason: str) -> Decision:
        assert self._best is not None
        if window.target_hz is not None:
            self._until_baseline -= 1
        if self._until_baseline <= 0:
            self._baseline_gap = min(self._baseline_gap + 1, RAREST_BASELINE)
            self._until_baseline = self._baseline_gap
            return Decision(State.BASELINE, None, "a baseline window, to compare with")
        return Decision(State.HOLD, self._best[0], reason)

    def _over_budget(self, target: int, outcome: Outcome) -> Decision:
        self._tried.add(target)
        slowdown = outcome.slowdown or 0.0
        told = f"{slowdown:.1%} slower, over the budget of {self._objective.max_slowdown:.1%}"
        # Time falls at most in proportion to the clock: no lower point can be enough.
        needed = target * (1 + slowdown) / (1 + self._objective.max_slowdown)
        faster = next((hz for hz in self._points if hz >= needed and hz > target), None)
        if self._best is not None and target == self._best[0]:
            self._best = None
        return self._miss(told, target, faster)

    def _slower(self, target: int, window: Window) -> Decision:
        lower = [hz for hz in self._points if hz < target]
        told = f"{window.power_w:.1f} W, over the cap of {self._objective.power_cap_w:.1f} W"
        self._tried.add(target)
        self._best = None
        if not lower:
            # The board's own governor, at a higher clock, would be further over.
            return Decision(State.VERIFY, target, f"{told}, at the lowest operating point")
        return Decision(State.VERIFY, lower[-1], told)

    def _power_bound(self) -> bool:
        # Under a power cap the baseline may be cheaper per unit of work and still not be allowed.
        return self._objective.power_cap_w is not None and any(
            self._objective.over_power(window) for window in self._reference.windows
        )

    def _miss(self, told: str, target: int, instead: int | None = None) -> Decision:
        if self._state is State.REFINE and self._best is not None:
            # A look that found nothing breaks no promise.
            return Decision(State.HOLD, self._best[0], f"{told}; back")
        if instead is None:
            instead = next((hz for hz in self._points if hz > target), target)
        other = Decision(State.VERIFY, instead, f"{told}; trying {instead / 1e6:.0f} MHz")
        return self._missed(told) or other

    def _missed(self, told: str) -> Decision | None:
        """Count a miss; return the fallback where it is one too many."""
        self._misses += 1
        if self._misses < MISSES_ALLOWED:
            return None
        return Decision(State.FALLBACK, None, f"{told}; missed twice, falling back")

    def _neighbour(self, target: int) -> int | None:
        index = self._points.index(target)
        # Downwards first: the energy optimum of a budgeted job lies at or below the tree's choice.
        near = [self._points[i] for i in (index - 1, index + 1) if 0 <= i < len(self._points)]
        return next((hz for hz in near if hz not in self._tried), None)

    def _snap(self, frequency_hz: float) -> int:
        """Return the nearest operating point; a frequency between two is never written."""
        return min(self._points, key=lambda hz: abs(hz - frequency_hz))


def _gained(gain: float) -> str:
    return f"{gain:.1%} gained" if gain >= 0 else f"{-gain:.1%} lost, within the noise"
