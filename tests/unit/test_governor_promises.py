"""What the governor promises: to keep caps, to fall back where it misses, and its upkeep."""

from itertools import pairwise

import pytest
from plants import (
    PLANT,
    POINTS,
    Plant,
    asked,
    best_within,
    drive,
    governor,
    policy_of,
    scaled,
    states,
    stepless,
)

from orin_gov.errors import UsageError
from orin_gov.policy.decision import State
from orin_gov.policy.fallback import FALLBACK_WINDOWS
from orin_gov.policy.window import Window


def test_budgets_do_not_compound() -> None:
    # 200 epochs, each of which could take 10 % more if the last one were the measure.
    subject = governor(max_slowdown=0.1)
    for decision in drive(subject, 200, PLANT.window):
        assert PLANT.slowdown(decision.target_hz) <= 0.1 + 0.1
        if decision.state is State.HOLD:
            assert PLANT.slowdown(decision.target_hz) <= 0.1


def worse_when_governed(hz: int | None) -> Window:
    return PLANT.window(None) if hz is None else scaled(PLANT.window(None), 1.5, 1.5, target_hz=hz)


def test_missed_twice_it_falls_back_for_a_while_then_tries_again_then_for_longer() -> None:
    # Energy can be read under the board's own governor only: a promise that cannot be checked.
    def measure(hz: int | None) -> Window:
        return PLANT.window(hz, **({} if hz is None else {"energy_j": None}))

    decisions = drive(governor(), 120, measure)
    told = states(decisions)
    fallen = [i for i, (a, b) in enumerate(pairwise(told)) if b is State.FALLBACK is not a]
    risen = [i for i, (a, b) in enumerate(pairwise(told)) if a is State.FALLBACK is not b]
    assert [b - a for a, b in zip(fallen, risen, strict=False)][:2] == [
        FALLBACK_WINDOWS,
        2 * FALLBACK_WINDOWS,
    ]
    first = decisions[fallen[0] + 1]
    assert first.target_hz is None
    assert "energy was not measured; missed twice" in first.reason
    assert f"{FALLBACK_WINDOWS - 1} windows until the next try" in decisions[fallen[0] + 2].reason
    again = decisions[risen[0] + 1]
    assert (again.state, again.target_hz) == (State.BASELINE, None)
    assert "trying again" in again.reason


def test_where_every_point_is_far_slower_than_promised_it_ends_with_the_boards_own() -> None:
    decisions = drive(governor(max_slowdown=0.1), 60, worse_when_governed)
    governed = [decision for decision in decisions if decision.target_hz is not None]
    assert 1 <= len(governed) <= 2 * len(POINTS)
    assert all(decision.target_hz is None for decision in decisions[30:])


def test_one_miss_is_forgiven_when_the_next_window_keeps_its_promise() -> None:
    subject = asked()
    target = best_within(PLANT, 0.15)
    for _ in range(3):
        again = subject.decide(PLANT.window(target, energy_j=None))
        assert (again.state, again.target_hz) == (State.VERIFY, target)
        assert "not measured" in again.reason
        subject.decide(PLANT.window(target))
        subject._state = State.VERIFY


def test_over_the_power_cap_it_goes_lower_until_it_fits() -> None:
    plant = Plant(compute_s=0.03)
    cap_w = 22.0
    decisions = drive(governor(max_slowdown=0.5, power_cap_w=cap_w), 40, plant.window)
    held = [decision.target_hz for decision in decisions if decision.state is State.HOLD]
    assert held
    assert all(plant.power_w(hz) <= cap_w for hz in held)
    assert plant.power_w(held[-1]) > 0.6 * cap_w


def test_a_cap_is_kept_even_where_it_costs_energy() -> None:
    # Racing to idle would be cheaper here, but is not allowed.
    plant = Plant(floor_s=0.0, static_w=40.0, dynamic_w=10.0)
    subject = governor(policy_of(plant.leaf()), max_slowdown=9.0, power_cap_w=46.0)
    decisions = drive(subject, 40, plant.window)
    last = [each for each in decisions if each.state is not State.BASELINE][-1]
    assert last.state is State.HOLD
    assert last.target_hz is not None
    assert plant.power_w(last.target_hz) <= 46.0


@pytest.mark.parametrize("budget", [0.05, 9.0])
def test_a_cap_that_no_clock_keeps_leaves_the_lowest_clock(budget: float) -> None:
    decisions = drive(governor(max_slowdown=budget, power_cap_w=1.0), 60, PLANT.window)
    assert State.FALLBACK not in states(decisions)
    targets = [d.target_hz for d in decisions[10:] if d.state is not State.BASELINE]
    assert set(targets) == {POINTS[0]}
    assert "over the cap of 1.0 W at the lowest operating point" in decisions[-1].reason


def test_a_cap_is_kept_when_the_machine_takes_more_power_than_before() -> None:
    cap_w, count = 26.0, iter(range(1000))

    def measure(hz: int | None) -> Window:
        return scaled(PLANT.window(hz), dearer=1.3 if next(count) > 30 else 1.0)

    decisions = drive(governor(max_slowdown=5.0, power_cap_w=cap_w), 120, measure)
    held = [d.target_hz for d in decisions[60:] if d.state is State.HOLD]
    assert State.FALLBACK not in states(decisions)
    assert held
    assert all(1.3 * PLANT.power_w(hz) <= cap_w for hz in held)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("steps_held", [3, 15])
def test_baseline_windows_take_at_most_their_share_of_the_steps(
    share: float, steps_held: int
) -> None:
    subject = governor(baseline_share=share)
    decision, first = subject.first(), True
    baseline = governed = windows = 0
    for _ in range(400):
        steps = steps_held if decision.state is State.HOLD else 3
        state, target = decision.state, decision.target_hz
        decision = subject.decide(PLANT.window(target, steps=steps))
        if target is not None:
            governed, first = governed + steps, False
        elif not first:
            assert state is State.BASELINE
            baseline, windows = baseline + steps, windows + 1
    assert windows >= 1
    assert baseline <= share * governed + 3


def test_a_share_of_zero_measures_the_baseline_at_the_start_alone() -> None:
    decisions = drive(governor(baseline_share=0.0, max_slowdown=0.15), 200, PLANT.window)
    assert State.BASELINE not in states(decisions[4:])


@pytest.mark.parametrize("share", [-0.01, 0.51, float("nan")])
def test_a_share_that_leaves_nothing_to_govern_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="share of baseline windows"):
        governor(baseline_share=share)


def test_baseline_windows_recur_where_no_steps_are_seen() -> None:
    decisions = drive(governor(), 300, stepless)
    recurring = states(decisions[10:]).count(State.BASELINE)
    assert 1 <= recurring <= 0.05 * 290 + 1


def test_after_a_baseline_window_it_goes_back_to_what_it_held() -> None:
    decisions = drive(governor(), 200, PLANT.window)
    held = next(d.target_hz for d in decisions if d.state is State.HOLD)
    after = [b for a, b in pairwise(decisions[20:]) if a.state is State.BASELINE]
    assert after
    assert {(each.state, each.target_hz) for each in after} == {(State.HOLD, held)}


def test_told_to_fall_back_it_decides_nothing_more() -> None:
    subject = asked()
    subject.fall_back()
    assert states(drive(subject, 60, PLANT.window))[1:] == [State.FALLBACK] * 60
