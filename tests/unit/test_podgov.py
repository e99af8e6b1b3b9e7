"""nvhost_podgov against the behaviour published for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import load_board
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


# By hand, with the whole numbers of governor_pod_scaling.c: cycles = clock * load / 1000,
# average = (10 average + cycles) / 11, busy = 1000 average / clock, boost = 0.8 clock (busy - 700) /
# 700 of at most a third of the range's end, request = clock + boost, requests' average likewise,
# target = 0.7 request + 0.3 their average, or the request itself over 900 permille; then the next
# clock of the table up, and no other move for 50 ms. All in MHz and permille.
TRACE = [
    (1000, 816),  # boost 433: 306 + 433 = 739
    (1000, 816),  # blocked
    (1000, 1300),  # 816 + 433 = 1249
    (600, 1300),  # blocked
    (600, 510),  # average 271, busy 208, boost -730: 570; requests 210; 0.7 570 + 0.3 210 = 462
    (600, 510),  # blocked
    (600, 408),  # average 277, busy 544, boost -90: 420; requests 229; 362
    (600, 408),  # blocked
    (600, 408),  # average 271, busy 666, boost -15: 393; requests 243; 348
    (400, 408),  # average 261, busy 641, boost -27: 381; requests 255; 343: no change, no block
    (400, 408),  # average 252, busy 619, boost -37: 371; requests 265; 339
    (400, 408),  # average 244, busy 599, boost -47: 361; requests 273; 334
    (400, 408),  # average 237, busy 581, boost -55: 353; requests 280; 331
    (950, 918),  # 408 + 433 = 841
    (950, 918),  # blocked
    (950, 1300),  # 918 + 433 = 1351
]
WITH_HISTORY = [
    (1000, 816),
    (1000, 816),
    (1000, 1300),
    (600, 1300),
    (600, 918),  # the highest of 306, 816, 816, 780, 780 within 4: 816, busy 627, boost -108: 1192
    (600, 918),
    (600, 918),  # highest 780, busy 850, boost 157: 1075; requests 339; 854
    (600, 918),  # highest 780 still: requests 405; 874
    (600, 714),  # highest 550, busy 600, boost -104: 814; requests 442; 702
    (400, 714),
    (400, 714),  # highest 550, busy 771, boost 57: 771; requests 471; 681
    (400, 714),
    (400, 510),  # highest 285, busy 400, boost -244: 470; requests 495; 477
    (950, 510),
    (950, 1020),
    (950, 1020),
]


@pytest.mark.parametrize(("history", "expected"), [(0, TRACE), (4, WITH_HISTORY)])
def test_the_published_algorithm_step_by_step(
    history: int, expected: list[tuple[int, int]]
) -> None:
    loads, megahertz = zip(*expected, strict=True)
    clocks = trace(Podgov(TABLE, history), [float(load) for load in loads])
    assert [hz // 1_000_000 for hz in clocks] == list(megahertz)


def test_with_a_history_a_short_burst_keeps_the_clock_up() -> None:
    burst = [1000.0] * 4 + [100.0] * 20
    without, with_history = (trace(Podgov(TABLE, history), burst)[-1] for history in (0, 100))
    assert without == LOWEST
    assert with_history > LOWEST


def test_a_third_of_a_capped_range_is_the_largest_rise() -> None:
    podgov = Podgov(TABLE)
    assert podgov.step(1000.0, 0, LOWEST, 816_000_000) == round_up(TABLE, 306e6 + 272e6)
