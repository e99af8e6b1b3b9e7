"""The plant's physics: what must hold at every clock, and what the shipped board promises."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.errors import UsageError
from orin_gov.phases import PHASES
from orin_gov.virtual.board_file import DIRECTORY
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BOARDS, BoardModel, load_board

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


@given(st.floats(1e8, 2e9))
def test_the_voltage_between_two_clocks_lies_between_theirs(frequency_hz: float) -> None:
    clocks_hz, volts = BOARD.constants.voltage_hz, BOARD.constants.voltage
    below = [v for hz, v in zip(clocks_hz, volts, strict=True) if hz <= frequency_hz]
    above = [v for hz, v in zip(clocks_hz, volts, strict=True) if hz >= frequency_hz]
    low, high = below[-1:] or volts[:1], above[:1] or volts[-1:]
    assert low[0] <= BOARD.voltage(frequency_hz) <= high[0]


def test_memory_time_answers_to_the_memorys_clock_alone() -> None:
    law = PhaseLaw(floor=0.0, compute=1.0, dynamic_w=10.0, memory=1.0)
    top_hz = BOARD.top_hz
    assert BOARD.stretch(law, top_hz / 2) == pytest.approx(1.5)
    assert BOARD.stretch(law, top_hz, emc_hz=BOARD.emc_hz / 2) == pytest.approx(1.5)


def test_host_time_and_power_answer_to_the_cpus_clock() -> None:
    law = PhaseLaw(floor=1.0, compute=0.01, dynamic_w=0.0, cores=2.0)
    half_hz = BOARD.cpu_hz / 2
    assert BOARD.stretch(law, BOARD.top_hz, cpu_hz=half_hz) == pytest.approx(2.0)
    slow_w = BOARD.rail_power_w(law, BOARD.top_hz, cpu_hz=half_hz)["VDD_CPU_CV"]
    fast_w = BOARD.rail_power_w(law, BOARD.top_hz)["VDD_CPU_CV"]
    assert slow_w < fast_w


@pytest.mark.parametrize(
    ("cores", "cpu_mhz", "stress_w"),
    [(12, 2201.6, 15.2), (12, 1497.6, 6.0), (8, 1728.0, 5.6), (4, 1113.6, 1.6)],
)
def test_the_cpu_rail_draws_what_was_measured_under_stress(
    cores: int, cpu_mhz: float, stress_w: float
) -> None:
    law = PhaseLaw(1.0, 0.0, 0.0, cores=cores)
    rails_w = BOARD.rail_power_w(law, BOARD.top_hz, cpu_hz=cpu_mhz * 1e6)
    assert rails_w["VDD_CPU_CV"] == pytest.approx(stress_w, abs=0.4)


def test_a_law_of_work_takes_its_energy_in_its_time() -> None:
    law = PhaseLaw.of_work(host_s=0.1, compute_s=0.2, memory_s=0.1, core_j=3.0, memory_j=1.0)
    time_s = BOARD.time_s(law, BOARD.top_hz)
    assert law.dynamic_w * time_s == pytest.approx(3.0)
    assert law.memory_w * time_s == pytest.approx(1.0)


@given(laws, clocks)
def test_a_warmer_die_draws_more_on_the_gpus_rail_only(law: PhaseLaw, clock_hz: int) -> None:
    cold, warm = (BOARD.rail_power_w(law, clock_hz, temperature_c=t) for t in (50.0, 80.0))
    assert {label for label in cold if warm[label] > cold[label]} == {"VDD_GPU_SOC"}


@pytest.mark.parametrize(
    ("mode", "cap_mhz", "tpcs"),
    [("", 1300.5, 8), (":maxn", 1300.5, 8), (":15w", 408, 3), (":30w", 612, 4), (":50w", 816, 8)],
)
def test_a_power_mode_caps_the_clocks_and_gates_tpcs(mode: str, cap_mhz: float, tpcs: int) -> None:
    board = load_board(f"agx-orin-64gb{mode}")
    assert board.name == f"agx-orin-64gb{mode}"
    assert board.cap_hz == cap_mhz * 1e6
    assert board.tpc_share == tpcs / 8


def test_an_unknown_power_mode_is_a_usage_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'20w'; known: maxn, 15w, 30w, 50w"):
        load_board("agx-orin-64gb:20w")


@given(laws, clocks)
def test_no_power_mode_makes_anything_faster_or_hungrier(law: PhaseLaw, clock_hz: int) -> None:
    for mode in ("15w", "30w", "50w"):
        board = load_board(f"agx-orin-64gb:{mode}")
        assert board.stretch(law, clock_hz) >= BOARD.stretch(law, clock_hz) * (1 - 1e-12)
        assert board.module_power_w(law, clock_hz) <= BOARD.module_power_w(law, clock_hz)


def test_every_board_file_is_a_known_board() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == set(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_an_unlimited_mode_and_starts_in_it(name: str) -> None:
    board = load_board(name)
    assert board.cap_hz == board.top_hz
    assert board.tpc_share == 1.0
    assert board.mode.name.startswith("MAXN")


@given(st.sampled_from(BOARD.frequencies_hz), st.sampled_from(BOARD.frequencies_hz))
def test_a_switch_takes_some_5_ms_and_longer_the_further_it_goes(
    one_hz: int, other_hz: int
) -> None:
    times = [BOARD.switch_latency_s(one_hz, other_hz, u / 100) for u in range(100)]
    assert times == sorted(times)
    assert 0.003 < times[0] <= 0.0051 <= times[95] < 0.008
    nearer = BOARD.switch_latency_s(other_hz * 1.001, other_hz, 0.5)
    assert times[50] >= nearer * (1 - 1e-9)
