"""Deadlines and energy budgets: met where they can be, and said so where they cannot."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plants import PLANT, POINTS, Plant, policy_of, policy_of_all_plants, stepless

from orin_gov.commands.amounts import parse_deadline, parse_watt_hours
from orin_gov.deciding import load_policy
from orin_gov.errors import UsageError
from orin_gov.policy.decision import Decision, State
from orin_gov.policy.evidence import Evidence
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.pace import Pace
from orin_gov.policy.pinned import Pinned
from orin_gov.policy.plan import span_words
from orin_gov.policy.tree import Policy
from orin_gov.policy.window import Progress
from orin_gov.record.kept import kept_plan
from orin_gov.sight import Sight
from orin_gov.tally import Tally
from orin_gov.view.plan import plan_lines
from orin_gov.virtual import simulate
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.job import Job, Pause
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.simulation import SimulatedRun

BOARD = load_board("agx-orin-64gb")
POLICY, ALL_PLANTS = load_policy(None), policy_of_all_plants()
WORKLOADS = ("bert-base/sst2", "bert-tiny/cola", "pythia-70m/cola", "deberta-v2-xlarge/mrpc")
RESERVE = 1.03
NOISE = 1.01


def job_of(workload: str, steps: int) -> Job:
    """A job with an evaluation now and then, and one at its end."""
    job = parse_workload(workload).job(BOARD)
    evaluation = next(pause for pause in job.pauses if pause.phase == "eval")
    pauses = (Pause("eval", evaluation.law, 1, steps // 8),)
    return replace(job, steps=steps // 8 * 8, pauses=pauses)


def governed(job: Job, seed: int, **objective: object) -> SimulatedRun:
    wanted = Objective(steps=job.steps, **objective)  # type: ignore[arg-type]
    return simulate(BOARD, job, Governor(POLICY, BOARD.frequencies_hz, wanted), seed=seed)


def notices(run: SimulatedRun) -> list[str]:
    return [each.decision.notice for each in run.epochs if each.decision.notice]


jobs = st.builds(job_of, st.sampled_from(WORKLOADS), st.integers(400, 700))
seeds = st.integers(0, 1000)


@settings(max_examples=6, deadline=None)
@given(job=jobs, seed=seeds, room=st.floats(RESERVE, 1.6), name=st.sampled_from(["energy", "edp"]))
def test_a_deadline_that_the_top_clock_meets_with_a_reserve_is_met(
    job: Job, seed: int, room: float, name: str
) -> None:
    top = simulate(BOARD, job, Pinned(BOARD.top_hz), seed=seed)
    deadline_s = room * top.elapsed_s
    run = governed(job, seed, name=name, max_slowdown=1.0, deadline_s=deadline_s)
    assert run.elapsed_s <= deadline_s
    assert notices(run) == []


@settings(max_examples=6, deadline=None)
@given(
    job=jobs,
    seed=seeds,
    room=st.floats(1.04, 1.3),
    name=st.sampled_from(["time", "edp", "ed2p", "energy"]),
    max_slowdown=st.sampled_from([0.1, 0.5]),
)
def test_an_energy_budget_that_suffices_within_the_slowdown_is_kept(
    job: Job, seed: int, room: float, name: str, max_slowdown: float
) -> None:
    own = simulate(BOARD, job, Pinned(None), seed=seed)
    pinned = [simulate(BOARD, job, Pinned(hz), seed=seed) for hz in BOARD.frequencies_hz[::3]]
    least_j = min(
        each.energy_j
        for each in (own, *pinned)
        if each.steps_time_s <= own.steps_time_s * (1 + max_slowdown)
    )
    budget_j = room * least_j
    run = governed(job, seed, name=name, max_slowdown=max_slowdown, energy_budget_j=budget_j)
    assert run.energy_j <= NOISE * budget_j
    assert notices(run) == []


@settings(max_examples=5, deadline=None)
@given(job=jobs, seed=seeds, share=st.floats(0.3, 0.85))
def test_a_deadline_that_cannot_be_met_is_told_once_and_run_for_as_fast_as_can_be(
    job: Job, seed: int, share: float
) -> None:
    top = simulate(BOARD, job, Pinned(BOARD.top_hz), seed=seed)
    run = governed(job, seed, max_slowdown=1.0, deadline_s=share * top.elapsed_s)
    told = notices(run)
    assert len(told) == 1
    assert told[0].startswith("the deadline cannot be kept: ")
    assert run.elapsed_s <= 1.05 * top.elapsed_s


@settings(max_examples=5, deadline=None)
@given(job=jobs, seed=seeds, share=st.floats(0.3, 0.85))
def test_an_energy_budget_that_cannot_be_kept_is_told_once(
    job: Job, seed: int, share: float
) -> None:
    least_j = min(
        simulate(BOARD, job, Pinned(hz), seed=seed).energy_j
        for hz in (None, *BOARD.frequencies_hz[::3])
    )
    run = governed(job, seed, name="edp", energy_budget_j=share * least_j)
    told = notices(run)
    assert len(told) == 1
    assert told[0].startswith("the energy budget cannot be kept: ")
    assert "which reach step" in told[0]
    reached = int(told[0].split("which reach step ")[1].split()[0])
    assert reached == pytest.approx(job.steps * share * least_j / run.energy_j, rel=0.25)


def running(
    plant: Plant,
    objective: Objective,
    n: int,
    spent_j: float | None,
    policy: Policy = ALL_PLANTS,
    asleep_s: float = 0.0,
) -> list[Decision]:
    """The decisions of a governor over `n` windows of the plant, with what they add up to."""
    governor = Governor(policy, POINTS, objective)
    decision, found = governor.first(), []
    steps, elapsed_s, used_j = 0, 10.0, spent_j
    for _ in range(n):
        window = plant.window(decision.target_hz)
        steps, elapsed_s = steps + window.steps, elapsed_s + window.duration_s
        used_j = None if used_j is None else used_j + (window.energy_j or 0.0)
        progress = Progress(steps, elapsed_s - 10.0, elapsed_s, used_j, used_j, asleep_s)
        decision = governor.decide(replace(window, progress=progress))
        found.append(decision)
    return found


def test_the_reason_says_how_much_slower_the_deadline_allows() -> None:
    plant = Plant()
    own_s = 300 * plant.step_s(None)
    objective = Objective(max_slowdown=0.5, deadline_s=10 + 1.1 * own_s, steps=300)
    held = running(plant, objective, 30, 0.0)[-1]
    assert held.target_hz is not None
    assert 0 < plant.slowdown(held.target_hz) <= 0.1
    words = held.reason.rpartition("; ")[2]
    assert words.endswith("% slower")
    assert " left for 210 steps: at most " in words


def test_a_deadline_does_not_wait_for_a_machine_that_is_suspended() -> None:
    objective = Objective(
        "energy", 0.5, deadline_s=10 + 1.4 * 300 * Plant().step_s(None), steps=300
    )

    def left_s(asleep_s: float) -> float:
        reason = running(Plant(), objective, 3, 0.0, asleep_s=asleep_s)[-1].reason
        return float(reason.rpartition("; ")[2].partition(" s left")[0])

    assert left_s(7.0) == left_s(0.0) - 7.0


def test_a_deadline_far_off_changes_nothing() -> None:
    far = Objective(deadline_s=1e6, energy_budget_j=1e9, steps=300)
    assert running(Plant(), far, 20, 0.0) == running(Plant(), Objective(), 20, 0.0)


def test_after_more_steps_than_planned_the_plan_is_over() -> None:
    over = Objective(deadline_s=10.5, steps=5)
    assert running(Plant(), over, 20, 0.0)[5:] == running(Plant(), Objective(), 20, 0.0)[5:]


def test_energy_that_is_not_measured_is_told_and_the_deadline_still_planned() -> None:
    objective = Objective("time", deadline_s=60, energy_budget_j=1e5, steps=300)
    told = [each.notice for each in running(Plant(), objective, 20, None) if each.notice]
    assert told == ["the energy budget cannot be planned: energy is not measured"]


def test_an_energy_budget_over_the_slowdown_budget_says_what_would_do() -> None:
    plant = Plant()
    at = {hz: plant.energy(hz) for hz in POINTS if plant.energy(hz) < 1}
    best = min(at, key=at.__getitem__)
    budget_j = 1.25 * at[best] * 3000 * plant.power_w(None) * plant.step_s(None)
    objective = Objective(max_slowdown=0.01, energy_budget_j=budget_j, steps=3000)
    known = policy_of(plant.leaf())
    told = [each.notice for each in running(plant, objective, 30, 0.0, known) if each.notice]
    assert len(told) == 1
    assert "it would suffice at" in told[0]


def test_a_plan_takes_the_number_of_steps() -> None:
    for options in ({"deadline_s": 60.0}, {"energy_budget_j": 60.0}):
        with pytest.raises(UsageError, match="--steps N"):
            Objective(**options)  # type: ignore[arg-type]
    for wrong in ({"deadline_s": 0.0}, {"energy_budget_j": np.inf}, {"steps": 0}):
        with pytest.raises(UsageError, match="expected"):
            Objective(**{"steps": 5, **wrong})  # type: ignore[arg-type]


NOW = datetime(2026, 11, 30, 17, 30)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5400", 5400),
        ("45s", 45),
        ("90m", 5400),
        ("90min", 5400),
        ("2h30m", 9000),
        ("2h 30m 5s", 9005),
        ("1.5h", 5400),
        ("18:30", 3600),
        ("18:30:15", 3615),
        ("17:30", 24 * 3600),
        ("2026-12-01T17:30", 24 * 3600),
    ],
)
def test_deadlines_as_they_are_typed(text: str, seconds: float) -> None:
    assert parse_deadline(text, NOW) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "0", "-5", "0h", "2026-11-30T17:29", "nan", "1e9", "h"]
)
def test_no_deadline_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--deadline is"):
        parse_deadline(text, NOW)


@given(st.integers(0, 10**6))
def test_a_span_in_words_reads_back_to_its_minute(seconds: int) -> None:
    if seconds:
        assert parse_deadline(span_words(seconds), NOW) == pytest.approx(seconds, abs=60)


def test_watt_hours_as_they_are_typed() -> None:
    assert parse_watt_hours("50") == parse_watt_hours("50Wh") == 180_000
    with pytest.raises(UsageError, match="expected watt-hours"):
        parse_watt_hours("full")


def test_the_summary_tells_whether_the_plan_was_kept() -> None:
    objective = Objective(deadline_s=5400, energy_budget_j=36_000, steps=100)
    met = {**kept_plan(objective, 3661.0, 30_000.0, 100), "steps": 100}
    assert list(plan_lines(met)) == [
        ("deadline", "met: 1 h 01 min of 1 h 30 min"),
        ("battery", "met: 8.33 of 10 Wh"),
    ]
    ((_, time), (_, energy)) = plan_lines({**met, "virtual": "agx-orin-64gb"})
    assert (time, energy) == ("met: 1 h 01 min of 1 h 30 min", "met: 8.33 of 10 Wh (simulated)")
    missed = {**kept_plan(objective, 5401.0, None, 99), "steps": 99}
    assert list(plan_lines(missed)) == [
        ("deadline", "missed: 1 h 30 min of 1 h 30 min; 99 of 100 steps"),
        ("battery", "unknown: not measured, of 10 Wh; 99 of 100 steps"),
    ]
    assert kept_plan(Objective(), 1.0, 1.0, 1) == {}


def test_what_comes_before_the_first_step_is_no_pause() -> None:
    pace, evidence = Pace(), Evidence()
    for elapsed_s in (5.0, 10.0, 15.0):
        pace.see(replace(stepless(None), progress=Progress(0, 0.0, elapsed_s)), evidence)
    for steps in (3, 6):
        progress = Progress(steps, 0.1 * steps, 30.0 + 0.1 * steps)
        pace.see(replace(PLANT.window(None), progress=progress), evidence)
    assert pace.is_known
    assert (pace.between_s, pace.longest_pause_s) == pytest.approx((0.0, 0.0))


def test_progress_is_what_the_whole_run_came_to() -> None:
    tally = Tally(steps=10, step_time_s=20.0, steps_with_energy=8, step_energy_j=40.0)
    assert tally.progress(33.0, 90.0, 7.0) == Progress(10, 20.0, 33.0, 50.0, 90.0, 7.0)
    assert Tally().progress(1.0, None, 0.0) == Progress(0, 0.0, 1.0, None, None)


def test_the_energy_spent_covers_gaps_and_is_missing_where_a_rail_is() -> None:
    sight = Sight(Decision(State.WARMUP, None, ""))
    assert sight.module_energy_j(["A", "B"], ["A", "B"]) is None
    sight.span_s, sight.energy_j, sight.measured_s = 10.0, (100.0, 40.0, 0.0), (10.0, 8.0, 0.0)
    assert sight.module_energy_j(["A", "B", "C"], ["A", "B"]) == pytest.approx(150.0)
    assert sight.module_energy_j(["A", "B", "C"], ["A", "C"]) is None
    assert sight.module_energy_j(["A", "B", "C"], None) is None
