"""The governor as a state machine, over windows of a simple analytic plant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov.errors import PolicyError
from orin_gov.policy.governor import BASELINE_WINDOWS, LEAST_NOISE, Decision, Governor, State
from orin_gov.policy.objective import OBJECTIVES, Objective
from orin_gov.policy.tree import Leaf, Policy, Split
from orin_gov.policy.window import Window

POINTS = (306_000_000, 408_000_000, 510_000_000, 714_000_000, 918_000_000, 1_122_000_000)
TOP = POINTS[-1]
WORK = 1000.0


@dataclass(frozen=True)
class Plant:
    """Time and power over the clock; the board's own governor runs at the top."""

    floor_s: float = 1.0
    compute_s: float = 0.8
    static_w: float = 12.0
    dynamic_w: float = 25.0

    def window(self, target_hz: int | None, **changes: object) -> Window:
        share = (target_hz or TOP) / TOP
        time_s = (self.floor_s**4 + (self.compute_s / share) ** 4) ** 0.25
        voltage = max(0.7, 0.4 + 0.6 * share)
        power_w = self.static_w + self.dynamic_w * voltage**2 * share
        window = Window(
            start_ns=0,
            end_ns=round(time_s * 1e9),
            duration_s=time_s,
            target_hz=target_hz,
            steps=10,
            work=WORK,
            unit="unit of work",
            energy_j=power_w * time_s,
            phase_time_s={"forward": 0.4 * time_s, "backward": 0.6 * time_s},
            frequency_hz=float(target_hz or TOP),
            load=0.9,
        )
        return replace(window, **changes)  # type: ignore[arg-type]


def policy(hz: float) -> Policy:
    """Return a policy that always says `hz`."""
    tree = (Leaf(hz, saving=0.2, slowdown=0.05, samples=1),)
    return Policy(dict.fromkeys(("energy", "edp", "ed2p"), tree), {})


def governor(hz: float = TOP, advise: bool = False, **objective: object) -> Governor:
    return Governor(policy(hz), POINTS, Objective(**objective), advise)  # type: ignore[arg-type]


def drive(
    governor: Governor, windows: int, measure: Callable[[int | None], Window]
) -> list[Decision]:
    """Return the first decision and those after each of so many windows."""
    decisions = [governor.first()]
    for _ in range(windows):
        decisions.append(governor.decide(measure(decisions[-1].target_hz)))
    return decisions


def states(decisions: Sequence[Decision]) -> list[State]:
    return [decision.state for decision in decisions]


def settled(governor: Governor) -> Governor:
    """Return the governor after its baseline: it has just asked the tree."""
    drive(governor, 1 + BASELINE_WINDOWS, Plant().window)
    return governor


def test_it_warms_up_measures_a_baseline_and_asks_the_tree() -> None:
    decisions = drive(governor(918e6), 3, Plant().window)
    assert states(decisions) == [State.WARMUP, State.BASELINE, State.BASELINE, State.VERIFY]
    assert [decision.target_hz for decision in decisions] == [None, None, None, 918_000_000]
    assert decisions[-1].predicted_saving == 0.2
    assert decisions[-1].predicted_slowdown == 0.05


def test_the_path_through_the_tree_is_told() -> None:
    tree = (Split("load", 0.5, 1, 2, "left"), Leaf(306e6, 0, 0, 1), Leaf(918e6, 0, 0, 1))
    subject = Governor(Policy({"energy": tree}, {}), POINTS, Objective())
    asked = drive(subject, 3, Plant().window)[-1]
    assert asked.path == ("load 0.9 > 0.5",)
    assert asked.target_hz == 918_000_000


def test_a_leaf_between_two_operating_points_goes_to_the_nearer() -> None:
    assert drive(governor(560e6), 3, Plant().window)[-1].target_hz == 510_000_000
    assert drive(governor(5e6), 3, Plant().window)[-1].target_hz == POINTS[0]


def test_it_finds_the_best_neighbour_and_holds_it() -> None:
    plant = Plant()
    decisions = drive(governor(918e6, max_slowdown=0.5), 12, plant.window)
    energy = {hz: plant.window(hz).energy_j for hz in POINTS}
    best = min(energy, key=energy.__getitem__)  # type: ignore[arg-type]
    assert states(decisions)[4:6] == [State.REFINE, State.REFINE]
    held = [decision.target_hz for decision in decisions if decision.state is State.HOLD]
    assert held
    assert set(held) == {best}


