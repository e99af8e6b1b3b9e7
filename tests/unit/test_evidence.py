"""The evidence: what a run has measured, as log ratios to a reference that is frozen."""

import math

import numpy as np
import pytest
from plants import POINTS, SHARES, TOP, WORK, Plant, policy_of, scaled

from orin_gov.policy.evidence import OTHER_WORK, Evidence
from orin_gov.policy.window import Window

PLANT = Plant()
RNG = np.random.default_rng(0)
LOW = POINTS[3]


def frozen(noise: float = 0.0) -> Evidence:
    """Evidence after two baseline windows, expecting the plant that is measured."""
    evidence = Evidence()
    for _ in range(2):
        evidence.add_baseline(noisy(None, noise))
    policy = policy_of()
    evidence.believe(policy, policy.nodes[0], list(SHARES))  # type: ignore[arg-type]
    return evidence


def noisy(hz: int | None, noise: float, steps: int = 5) -> Window:
    return PLANT.noisy(hz, RNG.normal(1, noise, steps), RNG.normal(1, noise, steps))


def test_before_the_reference_there_is_nothing_to_compare_with() -> None:
    ratios = Evidence().ratios(PLANT.window(TOP))
    assert (ratios.energy, ratios.time) == (None, None)


def test_a_window_is_a_pair_of_log_ratios_to_the_reference() -> None:
    ratios = frozen().ratios(PLANT.window(LOW))
    assert ratios.energy == pytest.approx(math.log(PLANT.energy(LOW)))
    assert ratios.time == pytest.approx(math.log1p(PLANT.slowdown(LOW)))
    assert frozen().ratios(PLANT.window(LOW, energy_j=None)).energy is None


def test_later_baseline_windows_never_change_the_reference() -> None:
    evidence = frozen()
    for i in range(50):
        slower = 1.0 + 0.004 * i
        evidence.observe(scaled(PLANT.window(None), slower, slower), None)
        ratios = evidence.ratios(PLANT.window(LOW))
        assert ratios.time == pytest.approx(math.log1p(PLANT.slowdown(LOW)))
    assert len(evidence.reference.windows) == 2
    # They tell how far the machine has moved instead.
    assert evidence.belief is not None
    assert evidence.belief.machine == pytest.approx((math.log(1.2), math.log(1.2)), abs=0.02)
    assert not evidence.is_steady


def test_errors_are_those_of_the_scatter_of_all_windows() -> None:
    evidence = frozen(noise=0.03)
    for _ in range(200):
        evidence.observe(noisy(LOW, 0.03), POINTS.index(LOW))
    ratios = evidence.ratios(noisy(LOW, 0.03, steps=9))
    assert ratios.time_error == pytest.approx(0.03 / 3, rel=0.15)
    assert ratios.energy_error == pytest.approx(0.03 / 3, rel=0.15)
    assert evidence.look_error(9) == pytest.approx(0.03 / 3, rel=0.15)
    coarse = evidence.ratios(scaled(PLANT.window(LOW), coarseness=0.5))
    assert coarse.energy_error == pytest.approx(0.5, rel=0.01)


def test_what_fits_nothing_is_not_taken_in_and_it_is_told_how_far_off_it_lies() -> None:
    evidence = frozen()
    for _ in range(5):
        assert evidence.observe(PLANT.window(LOW), POINTS.index(LOW)) is None
    assert evidence.belief is not None
    before = evidence.belief.answer.joined
    scatter = evidence.ratios(PLANT.window(LOW)).time_error
    off = evidence.observe(scaled(PLANT.window(LOW), slower=20.0), POINTS.index(LOW))
    assert off == pytest.approx(math.log(20), abs=0.02)
    assert evidence.belief.answer.joined == pytest.approx(before)
    assert evidence.ratios(PLANT.window(LOW)).time_error == scatter


def test_an_odd_window_at_a_new_point_does_not_count_as_measured() -> None:
    evidence = frozen()
    assert evidence.observe(scaled(PLANT.window(LOW), slower=20.0), POINTS.index(LOW)) is not None
    assert evidence.measured == set()
    evidence.observe(PLANT.window(LOW), POINTS.index(LOW))
    assert evidence.measured == {POINTS.index(LOW)}


def test_what_was_measured_is_known_to_a_new_belief() -> None:
    evidence = frozen()
    point = POINTS.index(LOW)
    for _ in range(20):
        evidence.observe(scaled(PLANT.window(LOW), 1.03, 0.97), point)
    policy = policy_of(Plant(0.12, 0.05).leaf())
    evidence.believe(policy, policy.nodes[0], list(SHARES))  # type: ignore[arg-type]
    assert evidence.belief is not None
    measured = math.log(1.03 * (1 + PLANT.slowdown(LOW)))
    assert evidence.belief.answer.time[point] == pytest.approx(measured, abs=0.01)


@pytest.mark.parametrize(
    ("share", "other"),
    [(1.0, False), (OTHER_WORK - 0.01, False), (OTHER_WORK + 0.01, True), (0.75, True)],
)
def test_steps_far_larger_or_smaller_than_the_references_are_other_work(
    share: float, other: bool
) -> None:
    window = PLANT.window(LOW, steps=4)
    assert frozen().is_other_work(scaled(window, work=share * WORK * 4)) == other


def test_work_that_is_not_known_is_no_other_work() -> None:
    assert not frozen().is_other_work(scaled(PLANT.window(LOW), work=None))
    assert not Evidence().is_other_work(PLANT.window(LOW))
    assert not Evidence().is_other_unit(PLANT.window(LOW))
    assert frozen().is_other_unit(scaled(PLANT.window(LOW), unit="busy cycle"))


def test_power_under_the_boards_own_governor_follows_the_machine() -> None:
    evidence = frozen()
    assert evidence.baseline_power_w() == pytest.approx(PLANT.power_w(None))
    evidence.doubt(0.3)
    for _ in range(10):
        evidence.observe(scaled(PLANT.window(None), dearer=1.2), None)
    assert evidence.baseline_power_w() == pytest.approx(1.2 * PLANT.power_w(None), rel=0.02)


def test_a_steady_machine_stays_steady() -> None:
    evidence = frozen(noise=0.01)
    for i in range(400):
        evidence.observe(*((noisy(None, 0.01), None) if i % 20 == 0 else (noisy(TOP, 0.01), 5)))
    assert evidence.is_steady
