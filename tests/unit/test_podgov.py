"""nvhost_podgov against the behaviour published for it."""

from hypothesis import given
from hypothesis import strategies as st

from orin_gov.virtual.plant import PhaseLaw, load_board
from orin_gov.virtual.podgov import POLLING_NS, Podgov, round_up

BOARD = load_board("agx-orin-64gb")
TABLE = BOARD.frequencies_hz
LOWEST, TOP = TABLE[0], TABLE[-1]


def trace(podgov: Podgov, loads: list[float], start_ns: int = 0) -> list[int]:
    """The clock after each poll."""
    times = range(start_ns, start_ns + len(loads) * POLLING_NS, POLLING_NS)
    return [podgov.step(load, now, LOWEST, TOP) for load, now in zip(loads, times, strict=True)]


def settle(law: PhaseLaw, polls: int = 400) -> list[int]:
    """The clocks a steady phase goes through, its load answering to the clock."""
    podgov, clock_hz, clocks = Podgov(TABLE), LOWEST, []
    for poll in range(polls):
        load = 1000 * BOARD.load(law, clock_hz)
        clock_hz = podgov.step(load, poll * POLLING_NS, LOWEST, TOP)
        clocks.append(clock_hz)
    return clocks


def test_full_load_reaches_the_top_within_150_ms() -> None:
    clocks = trace(Podgov(TABLE), [950.0] * 7)
    assert clocks[0] > LOWEST
    assert clocks[150_000_000 // POLLING_NS] == TOP


def test_full_load_climbs_by_a_third_of_the_top_clock_at_most() -> None:
    assert trace(Podgov(TABLE), [1000.0]) == [round_up(TABLE, LOWEST + TOP / 3)]


def test_the_clock_stays_for_50_ms_after_a_change() -> None:
    clocks = trace(Podgov(TABLE), [1000.0] * 3)
    assert clocks[0] == clocks[1] != clocks[2]


def test_an_idle_gpu_comes_back_to_the_lowest_clock() -> None:
    podgov = Podgov(TABLE)
    assert trace(podgov, [1000.0] * 20)[-1] == TOP
    assert trace(podgov, [20.0] * 200, 20 * POLLING_NS)[-1] == LOWEST


def test_host_bound_work_settles_near_70_percent_load() -> None:
    law = PhaseLaw(floor=1.0, compute=0.45, dynamic_w=15.0)
    clocks = settle(law)
    assert len(set(clocks[-100:])) == 1
    assert LOWEST < clocks[-1] < TOP
    assert 0.55 <= BOARD.load(law, clocks[-1]) <= 0.75


def test_compute_bound_work_settles_at_the_top() -> None:
    assert settle(PhaseLaw(floor=0.3, compute=1.0, dynamic_w=25.0))[-1] == TOP


@given(
    st.lists(st.floats(0, 1000), max_size=60),
    st.sampled_from(TABLE),
    st.sampled_from(TABLE),
)
def test_every_clock_is_of_the_table_and_within_the_range(
    loads: list[float], one_hz: int, other_hz: int
) -> None:
    lowest, highest = min(one_hz, other_hz), max(one_hz, other_hz)
    podgov = Podgov(TABLE)
    for poll, load in enumerate(loads):
        clock_hz = podgov.step(load, poll * POLLING_NS, lowest, highest)
        assert clock_hz in TABLE
        assert lowest <= clock_hz <= highest


def test_a_narrower_range_is_obeyed_inside_the_block_window() -> None:
    podgov = Podgov(TABLE)
    trace(podgov, [1000.0] * 5)
    assert podgov.step(1000.0, 5 * POLLING_NS, LOWEST, TABLE[3]) == TABLE[3]


@given(st.floats(0, 2e9))
def test_rounding_up_takes_the_next_entry_or_the_last(frequency_hz: float) -> None:
    above = [hz for hz in TABLE if hz >= frequency_hz]
    assert round_up(TABLE, frequency_hz) == (above[0] if above else TOP)
