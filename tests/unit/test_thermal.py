"""The die's temperature, and what follows from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.virtual.plant import load_board
from orin_gov.virtual.thermal import ThermalState, at_rest, steady_temperature_c

BOARD = load_board("agx-orin-64gb")
watts = st.floats(5.0, 60.0)


@given(watts)
def test_a_balanced_board_stays_as_warm_as_it_is(module_w: float) -> None:
    state = ThermalState(BOARD, module_w)
    before = state.temperature_c
    state.step(1000.0, module_w)
    assert state.temperature_c == pytest.approx(before)


@given(watts, watts)
def test_it_comes_to_the_balance_of_the_new_power(first_w: float, then_w: float) -> None:
    state = ThermalState(BOARD, first_w)
    state.step(3600.0, then_w)
    assert state.temperature_c == pytest.approx(ThermalState(BOARD, then_w).temperature_c)


@given(watts, watts, st.floats(0.01, 100.0), st.integers(1, 20))
def test_many_short_steps_are_one_long_one(
    first_w: float, then_w: float, seconds: float, parts: int
) -> None:
    whole, split = ThermalState(BOARD, first_w), ThermalState(BOARD, first_w)
    whole.step(seconds, then_w)
    for _ in range(parts):
        split.step(seconds / parts, then_w)
    assert split.temperature_c == pytest.approx(whole.temperature_c, abs=1e-9)


def test_the_die_follows_within_seconds_and_the_sink_within_minutes() -> None:
    state = ThermalState(BOARD, 14.0)
    start, rest = state.temperature_c, ThermalState(BOARD, 44.0).temperature_c
    state.step(10.0, 44.0)
    fast = (state.temperature_c - start) / (rest - start)
    assert 0.4 < fast < 0.8
    state.step(600.0, 44.0)
    assert state.temperature_c == pytest.approx(rest, abs=0.2)


def test_the_published_temperatures_are_met() -> None:
    """At rest 48 to 53 deg C; the decoding grid, fan on, 61.6 at 22 W and 66.5 at 38 W, where VDDQ
    was counted twice."""
    assert 48 <= ThermalState(BOARD, 13.9).temperature_c <= 53
    for counted_w, vddq_w, measured_c in ((22, 3, 61.6), (38, 5, 66.5)):
        model_c = ThermalState(BOARD, counted_w - vddq_w).temperature_c
        assert model_c == pytest.approx(measured_c, abs=8.0)


def test_steady_is_where_power_and_temperature_agree() -> None:
    law = BOARD.laws["backward"]
    steady_c = steady_temperature_c(BOARD, law, BOARD.top_hz)
    power_w = BOARD.module_power_w(law, BOARD.top_hz, temperature_c=steady_c)
    assert ThermalState(BOARD, power_w).temperature_c == pytest.approx(steady_c, abs=0.01)


def test_leakage_rises_with_temperature_as_measured_with_the_fans_off() -> None:
    """0.12 to 0.14 W per deg C at 1300.5 MHz, from 66 to 92 deg C; the fit is held to it loosely."""
    slope = (BOARD.leakage_w(BOARD.top_hz, 92) - BOARD.leakage_w(BOARD.top_hz, 66)) / 26
    assert 0.08 < slope < 0.15


def test_a_board_at_rest_stays_as_it_is() -> None:
    state = at_rest(BOARD)
    law, clock_hz = BOARD.laws["idle"], BOARD.frequencies_hz[0]
    before_c = state.temperature_c
    state.step(600.0, BOARD.module_power_w(law, clock_hz, temperature_c=before_c))
    assert state.temperature_c == pytest.approx(before_c, abs=0.01)