@pytest.mark.parametrize("budget", [0.0, 0.02, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("leaf", POINTS)
def test_what_it_holds_keeps_the_budget(budget: float, leaf: int) -> None:
    plant = Plant()
    decisions = drive(governor(leaf, max_slowdown=budget), 30, plant.window)
    reference_s = plant.window(None).duration_s
    last = [decision for decision in decisions if decision.state is not State.BASELINE][-1]
    assert last.state in (State.HOLD, State.FALLBACK)
    slowdown = plant.window(last.target_hz).duration_s / reference_s - 1
    assert slowdown <= budget + LEAST_NOISE


def test_over_the_budget_it_goes_as_much_faster_as_it_must() -> None:
    # Purely compute-bound: time is proportional to 1/clock, so 10 % slower is the 1122 MHz point.
    plant = Plant(floor_s=0.0)
    decisions = drive(governor(306e6, max_slowdown=0.3), 5, plant.window)
    assert decisions[4].target_hz == 918_000_000
    assert "over the budget of 30.0%" in decisions[4].reason


def test_missing_twice_it_falls_back_for_good() -> None:
    subject = settled(governor(306e6, max_slowdown=0.01))
    first = subject.decide(Plant().window(306_000_000))
    assert first.state is State.VERIFY
    slow = Plant().window(first.target_hz, duration_s=99.0)
    second = subject.decide(slow)
    assert (second.state, second.target_hz) == (State.FALLBACK, None)
    assert "missed twice" in second.reason
    assert states(drive(subject, 30, Plant().window))[1:] == [State.FALLBACK] * 30


def test_one_miss_is_forgiven_when_the_next_window_keeps_its_promise() -> None:
    subject = settled(governor(918e6))
    for _ in range(2):
        target = subject.decide(Plant().window(918_000_000, energy_j=99.0)).target_hz
        assert target == 1_122_000_000
        good = Plant().window(target, energy_j=5.0)
        assert subject.decide(good).state in (State.REFINE, State.HOLD)


def test_a_point_that_costs_more_than_the_baseline_is_a_miss() -> None:
    subject = settled(governor(714e6, max_slowdown=1.0))
    missed = subject.decide(Plant().window(714_000_000, energy_j=99.0))
    assert (missed.state, missed.target_hz) == (State.VERIFY, 918_000_000)
    assert "worse than the baseline" in missed.reason


@pytest.mark.parametrize("changes", [{"duration_s": 9.0}, {"energy_j": 99.0}, {"energy_j": None}])
def test_a_look_at_a_neighbour_that_fails_goes_back_and_breaks_no_promise(
    changes: dict[str, object],
) -> None:
    subject = settled(governor(918e6, max_slowdown=0.5))
    looking = subject.decide(Plant().window(918_000_000))
    assert (looking.state, looking.target_hz) == (State.REFINE, 714_000_000)
    back = subject.decide(Plant().window(714_000_000, **changes))
    assert (back.state, back.target_hz) == (State.HOLD, 918_000_000)
    # Nor does it count as half of a fallback.
    missed = subject.decide(Plant().window(918_000_000, energy_j=99.0))
    assert missed.state is State.VERIFY


def test_noise_decides_nothing() -> None:
    subject = settled(governor(TOP))
    base = Plant().window(TOP)
    assert base.energy_j is not None
    noisy = replace(base, energy_j=base.energy_j * 1.05, noise=0.04)
    assert subject.decide(noisy).state is not State.VERIFY
    subject = settled(governor(TOP))
    assert subject.decide(replace(noisy, noise=0.001)).state is State.VERIFY


def test_a_noisy_time_counts_more_in_edp_than_in_energy() -> None:
    # 1.8 % slower at the same power: 1.8 % of energy, 5.5 % of ed2p, all of it within the noise.
    worse = Plant().window(TOP, noise=0.01)
    assert worse.energy_j is not None
    worse = replace(worse, duration_s=1.018 * worse.duration_s, energy_j=1.018 * worse.energy_j)
    for name in ("energy", "edp", "ed2p"):
        assert settled(governor(TOP, name=name)).decide(worse).state is not State.VERIFY


def test_over_the_power_cap_it_lowers_the_clock_until_it_fits() -> None:
    plant = Plant(compute_s=0.3)
    cap_w = 25.0
    decisions = drive(governor(TOP, max_slowdown=0.5, power_cap_w=cap_w), 40, plant.window)
    verified = [d.target_hz for d in decisions if d.state is State.VERIFY]
    assert verified == sorted(verified, reverse=True)  # type: ignore[type-var]
    assert len(verified) > 1
    assert "over the cap of 25.0 W" in decisions[4].reason
    held = [decision.target_hz for decision in decisions if decision.state is State.HOLD]
    assert held
    assert all((plant.window(hz).power_w or 99) <= cap_w for hz in held)


def test_a_cap_is_kept_even_where_it_costs_energy() -> None:
    # Racing to idle would be cheaper here, but is not allowed.
    plant = Plant(floor_s=0.0, static_w=40.0, dynamic_w=10.0)
    decisions = drive(governor(918e6, max_slowdown=9.0, power_cap_w=46.0), 20, plant.window)
    assert decisions[-1].state is State.HOLD
    assert (plant.window(decisions[-1].target_hz).power_w or 99) <= 46.0


def test_a_cap_that_no_clock_keeps_leaves_the_lowest_clock() -> None:
    decisions = drive(governor(TOP, max_slowdown=9.0, power_cap_w=1.0), 30, Plant().window)
    assert {decision.target_hz for decision in decisions[10:]} == {POINTS[0]}
    assert "at the lowest operating point" in decisions[-1].reason


def test_a_point_over_the_cap_is_looked_at_once_only() -> None:
    def measure(hz: int | None) -> Window:
        return Plant().window(hz, energy_j=500.0 if hz == POINTS[1] else 10.0)

    decisions = drive(governor(POINTS[0], max_slowdown=9.0, power_cap_w=100.0), 40, measure)
    assert [decision.target_hz for decision in decisions].count(POINTS[1]) == 1


def test_baseline_windows_recur_ever_less_often_down_to_one_in_twenty() -> None:
    subject = Governor(policy(TOP), (TOP,), Objective())  # no search before the first one
    decisions = drive(subject, 300, Plant().window)
    at = [i for i, state in enumerate(states(decisions)) if state is State.BASELINE]
    governed = [b - a - 1 for a, b in pairwise(at)]
    assert governed[:6] == [0, 3, 4, 5, 6, 7]
    assert governed[16:20] == [18, 19, 19, 19]


def test_after_a_baseline_window_it_goes_back_to_what_it_held() -> None:
    decisions = drive(governor(918e6), 40, Plant().window)
    held = decisions[9].target_hz
    for before, after in pairwise(decisions[9:]):
        if before.state is State.BASELINE:
            assert (after.state, after.target_hz) == (State.HOLD, held)


def test_the_reference_is_frozen_so_that_budgets_do_not_compound() -> None:
    subject = settled(governor(TOP, max_slowdown=0.1))
    slower = 1.0
    held = []
    for _ in range(60):
        slower *= 1.01
        window = Plant().window(TOP)
        outcome = subject.outcome(replace(window, duration_s=window.duration_s * slower))
        assert outcome.slowdown == pytest.approx(slower - 1)
        subject.decide(Plant().window(TOP))
        held.append(outcome)
    assert held[-1].saving == pytest.approx(0.0)


@pytest.mark.parametrize("name", ["energy", "edp"])
def test_in_advise_mode_it_goes_on_from_windows_that_nothing_was_written_for(name: str) -> None:
    subject = governor(918e6, advise=True, name=name)
    told = drive(subject, 20, lambda _: Plant().window(None))
    assert states(told)[3:] == [State.ADVISE] * 18
    assert {decision.target_hz for decision in told[3:]} == {918_000_000}


def test_advice_needs_no_energy() -> None:
    told = drive(governor(918e6, advise=True), 9, lambda _: Plant().window(None, energy_j=None))
    assert told[-1].state is State.ADVISE


def test_without_any_energy_it_falls_back_and_says_why() -> None:
    decisions = drive(governor(), 5, lambda hz: Plant().window(hz, energy_j=None))
    assert decisions[-1].state is State.FALLBACK
    assert "energy was not measured; missed twice" in decisions[3].reason
    assert all(decision.target_hz is None for decision in decisions)


def test_one_baseline_window_without_energy_is_measured_again() -> None:
    subject = governor(918e6)
    subject.decide(Plant().window(None))
    assert subject.decide(Plant().window(None, energy_j=None)).state is State.BASELINE
    assert states(drive(subject, 2, Plant().window))[1:] == [State.BASELINE, State.VERIFY]


def test_one_window_without_energy_is_measured_again_and_two_are_too_many() -> None:
    subject = settled(governor(918e6))
    again = subject.decide(Plant().window(918_000_000, energy_j=None))
    assert (again.state, again.target_hz) == (State.VERIFY, 918_000_000)
    fallen = subject.decide(Plant().window(918_000_000, energy_j=None))
    assert fallen.state is State.FALLBACK
    assert "not measured" in fallen.reason


def test_objective_time_needs_no_energy_and_takes_the_top() -> None:
    subject = governor(306e6, name="time")
    decisions = drive(subject, 12, lambda hz: Plant().window(hz, energy_j=None))
    assert decisions[3].target_hz == TOP
    assert decisions[-1].state is State.HOLD
    assert decisions[-1].target_hz == TOP


@pytest.mark.parametrize("work", [None, 0.0])
def test_without_work_there_is_nothing_to_compare_and_it_waits(work: float | None) -> None:
    idle = {"work": work, "steps": 0, "phase_time_s": {}, "unit": "busy cycle"}
    subject = governor(918e6)
    waiting = drive(subject, 8, lambda hz: Plant().window(hz, **idle))
    assert states(waiting)[1:] == [State.BASELINE] * 8
    assert states(drive(subject, 2, Plant().window))[1:] == [State.BASELINE, State.VERIFY]


def test_windows_without_steps_are_governed_by_busy_cycles() -> None:
    timed = {"steps": 0, "phase_time_s": {}, "unit": "busy cycle"}
    decisions = drive(governor(918e6), 12, lambda hz: Plant().window(hz, **timed))
    assert State.HOLD in states(decisions)


def test_when_work_is_counted_otherwise_the_baseline_is_measured_anew() -> None:
    timed = {"steps": 0, "phase_time_s": {}, "unit": "busy cycle", "work": 1e9}
    subject = governor(918e6)
    drive(subject, 8, lambda hz: Plant().window(hz, **timed))
    anew = subject.decide(Plant().window(918_000_000))
    assert (anew.state, anew.target_hz) == (State.BASELINE, None)
    assert "unit of work" in anew.reason
    decisions = drive(subject, 12, Plant().window)
    assert State.FALLBACK not in states(decisions)
    assert State.HOLD in states(decisions)


def test_an_outcome_before_the_baseline_is_unknown() -> None:
    outcome = governor().outcome(Plant().window(None))
    assert (outcome.slowdown, outcome.saving, outcome.gain) == (None, None, None)


def test_an_outcome_is_told_against_the_baseline_per_unit_of_work() -> None:
    subject = settled(governor())
    base = Plant().window(None)
    assert base.energy_j is not None
    window = replace(base, work=2 * WORK, duration_s=2.2 * base.duration_s, energy_j=base.energy_j)
    outcome = subject.outcome(window)
    assert outcome.slowdown == pytest.approx(0.1)
    assert outcome.saving == pytest.approx(0.5)
    assert subject.outcome(replace(window, energy_j=None)).saving is None
    assert subject.outcome(replace(window, work=None)).slowdown is None


def test_told_to_fall_back_it_decides_nothing_more() -> None:
    subject = settled(governor(918e6))
    subject.fall_back()
    assert states(drive(subject, 5, Plant().window))[1:] == [State.FALLBACK] * 5


def test_one_operating_point_is_no_choice_and_no_fault() -> None:
    subject = Governor(policy(918e6), (TOP,), Objective())
    decisions = drive(subject, 40, Plant().window)
    assert {decision.target_hz for decision in decisions} == {None, TOP}
    assert decisions[-1].state in (State.HOLD, State.BASELINE)


def test_a_policy_without_the_objectives_tree_is_refused() -> None:
    with pytest.raises(PolicyError, match="no tree for 'edp', only energy"):
        Governor(Policy({"energy": (Leaf(1e9, 0, 0, 1),)}, {}), POINTS, Objective("edp"))


PLANTS = st.builds(
    Plant,
    floor_s=st.floats(0.0, 2.0),
    compute_s=st.floats(0.1, 3.0),
    static_w=st.floats(1.0, 40.0),
    dynamic_w=st.floats(1.0, 60.0),
)


@given(PLANTS, st.sampled_from(POINTS), st.floats(0.0, 2.0), st.sampled_from(OBJECTIVES))
@settings(max_examples=150, deadline=None)
def test_on_any_quiet_plant_it_comes_to_rest_within_the_budget(
    plant: Plant, leaf: int, budget: float, name: str
) -> None:
    decisions = drive(governor(leaf, max_slowdown=budget, name=name), 60, plant.window)
    tail = [d for d in decisions[25:] if d.state is not State.BASELINE]
    assert len({(decision.state, decision.target_hz) for decision in tail}) == 1
    assert tail[-1].state in (State.HOLD, State.FALLBACK)
    slower = plant.window(tail[-1].target_hz).duration_s / plant.window(None).duration_s - 1
    assert slower <= budget + LEAST_NOISE


MISSING = st.none() | st.floats(1e-3, 1e6)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "duration_s": st.floats(1e-3, 1e5),
        "energy_j": MISSING,
        "work": st.none() | st.just(0.0) | st.floats(1e-3, 1e9),
        "steps": st.integers(0, 3),
        "phase_time_s": st.just({}),
        "unit": st.sampled_from(["unit of work", "unit of work", "step", "busy cycle"]),
        "frequency_hz": MISSING,
        "load": st.none() | st.floats(0, 1),
        "noise": st.none() | st.floats(0, 10) | st.just(float("nan")),
    },
)


