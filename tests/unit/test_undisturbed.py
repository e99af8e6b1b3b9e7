"""A decider that sees undisturbed windows only, and is sent lower where a window was disturbed."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.undisturbed import LONGEST_REST, Undisturbed
from orin_gov.policy.window import Window

POINTS = (306, 408, 510, 612)


class Script:
    """A decider that asks for what it was given, and remembers the windows that it was told of."""

    def __init__(self, *asks: Decision) -> None:
        self.seen: list[Window] = []
        self.fell_back = False
        self._asks = list(asks)

    def first(self) -> Decision:
        return Decision(State.WARMUP, None, "warm-up")

    def outcome(self, window: Window) -> Outcome:
        return Outcome(None, None, None)

    def decide(self, window: Window) -> Decision:
        self.seen.append(window)
        return self._asks.pop(0) if len(self._asks) > 1 else self._asks[0]

    def fall_back(self) -> None:
        self.fell_back = True

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        return Decision(State.BASELINE, None, told)


def window(
    target_hz: int | None, disturbed: str | None = None, clock_hz: float | None = None
) -> Window:
    return Window(
        0, 1, 1.0, target_hz, 1, 1.0, "step", 1.0, frequency_hz=clock_hz, disturbed=disturbed
    )


HOLD = Decision(State.HOLD, 510, "holding")
BASELINE = Decision(State.BASELINE, None, "measuring")


def warm(inner: Script) -> Undisturbed:
    made = Undisturbed(inner, POINTS)
    made.first()
    made.decide(window(None, "heat"))  # warm-up teaches nothing: disturbed or not
    assert len(inner.seen) == 1
    return made


def test_undisturbed_windows_pass_through() -> None:
    inner = Script(HOLD)
    made = warm(inner)
    for _ in range(3):
        assert made.decide(window(510)) == HOLD
    assert len(inner.seen) == 4


def test_a_disturbed_baseline_window_is_measured_once_more_and_teaches_nothing() -> None:
    inner = Script(BASELINE)
    made = warm(inner)
    for _ in range(20):
        again = made.decide(window(None, "heat"))
        assert (again.state, again.target_hz) == (State.BASELINE, None)
        assert again.reason == "heat; the window does not count, measured once more"
    assert len(inner.seen) == 1
    assert made.decide(window(None)) == BASELINE
    assert len(inner.seen) == 2


def test_on_heat_the_clock_goes_lower_and_says_why() -> None:
    made = warm(Script(HOLD))
    lower = made.decide(window(510, "the GPU is being cooled", 510.0))
    assert (lower.state, lower.target_hz) == (State.HOLD, 408)
    assert lower.reason == "the GPU is being cooled; the window does not count; going lower"


def test_where_a_cap_has_cut_the_clock_it_goes_to_the_cap_or_below() -> None:
    made = warm(Script(Decision(State.HOLD, 612, "holding")))
    assert made.decide(window(612, "heat", 431.0)).target_hz == 408
    made = warm(Script(HOLD))
    assert made.decide(window(510, "heat", 100.0)).target_hz == 306


def test_it_goes_down_once_and_comes_back_when_the_heat_is_over() -> None:
    inner = Script(HOLD)
    made = warm(inner)
    assert made.decide(window(510, "heat")).target_hz == 408
    for _ in range(5):
        assert made.decide(window(408, "heat")).target_hz == 408
    back = made.decide(window(408))
    assert (back.target_hz, back.reason) == (510, "undisturbed again; back")
    assert len(inner.seen) == 1  # what was measured at 408 was not asked for
    assert made.decide(window(510)) == HOLD
    assert len(inner.seen) == 2


def test_each_time_the_heat_comes_back_it_stays_lower_for_longer() -> None:
    made = warm(Script(HOLD))
    rests = []
    for _ in range(7):
        decision = made.decide(window(510, "heat"))
        rest = 0
        while decision.target_hz == 408:
            decision, rest = made.decide(window(408)), rest + 1
        rests.append(rest)
    assert rests == [1, 2, 4, 8, LONGEST_REST, LONGEST_REST, LONGEST_REST]
    made.decide(window(510))  # once undisturbed at the clock that was asked for: from the start
    made.decide(window(510, "heat"))
    assert made.decide(window(408)).target_hz == 510


def test_new_points_and_giving_up_are_passed_on_and_end_a_rest() -> None:
    inner = Script(HOLD)
    made = warm(inner)
    made.decide(window(510, "heat"))
    assert made.set_points(POINTS[:2], "capped") == Decision(State.BASELINE, None, "capped")
    made.decide(window(None))
    assert len(inner.seen) == 2
    made.fall_back()
    assert inner.fell_back
    made.decide(window(None, "heat"))  # whose windows are no longer of any moment
    assert len(inner.seen) == 3


@given(st.lists(st.tuples(st.booleans(), st.none() | st.floats(0, 1000)), max_size=60))
def test_never_a_clock_above_the_one_asked_for_and_never_one_off_the_table(
    course: list[tuple[bool, float | None]],
) -> None:
    inner = Script(HOLD, Decision(State.VERIFY, 306, "lowest"), BASELINE, HOLD)
    made = warm(inner)
    decision = HOLD
    for disturbed, clock_hz in course:
        decision = made.decide(window(decision.target_hz, "heat" if disturbed else None, clock_hz))
        assert decision.target_hz in (None, *POINTS)
        assert (decision.target_hz or 0) <= 510
    assert not any(each.disturbed for each in inner.seen[1:])
