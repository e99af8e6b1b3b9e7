"""Virtual workloads, and the windows computed for them."""

import math
from collections import Counter

import pytest

from orin_gov.virtual.family import (
    VirtualWorkload,
    window_at,
    window_at_podgov,
    workload_family,
)
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import load_board

BOARD = load_board("agx-orin-64gb")
FAMILY = workload_family(40, seed=3)
MODULE = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")


def steady(law: PhaseLaw) -> VirtualWorkload:
    """A workload of nothing but one law."""
    return VirtualWorkload("steady", {"forward": law}, {"forward": 1.0}, 0.5, 1000.0)


def test_the_same_seed_gives_the_same_family_and_another_seed_another() -> None:
    assert workload_family(40, seed=3) == FAMILY
    assert workload_family(40, seed=4) != FAMILY


def test_a_longer_family_begins_with_the_shorter_one() -> None:
    assert workload_family(50, seed=3)[:40] == FAMILY


def test_the_family_reaches_from_host_bound_to_compute_bound() -> None:
    loads = [window_at(BOARD, workload, BOARD.top_hz, 1).load or 0 for workload in FAMILY]
    slowdowns = [
        window_at(BOARD, w, 612_000_000, 1).duration_s
        / window_at(BOARD, w, BOARD.top_hz, 1).duration_s
        for w in FAMILY
    ]
    assert min(loads) < 0.45
    assert max(loads) > 0.85
    assert min(slowdowns) < 1.15
    assert max(slowdowns) > 1.7


def test_the_best_clock_differs_between_workloads_and_is_never_at_an_end() -> None:
    best = Counter(
        min(
            BOARD.frequencies_hz,
            key=lambda hz, w=workload: window_at(BOARD, w, hz, 1).energy_j or math.inf,
        )
        for workload in FAMILY
    )
    assert len(best) >= 3
    assert not {BOARD.frequencies_hz[0], BOARD.top_hz} & set(best)


@pytest.mark.parametrize("workload", FAMILY[:5], ids=lambda w: w.name)
@pytest.mark.parametrize("clock_hz", [306_000_000, 816_000_000, 1_300_500_000])
def test_a_window_adds_up(workload: VirtualWorkload, clock_hz: int) -> None:
    window = window_at(BOARD, workload, clock_hz, 7)
    assert window.energy_j == sum(window.rail_energy_j[label] or 0 for label in MODULE)
    assert math.isclose(sum(e or 0 for e in window.phase_energy_j.values()), window.energy_j)
    assert math.isclose(sum(window.phase_time_s.values()), window.duration_s)
    assert window.work == 7 * workload.tokens_per_step
    assert window.target_hz == window.frequency_hz == clock_hz


def test_steps_at_the_top_clock_last_as_long_as_the_workload_says() -> None:
    workload = FAMILY[0]
    window = window_at(BOARD, workload, BOARD.top_hz, 10)
    assert window.duration_s == pytest.approx(10 * workload.step_s)
    for phase, share in workload.shares.items():
        assert window.phase_time_s[phase] == pytest.approx(10 * workload.step_s * share)


def test_time_and_power_are_those_of_the_plant() -> None:
    law = PhaseLaw(0.8, 0.7, 20.0)
    window = window_at(BOARD, steady(law), 714_000_000, 4)
    assert window.duration_s == pytest.approx(2.0 * BOARD.stretch(law, 714_000_000))
    assert window.power_w == pytest.approx(BOARD.module_power_w(law, 714_000_000))
    assert window.load == pytest.approx(BOARD.load(law, 714_000_000))


def test_podgov_leaves_compute_bound_work_at_the_top() -> None:
    workload = steady(PhaseLaw(0.3, 1.0, 25.0))
    pinned = window_at(BOARD, workload, BOARD.top_hz, 5)
    free = window_at_podgov(BOARD, workload, 5)
    assert free.target_hz is None
    assert free.frequency_hz == pytest.approx(BOARD.top_hz)
    assert free.energy_j == pytest.approx(pinned.energy_j)
    assert free.duration_s == pytest.approx(pinned.duration_s)


def test_podgov_clocks_host_bound_work_down_to_where_it_is_70_percent_busy() -> None:
    free = window_at_podgov(BOARD, steady(PhaseLaw(1.0, 0.45, 15.0)), 5)
    assert free.frequency_hz is not None
    assert free.frequency_hz < 1_000_000_000
    assert free.load is not None
    assert 0.55 <= free.load <= 0.75


def test_a_podgov_window_lies_between_the_pinned_ends() -> None:
    for workload in FAMILY:
        free = window_at_podgov(BOARD, workload, 3)
        fast = window_at(BOARD, workload, BOARD.top_hz, 3)
        slow = window_at(BOARD, workload, BOARD.frequencies_hz[0], 3)
        assert fast.duration_s * (1 - 1e-9) <= free.duration_s <= slow.duration_s
        assert free.work == fast.work
        assert math.isclose(sum(e or 0 for e in free.phase_energy_j.values()), free.energy_j or 0)
