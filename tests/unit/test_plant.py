"""The plant's physics: what must hold at every clock, and what the shipped board promises."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.errors import UsageError
from orin_gov.phases import PHASES
from orin_gov.virtual.plant import BOARDS, BoardModel, PhaseLaw, load_board

BOARD = load_board("agx-orin-64gb")
MODULE = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
STEP = {"idle": 0.06, "data": 0.04, "forward": 0.28, "backward": 0.52, "optimizer": 0.10}

laws = st.builds(PhaseLaw, st.floats(0.05, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 40.0))
clocks = st.sampled_from(BOARD.frequencies_hz)


def step_at(board: BoardModel, clock_hz: int) -> tuple[float, float]:
    """Relative time and energy of the shipped laws' step at a clock."""
    time = energy = 0.0
    for phase, share in STEP.items():
        span = share * board.stretch(board.laws[phase], clock_hz)
        time += span
        energy += span * board.module_power_w(board.laws[phase], clock_hz)
    return time, energy


def test_an_unknown_board_is_a_usage_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'nano'.*agx-orin-64gb"):
        load_board("nano")


@pytest.mark.parametrize("name", BOARDS)
def test_every_shipped_board_loads_under_its_own_name(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert set(board.laws) == set(PHASES)
    assert list(board.frequencies_hz) == sorted(set(board.frequencies_hz))


@pytest.mark.parametrize("name", BOARDS)
def test_every_constant_has_a_source_with_its_kind_of_evidence(name: str) -> None:
    board = load_board(name)
    named = {field.name for field in dataclasses.fields(board.constants)}
    named |= {f"rails.static_w.{rail.label}" for rail in board.rails}
    assert {*named, "laws", "modes", "rails.shares", "rails.voltage_v"} <= set(board.sources)
    for text in board.sources.values():
        assert text.startswith(("measured: ", "derived: ", "assumed: "))


def test_the_table_is_the_eleven_points_of_jetpack_6() -> None:
    megahertz = [hz / 1e6 for hz in BOARD.frequencies_hz]
    assert megahertz == [306, 408, 510, 612, 714, 816, 918, 1020, 1122, 1224, 1300.5]


def test_vddq_is_no_part_of_the_module_total() -> None:
    assert tuple(rail.label for rail in BOARD.module_rails) == MODULE


def test_the_voltage_has_a_floor_and_then_only_rises() -> None:
    volts = [BOARD.voltage(hz) for hz in BOARD.frequencies_hz]
    assert volts[0] == volts[1] == 1.0
    assert volts == sorted(volts)
    # Squared, the published fits give 1.38 (decoding) to 2.10 (fp32 training) at the top clock.
    assert 1.38 <= volts[-1] ** 2 <= 2.10


@given(laws)
def test_a_lower_clock_never_makes_a_phase_shorter(law: PhaseLaw) -> None:
    stretches = [BOARD.stretch(law, clock_hz) for clock_hz in BOARD.frequencies_hz]
    assert stretches == sorted(stretches, reverse=True)
    assert stretches[-1] == pytest.approx(1.0)


@given(laws, clocks)
def test_no_phase_slows_down_more_than_the_clock(law: PhaseLaw, clock_hz: int) -> None:
    assert BOARD.stretch(law, clock_hz) <= BOARD.top_hz / clock_hz * (1 + 1e-12)


@given(laws)
def test_a_lower_clock_keeps_the_gpu_busier_and_draws_no_more(law: PhaseLaw) -> None:
    loads = [BOARD.load(law, clock_hz) for clock_hz in BOARD.frequencies_hz]
    powers = [BOARD.module_power_w(law, clock_hz) for clock_hz in BOARD.frequencies_hz]
    assert loads == sorted(loads, reverse=True)
    assert all(0.0 <= load <= 1.0 for load in loads)
    assert powers == sorted(powers)


@given(laws, clocks)
def test_module_power_is_the_sum_of_its_rails(law: PhaseLaw, clock_hz: int) -> None:
    power_w = BOARD.rail_power_w(law, clock_hz)
    assert BOARD.module_power_w(law, clock_hz) == sum(power_w[label] for label in MODULE)
    assert power_w["VDDQ_VDD2_1V8AO"] < power_w["VIN_SYS_5V0"]


def test_a_compute_bound_phase_lasts_in_inverse_proportion_to_the_clock() -> None:
    law = PhaseLaw(floor=0.01, compute=1.0, dynamic_w=20.0)
    assert BOARD.stretch(law, 650_250_000) == pytest.approx(2.0, rel=1e-6)
    assert BOARD.load(law, 650_250_000) == pytest.approx(1.0, rel=1e-6)


def test_the_shipped_step_takes_the_least_energy_near_816_mhz() -> None:
    energy = {clock_hz: step_at(BOARD, clock_hz)[1] for clock_hz in BOARD.frequencies_hz}
    assert 612e6 <= min(energy, key=lambda clock_hz: energy[clock_hz]) <= 816e6


def test_a_slowdown_of_5_to_10_percent_saves_5_percent_against_the_top_clock() -> None:
    top_time, top_energy = step_at(BOARD, BOARD.top_hz)
    points = [step_at(BOARD, clock_hz) for clock_hz in BOARD.frequencies_hz]
    savings = [1 - e / top_energy for t, e in points if 1.05 <= t / top_time <= 1.10]
    assert savings
    assert min(savings) >= 0.05
