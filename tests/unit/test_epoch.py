"""The decision epoch: how it is said, and when it is over."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.epoch import HOLD_STRETCH, MOST_SPAN_S, Epoch, parse_epoch
from orin_gov.errors import UsageError
from orin_gov.policy.decision import State


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("20", Epoch(20, None)),
        ("1", Epoch(1, None)),
        ("5s", Epoch(None, 5.0)),
        ("0.5s", Epoch(None, 0.5)),
        ("1e1s", Epoch(None, 10.0)),
    ],
)
def test_an_epoch_is_steps_or_seconds(text: str, epoch: Epoch) -> None:
    assert parse_epoch(text) == epoch


WRONG = ["", "s", "often", "0", "0s", "-1", "-1s", "nan", "nans", "infs", "1e999s", "2.5", "5 m"]


@pytest.mark.parametrize("text", WRONG)
def test_an_epoch_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected steps as in 20, or seconds as in 5s"):
        parse_epoch(text)


@given(st.text(max_size=6) | st.text("0123456789.-+es_ naif", max_size=6))
def test_any_text_is_a_usable_epoch_or_refused(text: str) -> None:
    try:
        epoch = parse_epoch(text)
    except UsageError:
        return
    assert (epoch.steps is None) != (epoch.seconds is None)
    assert 0 < (epoch.steps or epoch.seconds or 0) < math.inf
    assert 0 < epoch.span_s < math.inf


@pytest.mark.parametrize(
    ("epoch", "steps", "seconds", "over"),
    [
        (Epoch(10, None, 1.0), 10, 2.0, True),
        (Epoch(10, None, 1.0), 9, 2.0, False),
        (Epoch(10, None, 1.0), 10, 0.9, False),
        (Epoch(10, None, 1.0), 500, 1.0, True),
        (Epoch(None, 5.0, 1.0), 1, 5.0, True),
        (Epoch(None, 5.0, 1.0), 999, 4.9, False),
        (Epoch(None, 0.5, 2.0), 999, 1.9, False),
    ],
)
def test_an_epoch_is_over_after_its_span_but_never_sooner_than_the_sensors_resolve(
    epoch: Epoch, steps: int, seconds: float, over: bool
) -> None:
    assert epoch.is_over(steps, seconds) is over


@pytest.mark.parametrize("epoch", [Epoch(), Epoch(None, 7.0), Epoch(20, None, 0.1)])
def test_while_a_clock_is_held_an_epoch_lasts_longer_whatever_it_is_of(epoch: Epoch) -> None:
    held = epoch.during(State.HOLD)
    assert epoch.during(State.BASELINE) == epoch
    assert held.span_s == HOLD_STRETCH * epoch.span_s
    steps, seconds = epoch.steps or 1, epoch.seconds or 10.0
    assert epoch.is_over(steps, seconds)
    assert not held.is_over(HOLD_STRETCH * steps - 1, HOLD_STRETCH * seconds - 0.1)
    assert held.is_over(HOLD_STRETCH * steps, HOLD_STRETCH * seconds)


@pytest.mark.parametrize("text", ["200s", "1e9s"])
def test_a_window_by_time_is_no_longer_than_its_samples_are_kept(text: str) -> None:
    assert parse_epoch(text).during(State.HOLD).span_s == MOST_SPAN_S
