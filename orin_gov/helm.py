"""The helm, a run's hand on the clock: asks, sees what came of it, respects others, lets go."""

import errno
import logging
import time
from collections import deque
from collections.abc import Sequence

from orin_gov._actuator import Transition
from orin_gov.board.gpu import Range
from orin_gov.control import Control
from orin_gov.errors import BoardError
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision, State
from orin_gov.standstill import Standstill
from orin_gov.tally import told_once

logger = logging.getLogger(__name__)

LOOK_NS = 1_000_000_000
"""How often the board's limits are looked at for another writer's hand."""

WAKING_NS = 5_000_000_000
"""How long after a suspend a driver may still be coming back."""

MOST_ADOPTIONS, AGAIN_NS = 3, 3600 * 10**9
"""Who sets the same limits more often than this in an hour writes against us, and may have them."""

MOST_REFUSALS = 2
"""Clocks in a row that did not come before the board is left to itself."""


class Helm:
    """Control of the clock while it is held, and the governor's operating points with it.

    What has happened is added to `warnings`. Without control it holds nothing and does nothing.
    Thread-safety: none, the engine's thread owns it.
    """

    def __init__(
        self,
        control: Control | None,
        governor: Decider,
        points_hz: Sequence[int],
        warnings: list[str],
    ) -> None:
        self._control, self._governor = control, governor
        self._points, self._warnings = tuple(points_hz), warnings
        self._looked_ns = time.monotonic_ns()
        self._standstill, self._woke_ns = Standstill(self._looked_ns), -WAKING_NS
        self._adopted: deque[tuple[int, Range]] = deque(maxlen=10 * MOST_ADOPTIONS)
        self._refusals = 0
        self._clock_before_hz: int | None = None

    @property
    def holds(self) -> bool:
        """Whether the clock is ours to set."""
        return self._control is not None

    @property
    def limits_hz(self) -> tuple[int, int] | None:
        """The lowest and the highest operating point there is to choose, None without any."""
        return (self._points[0], self._points[-1]) if self._points else None

    @property
    def limits(self) -> Range | None:
        """The board's own limits, or None where the clock is not ours: then they stand there."""
        control = self._control
        return control.original if control is not None else None

    def take(
        self, control: Control, table_hz: Sequence[int], points_hz: Sequence[int], told: str
    ) -> Decision:
        """Take over with a control that has come late, because `told`.

        Of its table the board's cap may leave only these points.
        """
        self._control, self._points = control, tuple(points_hz)
        self.note(f"{told} and is governed from then on")
        decision = self._governor.set_points(table_hz, told, advise=False)
        if len(points_hz) < len(table_hz):
            decision = self._governor.set_points(self._points, told)
        return decision

    def note(self, told: str) -> None:
        """Add a warning."""
        told_once(self._warnings, told)

    def wake(self, now_ns: int) -> None:
        """Expect for a while that the GPU, which was suspended, begins with its own limits."""
        self._woke_ns, self._looked_ns = now_ns, now_ns - LOOK_NS

    def request(self, target_hz: int | None, clock_hz: int | None) -> Decision | None:
        """Ask for an operating point, or with None for the board's range; `clock_hz` is now's.

        Returns what to do instead where it cannot be asked for: nothing is written that the journal
        does not hold.
        """
        assert self._control is not None
        self._clock_before_hz = clock_hz
        try:
            self._control.request(target_hz)
        except BoardError as error:
            return self._give_up(str(error))
        return None

    def transitions(self) -> list[Transition]:
        """Return the frequency changes that have finished since the last call."""
        return self._control.transitions() if self._control else []

    def judge(self, transition: Transition) -> Decision | None:
        """Return None where a change took effect, else what to do instead."""
        if has_come(transition) or self._control is None:
            if transition.min_hz == transition.max_hz:  # a clock; a way back is no proof of one
                self._refusals = 0
            return None
        if self._renew():
            return None
        return self.respect_others() or self._close(transition)

    def look(self, now_ns: int) -> Decision | None:
        """Look for another writer once a second: the ends of epochs may be minutes apart."""
        if now_ns - self._looked_ns < LOOK_NS:
            return None
        self._looked_ns = now_ns
        self._notice_suspend(now_ns)
        return self.respect_others()

    def respect_others(self) -> Decision | None:
        """Adopt another writer's limits and plan within them: never fight, never lift a cap."""
        if self._control is None:
            return None
        try:
            found = self._control.foreign_range()
            if found is None or self._renew():
                return None
            limits, cooled = self._control.adopt(found), self._control.is_cooled()
        except BoardError as error:
            return self._give_up(str(error))
        if not cooled:  # heat comes and goes, and writes against nobody
            self._adopted.append((time.monotonic_ns(), limits))
        who = "heat caps the GPU: it has" if cooled else "another writer set"
        told = f"{who} {found.min_hz / 1e6:.0f}-{found.max_hz / 1e6:.0f} MHz"
        since_ns = time.monotonic_ns() - AGAIN_NS
        if (
            sum(at_ns > since_ns and each == limits for at_ns, each in self._adopted)
            > MOST_ADOPTIONS
        ):
            return self._give_up(f"{told}, again and again")
        return self._replan(self._control.points(limits), told)

    def _renew(self) -> bool:
        """Ask again for what the GPU has forgotten while it was suspended; tell whether it had."""
        now_ns = time.monotonic_ns()
        self._notice_suspend(now_ns)  # what is found now may be what one of a moment ago has left
        if self._control is None or now_ns - self._woke_ns > WAKING_NS:
            return False
        try:
            renewed = self._control.renew()
        except BoardError:
            return False  # the limits cannot be read: that is found out, and told, elsewhere
        if renewed:
            self.note("the GPU had forgotten its limits while suspended; they were written again")
        return renewed

    def _notice_suspend(self, now_ns: int) -> None:
        pause = self._standstill.look(now_ns)
        if pause is not None and pause.suspended:
            self._woke_ns = now_ns

    def _close(self, transition: Transition) -> Decision:
        """Close the operating points that cannot be had."""
        if transition.errno == errno.ECANCELED:  # another's cap was in the way, and is gone again
            return self._replan(self._points, "another writer's cap has come and gone")
        told = _refusal(transition)
        self._refusals += 1
        if transition.errno or self._refusals >= MOST_REFUSALS:
            return self._give_up(told)
        return self._replan(open_points(self._points, transition, self._clock_before_hz), told)

    def _replan(self, points_hz: Sequence[int], told: str) -> Decision:
        if len(points_hz) < 2:
            return self._give_up(told)
        self._points = tuple(points_hz)
        within = f"{points_hz[0] / 1e6:.0f}-{points_hz[-1] / 1e6:.0f} MHz"
        self.note(f"{told}; planned anew within {within}")
        return self._governor.set_points(self._points, told)

    def _give_up(self, told: str) -> Decision:
        assert self._control is not None
        self.note(f"{told}; the board governs itself from here on")
        try:
            self._control.give_back()
        except BoardError as error:
            self.note(str(error))
        self._control = None
        self._governor.fall_back()
        return Decision(State.FALLBACK, None, f"{told}; leaving the board to it")