@given(
    st.lists(CHANGES, max_size=40),
    st.sampled_from([POINTS, POINTS[:1], POINTS[:2]]),
    st.floats(1.0, 5e9),
    st.sampled_from(OBJECTIVES),
    st.none() | st.floats(0.1, 1000.0),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_measured_it_only_asks_for_its_operating_points(
    changes: list[dict[str, object]],
    points: tuple[int, ...],
    leaf: float,
    name: str,
    cap_w: float | None,
    advise: bool,
) -> None:
    subject = Governor(policy(leaf), points, Objective(name, 0.1, cap_w), advise)
    decision, fallen = subject.first(), False
    for change in changes:
        window = Plant().window(None if advise else decision.target_hz, **change)
        subject.outcome(window)
        decision = subject.decide(window)
        assert decision.target_hz is None or decision.target_hz in points
        assert decision.reason
        fallen = fallen or decision.state is State.FALLBACK
        assert not fallen or (decision.state, decision.target_hz) == (State.FALLBACK, None)


def test_points_that_open_or_close_make_it_measure_anew_and_choose_among_them() -> None:
    plant, to = Plant(), governor(TOP, max_slowdown=5.0)
    decision = to.first()
    for _ in range(6):
        decision = to.decide(plant.window(decision.target_hz))
    assert decision.target_hz is not None
    decision = to.set_points(POINTS[:3], "another writer set 306-510 MHz")
    assert (decision.state, decision.target_hz) == (State.BASELINE, None)
    assert decision.reason.startswith("another writer set 306-510 MHz; ")
    asked = set()
    for _ in range(20):
        decision = to.decide(plant.window(decision.target_hz))
        asked.add(decision.target_hz)
    assert asked <= {None, *POINTS[:3]}
    to.set_points(POINTS, "the cap is gone")
    for _ in range(BASELINE_WINDOWS):
        decision = to.decide(plant.window(None))
    assert decision.target_hz == TOP


def test_after_falling_back_new_points_change_nothing() -> None:
    to = governor(TOP)
    to.fall_back()
    assert to.set_points(POINTS[:3], "told").state is State.FALLBACK
    assert to.decide(Plant().window(None)).target_hz is None


def test_an_adviser_that_is_given_control_governs() -> None:
    to = governor(TOP, advise=True)
    to.set_points(POINTS, "the GPU appeared", advise=False)
    for _ in range(BASELINE_WINDOWS):
        decision = to.decide(Plant().window(None))
    assert (decision.state, decision.target_hz) == (State.VERIFY, TOP)


def test_a_gain_within_the_sensors_resolution_is_none() -> None:
    def best(coarseness: float) -> int | None:
        to = governor(TOP)
        decision = to.first()
        for _ in range(6):
            decision = to.decide(Plant().window(decision.target_hz, coarseness=coarseness))
        return decision.target_hz

    assert best(0.0) != TOP  # a lower clock is better by some percent
    assert best(0.2) == TOP
