"""The governor where something changes: the machine, the work, the tree's leaf, the operating points."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from plants import (
    PLANT,
    POINTS,
    WORK,
    Plant,
    asked,
    best_within,
    drive,
    governor,
    holding,
    policy_of,
    scaled,
    states,
    stepless,
)

from orin_gov.policy.decision import State
from orin_gov.policy.governor import BASELINE_WINDOWS, Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import Split
from orin_gov.policy.window import StepSample, Window


@pytest.mark.parametrize("slower", [1.5, 0.7])
def test_a_machine_that_moves_is_no_slowdown(slower: float) -> None:
    # Baseline and governed windows are slowed alike, bit by bit, by half in the end.
    count = iter(range(10**6))

    def measure(hz: int | None) -> Window:
        factor = slower ** min(1.0, next(count) / 150)
        return scaled(PLANT.window(hz), slower=factor, dearer=factor)

    decisions = drive(governor(max_slowdown=0.15), 300, measure)
    assert State.FALLBACK not in states(decisions)
    held = [d.target_hz for d in decisions[-60:] if d.state is State.HOLD]
    assert set(held) == {best_within(PLANT, 0.15)}


@pytest.mark.parametrize("slower", [1.04, 1.3, 3.0])
def test_a_machine_that_jumps_is_no_slowdown(slower: float) -> None:
    subject = governor(max_slowdown=0.1)
    held = holding(subject, PLANT.window)
    decision, seen = held, []
    for _ in range(60):
        window = scaled(PLANT.window(decision.target_hz), slower=slower, dearer=slower)
        decision = subject.decide(window)
        seen.append(decision)
    assert State.FALLBACK not in states(seen)
    assert {d.target_hz for d in seen[-20:] if d.state is State.HOLD} == {held.target_hz}


def test_an_outcome_leaves_out_how_far_the_machine_has_moved() -> None:
    subject = asked(max_slowdown=0.1)
    decision = subject.decide(PLANT.window(best_within(PLANT, 0.1)))
    for _ in range(12):
        subject.decide(scaled(PLANT.window(None), slower=1.02, dearer=1.02))
    slow = subject.outcome(scaled(PLANT.window(decision.target_hz), slower=1.02))
    assert slow.slowdown == pytest.approx(PLANT.slowdown(decision.target_hz), abs=0.003)


def test_when_the_steps_work_changes_the_baseline_is_measured_anew() -> None:
    subject = governor()
    held = holding(subject, PLANT.window)
    longer = scaled(PLANT.window(held.target_hz), slower=2.0, dearer=2.0, work=2 * WORK * 3)
    decision = subject.decide(longer)
    assert (decision.state, decision.target_hz) == (State.BASELINE, None)
    assert "the steps' work has changed" in decision.reason


def test_when_work_is_counted_otherwise_the_baseline_is_measured_anew() -> None:
    subject = governor()
    drive(subject, 8, stepless)
    anew = subject.decide(PLANT.window(POINTS[2]))
    assert (anew.state, anew.target_hz) == (State.BASELINE, None)
    assert "unit of work" in anew.reason
    decisions = drive(subject, 12, PLANT.window)
    assert State.FALLBACK not in states(decisions)
    assert State.HOLD in states(decisions)


def of_lengths(hz: int | None, lengths: Sequence[float]) -> Window:
    """Return a window whose steps take half their time whatever their length, in tokens."""
    window = PLANT.window(hz, steps=len(lengths))
    step_s, step_j = (each / window.steps for each in (window.duration_s, window.energy_j or 0.0))
    parts = [0.5 + 0.5 * length / WORK for length in lengths]
    samples = [
        StepSample(length, step_s * part, step_j * part)
        for length, part in zip(lengths, parts, strict=True)
    ]
    return replace(
        window,
        work=sum(lengths),
        duration_s=step_s * sum(parts),
        energy_j=step_j * sum(parts),
        samples=samples,
        noise=0.0,
    )


def test_another_mix_of_lengths_looks_like_neither_saving_nor_slowdown() -> None:
    rng = np.random.default_rng(0)
    subject = governor(max_slowdown=0.1)
    drive(subject, 3, lambda hz: of_lengths(hz, [40.0, 100.0, 190.0, 70.0]))
    decision = subject.decide(of_lengths(None, [40.0, 100.0, 190.0]))
    for i in range(60):
        around = 50.0 if i % 2 else 180.0  # short and long by turns
        window = of_lengths(decision.target_hz, (around + rng.uniform(-10, 10, 3)).tolist())
        outcome = subject.outcome(window)
        assert outcome.saving == pytest.approx(1 - PLANT.energy(decision.target_hz), abs=0.01)
        assert outcome.slowdown == pytest.approx(PLANT.slowdown(decision.target_hz), abs=0.01)
        decision = subject.decide(window)
        assert decision.state is not State.FALLBACK
    assert decision.target_hz in (None, best_within(PLANT, 0.1))


def test_lengths_that_scatter_widely_do_not_keep_it_from_ever_beginning() -> None:
    rng = np.random.default_rng(3)
    lengths = np.exp(rng.normal(4.6, 0.6, (60, 3)))
    count = iter(range(60))
    decisions = drive(governor(), 60, lambda hz: of_lengths(hz, lengths[next(count)].tolist()))
    assert states(decisions).count(State.HOLD) > 30


def test_once_the_tree_leads_elsewhere_it_asks_it_again_and_keeps_what_it_measured() -> None:
    other = Plant(0.12, 0.06).leaf()
    tree = policy_of(Split("load", 0.5, 1, 2, "right"), other, PLANT.leaf())
    subject = governor(tree, max_slowdown=0.1)
    held = holding(subject, PLANT.window)
    before = subject._evidence.belief.answer  # type: ignore[union-attr]
    decisions = drive_on(subject, held.target_hz, 12, load=0.2)
    assert any(d.path == ("load 0.2 <= 0.5",) for d in decisions)
    after = subject._evidence.belief.answer  # type: ignore[union-attr]
    for point in subject._evidence.measured:
        assert after.time[point] == pytest.approx(before.time[point], abs=0.002)
    assert State.FALLBACK not in states(decisions)


def drive_on(subject: Governor, target: int | None, windows: int, **changes: object) -> list:
    decisions = []
    for _ in range(windows):
        decisions.append(subject.decide(PLANT.window(target, **changes)))
        target = decisions[-1].target_hz
    return decisions


def test_another_leaf_does_not_forget_how_far_the_machine_has_moved() -> None:
    other = Plant(0.12, 0.06).leaf()
    tree = policy_of(Split("load", 0.5, 1, 2, "right"), other, PLANT.leaf())
    subject = governor(tree, max_slowdown=0.1)
    holding(subject, PLANT.window)
    decision = subject.decide(PLANT.window(None))
    for _ in range(60):  # 10 % slower by and by, and the load falls in the end
        moved = scaled(PLANT.window(decision.target_hz), slower=1.1, dearer=1.1)
        decision = subject.decide(moved)
    machine = subject._evidence.belief.machine  # type: ignore[union-attr]
    for _ in range(4):
        moved = scaled(PLANT.window(decision.target_hz), slower=1.1, dearer=1.1, load=0.2)
        decision = subject.decide(moved)
    assert decision.path == ("load 0.2 <= 0.5",)
    assert subject._evidence.belief.machine == pytest.approx(machine, abs=0.004)  # type: ignore[union-attr]


def test_points_that_open_or_close_make_it_measure_anew_and_choose_among_them() -> None:
    to = governor(max_slowdown=5.0)
    holding(to, PLANT.window)
    decision = to.set_points(POINTS[:3], "another writer set 306-510 MHz")
    assert (decision.state, decision.target_hz) == (State.BASELINE, None)
    assert decision.reason.startswith("another writer set 306-510 MHz; ")
    asked = set()
    for _ in range(20):
        decision = to.decide(PLANT.window(decision.target_hz))
        asked.add(decision.target_hz)
    assert asked <= {None, *POINTS[:3]}
    to.set_points(POINTS, "the cap is gone")
    for _ in range(BASELINE_WINDOWS):
        decision = to.decide(PLANT.window(None))
    assert decision.target_hz == best_within(PLANT, 5.0)


def test_what_was_measured_before_a_cap_moved_need_not_be_measured_again() -> None:
    subject = governor(max_slowdown=5.0)
    held = holding(subject, PLANT.window)
    decisions = drive(subject, 5, PLANT.window)
    cap_hz = POINTS[4]

    def capped(hz: int | None) -> Window:
        return PLANT.window(hz) if hz else replace(PLANT.window(cap_hz), target_hz=None)

    subject.set_points(POINTS[:5], "a cap")
    decision = subject.decide(capped(None))
    best = min(POINTS[:5], key=PLANT.energy)
    assert (decision.state, decision.target_hz) == (State.HOLD, best)
    # The board's own governor is another one under the cap, and the saving is told against that.
    against = 1 - PLANT.energy(best) / PLANT.energy(cap_hz)
    assert decision.predicted_saving == pytest.approx(against, abs=0.005)
    subject.decide(capped(best))
    subject.set_points(POINTS, "the cap is gone")
    decision = subject.decide(PLANT.window(None))
    assert (decision.state, decision.target_hz) == (State.HOLD, held.target_hz)
    assert decisions[-1].target_hz == held.target_hz
    assert decision.predicted_saving == pytest.approx(1 - PLANT.energy(best), abs=0.005)


def test_a_cap_that_moves_again_before_its_baseline_loses_nothing() -> None:
    subject = governor(max_slowdown=5.0)
    held = holding(subject, PLANT.window)
    subject.set_points(POINTS[:2], "a cap")
    subject.set_points(POINTS[:4], "another cap")
    subject.set_points(POINTS, "no cap")
    decision = subject.decide(PLANT.window(None))
    assert (decision.state, decision.target_hz) == (State.HOLD, held.target_hz)


def with_work(window: Window, factor: float) -> Window:
    """The window with steps of so many times the work, each taking so many times as much."""
    samples = [
        StepSample(factor * each.work, each.time_s, each.energy_j)
        for each in scaled(window, slower=factor, dearer=factor).samples
    ]
    return replace(
        scaled(window, slower=factor, dearer=factor, work=factor * (window.work or 0.0)),
        samples=samples,
    )


def test_the_window_that_told_of_other_work_counts_for_it() -> None:
    subject = governor(max_slowdown=0.15)
    held = holding(subject, PLANT.window)
    subject.decide(with_work(PLANT.window(held.target_hz, steps=15), 3.0))
    decision = subject.decide(with_work(PLANT.window(None), 3.0))
    # It was measured there already: nothing is left to verify.
    assert (decision.state, decision.target_hz) == (State.HOLD, held.target_hz)


def test_where_the_work_changes_once_more_the_window_between_counts_for_nothing() -> None:
    subject = governor(max_slowdown=0.15)
    held = holding(subject, PLANT.window)
    subject.decide(with_work(PLANT.window(held.target_hz, steps=15), 3.0))
    decision = subject.decide(with_work(PLANT.window(None), 9.0))
    assert decision.state is State.VERIFY


def test_of_a_window_that_the_change_fell_into_only_the_later_steps_count() -> None:
    subject = governor(max_slowdown=0.15)
    held = holding(subject, PLANT.window)
    halves = PLANT.window(held.target_hz), with_work(PLANT.window(held.target_hz), 3.0)
    mixed = replace(
        halves[1],
        steps=6,
        work=sum(half.work or 0.0 for half in halves),
        duration_s=sum(half.duration_s for half in halves),
        energy_j=sum(half.energy_j or 0.0 for half in halves),
        samples=[*halves[0].samples, *halves[1].samples],
    )
    subject.decide(mixed)
    subject.decide(with_work(PLANT.window(None), 3.0))
    outcome = subject.outcome(with_work(PLANT.window(held.target_hz), 3.0))
    assert outcome.slowdown == pytest.approx(PLANT.slowdown(held.target_hz), abs=1e-3)


def test_a_baseline_window_that_told_of_other_work_is_the_new_baseline() -> None:
    subject = governor(max_slowdown=0.15)
    held = holding(subject, PLANT.window)
    subject.decide(scaled(PLANT.window(held.target_hz), slower=1.3, dearer=1.3))
    decision = subject.decide(with_work(PLANT.window(None), 3.0))
    assert decision.target_hz == held.target_hz
    assert decision.state is not State.BASELINE


def test_a_baseline_window_that_proves_the_job_another_is_its_first() -> None:
    subject = governor(max_slowdown=0.15)
    held = holding(subject, PLANT.window)
    decisions = [subject.decide(scaled(PLANT.window(held.target_hz), slower=1.3, dearer=1.3))]
    decisions.append(subject.decide(scaled(PLANT.window(None), slower=1.3, dearer=1.3)))
    assert decisions[0].state is State.BASELINE
    assert decisions[1].target_hz == held.target_hz
    outcome = subject.outcome(scaled(PLANT.window(None), slower=1.3, dearer=1.3))
    assert outcome.slowdown == pytest.approx(0.0, abs=0.01)


def test_a_window_at_a_point_that_is_gone_chooses_anew() -> None:
    to = asked()
    decision = to.decide(PLANT.window(612_000_000))
    assert decision.target_hz in POINTS
    assert "another operating point was measured" in decision.reason


def test_after_falling_back_new_points_change_nothing() -> None:
    to = governor()
    to.fall_back()
    assert to.set_points(POINTS[:3], "told").state is State.FALLBACK
    assert to.decide(PLANT.window(None)).target_hz is None


def test_a_gpu_that_appears_late_is_decided_on_as_one_that_was_there() -> None:
    there = governor(max_slowdown=0.1)
    late = Governor(policy_of(), (1,), Objective("energy", 0.1), True)  # no GPU yet
    late.set_points(POINTS, "the GPU appeared", advise=False)
    expected, decision = (drive(each, 3, PLANT.window)[-1] for each in (there, late))
    assert decision.target_hz == expected.target_hz
    assert decision.predicted_saving == pytest.approx(expected.predicted_saving)