def has_come(transition: Transition) -> bool:
    """Tell whether a change took effect; a GPU that is off (Thor reads 0 Hz) refuses nothing."""
    gated = transition.errno == 0 and transition.achieved_hz == 0
    return transition.achieved_ns is not None or gated


def open_points(
    points_hz: Sequence[int], refused: Transition, clock_before_hz: int | None
) -> tuple[int, ...]:
    """Return the operating points left when one has not come.

    Where the clock has moved, what lies beyond its new value is out of reach; where it has not
    moved at all, only what was asked for is known to be.
    """
    achieved_hz = refused.achieved_hz
    if achieved_hz is None or achieved_hz == clock_before_hz:
        return tuple(hz for hz in points_hz if not refused.min_hz <= hz <= refused.max_hz)
    if achieved_hz < refused.min_hz:
        return tuple(hz for hz in points_hz if hz <= achieved_hz)
    return tuple(hz for hz in points_hz if hz >= achieved_hz)


def _refusal(transition: Transition) -> str:
    asked = f"{transition.min_hz / 1e6:.0f}-{transition.max_hz / 1e6:.0f} MHz"
    if transition.errno:
        return f"the board refused {asked} (errno {transition.errno})"
    stays = f"{transition.achieved_hz / 1e6:.0f} MHz" if transition.achieved_hz else "unknown"
    return f"asked for {asked}, but the clock stays at {stays}"
