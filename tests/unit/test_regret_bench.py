"""The regret bench: its environment, its rivals, and what it counts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench import _regret_figures as figures
from bench import _regret_measures as measures
from bench._contest import NAMES, contest_figures
from bench._environment import Played, play
from bench._environments_measured import decode_jobs, finetune_jobs, read_podgov_energies
from bench._environments_virtual import drifting_jobs, steady_jobs, with_batch
from bench._measured import read_decode_grid, read_finetune_curves
from bench._ours import OURS, ours, play_ours
from bench._rivals import RIVALS, Podgov, rival
from bench._statistics import by_job, worst_figure
from bench._table_job import Costs, Segment, TableJob, Target
from orin_gov.epoch import Epoch
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.objective import Objective
from orin_gov.policy.window import Window
from orin_gov.virtual.family import workload_family
from orin_gov.virtual.plant import load_board

BOARD = load_board("agx-orin-64gb")
LEAST_ENERGY = Objective("energy", max_slowdown=2.0)
POINTS = tuple(range(100, 1200, 100))
ENERGIES = (30.0, 24.0, 20.0, 17.0, 15.0, 14.0, 14.5, 16.0, 18.0, 21.0, 25.0)
BEST = POINTS[5]


def table(steps: int = 60, **changes: float) -> Segment:
    """A segment whose energies have one valley, and whose step takes 120 over the clock."""
    at: dict[Target, Costs] = {
        hz: Costs(120.0 / hz, energy_j, float(hz), 0.9)
        for hz, energy_j in zip(POINTS, ENERGIES, strict=True)
    }
    at[None] = Costs(120.0 / 1000, 22.0, 1000.0, 0.7)
    return Segment(steps, changes.get("work", 64.0), at)


JOB = TableJob("valley", [table()])


class Follows:
    """Decides as told, window after window, and stays with the last."""

    def __init__(self, targets: Sequence[Target], state: State = State.SWEEP) -> None:
        self.targets, self.state = list(targets), state
        self.windows: list[Window] = []
        self.told: list[tuple[tuple[int, ...], str]] = []

    def _next(self) -> Decision:
        target = self.targets.pop(0) if len(self.targets) > 1 else self.targets[0]
        return Decision(self.state, target, "as told")

    def first(self) -> Decision:
        return self._next()

    def outcome(self, window: Window) -> Outcome:
        return Outcome(None, None, None)

    def decide(self, window: Window) -> Decision:
        self.windows.append(window)
        return self._next()

    def fall_back(self) -> None:
        raise AssertionError("nobody takes the board here")

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        self.told.append((tuple(points_hz), told))
        return self._next()


def played_at(target: Target, noise: float = 0.0) -> Played:
    return play(Follows([target], State.HOLD), JOB, 3, noise=noise)


def test_without_noise_a_step_takes_what_the_table_says() -> None:
    for target, costs in JOB.segments[0].at.items():
        played = played_at(target)
        assert played.step_s == pytest.approx(costs.time_s)
        assert played.step_j == pytest.approx(costs.energy_j)


def test_whoever_stays_at_the_oracles_point_has_no_regret() -> None:
    played = played_at(BEST, noise=0.02)
    assert JOB.segments[0].best(2.0) == BEST
    assert measures.settled_regret(played, 2.0) == pytest.approx(0)
    assert measures.job_excess(played, 2.0) == pytest.approx(0)
    assert measures.settled(played) == measures.Settled(BEST, 0)


def test_a_wrong_point_costs_what_the_table_says_whatever_the_noise() -> None:
    played = played_at(POINTS[-1], noise=0.02)
    assert measures.job_excess(played, 2.0) == pytest.approx(100 * (25.0 / 14.0 - 1))


def test_the_oracle_keeps_the_budget() -> None:
    segment = table()
    assert segment.best(0.0) == 1000
    assert segment.best(0.26) == 800
    assert segment.best_point(-0.5) == POINTS[-1]


def test_the_step_in_which_the_clock_changes_is_in_no_window_but_counts() -> None:
    decider = Follows([None, 500, 500])
    epoch = Epoch(steps=5, least_s=0.0)
    played = play(decider, TableJob("change", [table(40)]), 0, epoch, noise=0.0)
    changed = int(np.flatnonzero(played.dropped)[0])
    assert played.dropped.sum() == 1
    at = JOB.segments[0].at
    assert played.step_j[changed] == pytest.approx((at[None].energy_j + at[500].energy_j) / 2)
    assert played.step_s[changed] == pytest.approx((at[None].time_s + at[500].time_s) / 2)
    first, second = decider.windows[:2]
    assert (first.target_hz, second.target_hz) == (None, 500)
    assert first.energy_j == pytest.approx(first.steps * at[None].energy_j)
    assert second.energy_j == pytest.approx(second.steps * at[500].energy_j)
    assert second.start_ns - first.end_ns == pytest.approx(played.step_s[changed] * 1e9, abs=2)


def test_all_energy_is_in_windows_dropped_steps_or_the_unfinished_window() -> None:
    decider = Follows([None, 300, 700, 500])
    played = play(decider, JOB, 5, Epoch(steps=7, least_s=0.0))
    last = played.epochs[-1].steps
    windows_j = sum(window.energy_j or 0.0 for window in decider.windows)
    dropped = played.dropped.copy()
    dropped[last:] = False
    rest_j = played.step_j[dropped].sum() + played.step_j[last:].sum()
    assert windows_j + rest_j == pytest.approx(played.step_j.sum())


def test_two_deciders_are_compared_on_the_same_steps() -> None:
    one, other = played_at(500, noise=0.01), played_at(700, noise=0.01)
    assert one.other_j([700]) == pytest.approx(other.step_j)
    assert one.other_s([700]) == pytest.approx(other.step_s)
    assert len(set(one.step_j)) == JOB.steps


def test_a_window_has_what_the_product_fills_and_misses_what_it_misses() -> None:
    job = steady_jobs(BOARD, 1, steps=40)[0]
    decider = Follows([BOARD.top_hz])
    play(decider, job, 0, noise=0.01)
    window = decider.windows[0]
    assert sum(window.phase_time_s.values()) == pytest.approx(window.duration_s)
    assert sum(filter(None, window.phase_energy_j.values())) == pytest.approx(window.energy_j)
    module = [rail.label for rail in BOARD.module_rails]
    rails_j = sum(window.rail_energy_j[label] or 0.0 for label in module)
    assert rails_j == pytest.approx(window.energy_j)
    assert sum(sample.time_s for sample in window.samples) == pytest.approx(window.duration_s)
    assert window.frequency_hz == pytest.approx(BOARD.top_hz)
    assert window.load is not None
    assert 0.0 < (window.noise or 0.0) < 0.02
    play(blind := Follows([500]), TableJob("blind", [segment_without_load()]), 0)
    assert blind.windows[0].load is None
    assert not blind.windows[0].phase_time_s


def segment_without_load() -> Segment:
    segment = table(20)
    at = {hz: Costs(c.time_s, c.energy_j, c.clock_hz) for hz, c in segment.at.items()}
    return Segment(segment.steps, segment.work, at)


def test_a_cap_that_moves_is_told_and_clamps_until_then() -> None:
    lower: dict[Target, Costs] = {
        hz: costs for hz, costs in table().at.items() if hz is None or hz <= 600
    }
    job = TableJob("capped", [table(20), Segment(20, 64.0, lower, told="a cap of 600 Hz")])
    decider = Follows([900, 900, 400])
    played = play(decider, job, 0, Epoch(steps=15, least_s=0.0), noise=0.0)
    assert decider.told == [((100, 200, 300, 400, 500, 600), "a cap of 600 Hz")]
    at = table().at
    assert played.dropped[20]
    assert played.step_j[20] == pytest.approx((at[600].energy_j + at[400].energy_j) / 2)
    assert played.step_j[21] == pytest.approx(at[400].energy_j)


def test_a_pause_belongs_to_no_step() -> None:
    pause = {target: (7.0, 70.0) for target in table().at}
    segments = [table(6), Segment(30, 64.0, table().at, pause=pause)]
    decider = Follows([500])
    played = play(decider, TableJob("paused", segments), 0, Epoch(12, least_s=0.0), noise=0.0)
    window = decider.windows[0]
    at = table().at[500]
    assert (played.pause_s, played.pause_j) == (7.0, 70.0)
    assert played.step_j.sum() == pytest.approx(36 * at.energy_j)
    assert window.duration_s == pytest.approx(window.steps * at.time_s)
    assert (window.end_ns - window.start_ns) * 1e-9 == pytest.approx(window.duration_s + 7.0)


@pytest.mark.parametrize("name", ["golden_section", "hill_climbing", "bayesian"])
def test_a_search_finds_the_bottom_of_a_valley(name: str) -> None:
    job = TableJob("long valley", [table(400)])
    played = play(rival(name, POINTS, LEAST_ENERGY, BOARD), job, 0, noise=1e-6)
    regret = measures.settled_regret(played, 2.0)
    assert regret == pytest.approx(0, abs=4.0 if name == "bayesian" else 1e-9)


@pytest.mark.parametrize("name", ["golden_section", "hill_climbing", "bayesian"])
def test_a_search_keeps_the_budget(name: str) -> None:
    job = TableJob("long valley", [table(400)])
    played = play(rival(name, POINTS, Objective("energy", 0.26), BOARD), job, 0, noise=1e-6)
    assert measures.settled(played).target in (800, 900)
    assert measures.slowdown(played, measures.settled(played).step, governed=True) <= 0.26


def test_pins_and_the_default_governor_measure_nothing() -> None:
    assert (played_at_all := play(Podgov(), JOB, 0, noise=0.0)).target.max() == 0
    assert measures.settled(played_at_all) == measures.Settled(None, 0)
    clocks = BOARD.frequencies_hz
    job = steady_jobs(BOARD, 1, steps=40)[0]
    pins = {"pinned_max": clocks[-1], "nvpmodel_15w": 408_000_000, "nvpmodel_50w": 816_000_000}
    for name, clock_hz in pins.items():
        played = play(rival(name, clocks, LEAST_ENERGY, BOARD), job, 0)
        assert set(played.target) == {clock_hz}


def test_one_shot_profiles_30_steps_and_is_blind_afterwards() -> None:
    job = steady_jobs(BOARD, 1, steps=200)[0]
    played = play(rival("one_shot", BOARD.frequencies_hz, LEAST_ENERGY, BOARD), job, 0)
    assert not played.target[:30].any()
    assert len(set(played.target[40:])) == 1
    assert 30 <= measures.settled(played).step < 45


def test_what_is_held_last_counts_from_where_it_was_taken_up() -> None:
    class Looks(Follows):
        def _next(self) -> Decision:
            state = State.HOLD if len(self.targets) % 2 else State.REFINE
            target = self.targets.pop(0) if len(self.targets) > 1 else self.targets[0]
            return Decision(state, target, "as told")

    # Held, a look, held elsewhere, a look, and back: the look that returns unsettles nothing.
    decider = Looks([300, 400, 500, 600, 500])
    epoch = Epoch(steps=5, least_s=0.0)
    played = play(decider, TableJob("looks", [table(200)]), 0, epoch, noise=0.0)
    at_500 = next(seen for seen in played.epochs if seen.decision.target_hz == 500)
    assert measures.settled(played) == measures.Settled(500, at_500.steps)
    assert measures.near_step(played, 2.0) == played.job.steps  # 500 is 7 % off the best


def test_a_point_over_the_budget_is_worth_no_more_than_podgov() -> None:
    played = played_at(BEST)
    best_j = table().at[800].energy_j
    assert measures.settled_regret(played, 0.26) == pytest.approx(100 * (22.0 / best_j - 1))


def test_the_family_drifts_as_it_says() -> None:
    job = drifting_jobs(BOARD, 1, steps=10)[0]
    begun, changed, paused, hot, capped, lifted = job.segments
    top = BOARD.top_hz
    assert changed.work != begun.work
    assert paused.pause
    assert hot.at[top].energy_j > changed.at[top].energy_j
    assert hot.at[top].time_s == pytest.approx(changed.at[top].time_s)
    assert max(capped.points_hz) < top
    assert capped.told is not None
    assert lifted.told is not None
    assert capped.at[None].clock_hz <= max(capped.points_hz)
    assert set(lifted.at) == set(hot.at)


def test_a_drift_that_unsettles_nobody_is_settled_at_once() -> None:
    job = TableJob("drift", [table(60), table(90)])
    epoch = Epoch(steps=3, least_s=0.0)
    played = play(Follows([BEST], State.HOLD), job, 0, epoch)
    (after,) = measures.after_drifts(played, 2.0)
    assert (after.epochs, after.cycles) == (0, False)
    assert after.taken_j == pytest.approx(after.best_j)
    # Three epochs of 15 steps are left out.
    assert after.best_j == pytest.approx(played.step_j[60 + 45 :].sum())
    assert measures.drift_regret(played, 2.0) == pytest.approx(0)


@pytest.mark.parametrize("state", [State.HOLD, State.REFINE])
def test_whoever_goes_to_and_fro_without_a_drift_goes_round_in_circles(state: State) -> None:
    job = TableJob("drift", [table(30), table(200)])
    decider = Follows([500, 600] * 40, state)
    played = play(decider, job, 0, Epoch(steps=3, least_s=0.0))
    (after,) = measures.after_drifts(played, 2.0)
    assert after.cycles


def test_another_batch_size_scales_the_work_of_the_gpu_and_not_the_launches() -> None:
    workload = workload_family(1, 5)[0]
    double = with_batch(BOARD, workload, 2.0)
    top = BOARD.top_hz
    assert double.tokens_per_step == 2 * workload.tokens_per_step
    assert workload.step_s < double.step_s < 2 * workload.step_s
    one, other = workload.laws["backward"], double.laws["backward"]
    longer = BOARD.time_s(other, top) / BOARD.time_s(one, top)
    assert other.dynamic_w * longer == pytest.approx(2 * one.dynamic_w)
    same = with_batch(BOARD, workload, 1.0)
    assert same.step_s == pytest.approx(workload.step_s)
    assert same.laws == pytest.approx(workload.laws) or same.laws == workload.laws


def test_measured_batches_come_out_as_jobs(shared_data: Path) -> None:
    cells = read_decode_grid(shared_data)
    jobs, loads = decode_jobs(BOARD, cells, steps=10)
    assert len(jobs) == len({cell.batch for cell in cells})
    cell = cells[0]
    costs = jobs[0].segments[0].at[round(cell.clock_hz)]
    assert costs.energy_j == pytest.approx(cell.time_s * cell.power_w)
    assert costs.load is None
    # Podgov keeps the GPU of host-bound decoding about 70 % busy.
    assert all(0.6 < load < 0.75 for load in loads.values())
    for job in jobs:
        energies = [costs.energy_j for hz, costs in job.segments[0].at.items() if hz]
        assert min(energies) <= job.segments[0].at[None].energy_j <= max(energies)


def test_published_curves_come_out_as_jobs(shared_data: Path) -> None:
    curves = read_finetune_curves(shared_data)
    jobs, _ = finetune_jobs(BOARD, curves, steps=10)
    for job in jobs:
        curve, segment = curves[job.name], job.segments[0]
        assert set(segment.points_hz) == {round(hz) for hz in curve}
        for hz, energy_j in curve.items():
            assert segment.at[round(hz)].energy_j * job.scale == pytest.approx(energy_j)
    assert set(read_podgov_energies(shared_data)) == set(curves)


def test_every_figure_comes_out(shared_data: Path) -> None:
    curves = read_finetune_curves(shared_data)
    jobs = steady_jobs(BOARD, 2, steps=60)
    tuned = play_ours("loop", finetune_jobs(BOARD, curves, steps=60)[0], LEAST_ENERGY)
    played = play_ours("loop", jobs, LEAST_ENERGY, seeds=2)
    budgets = {b: play_ours("loop", jobs, Objective("energy", b)) for b in (0.1, 0.5)}
    drifted = play_ours("loop", drifting_jobs(BOARD, 2, steps=20), LEAST_ENERGY)
    found = [
        *figures.grid_figures(played, 2.0),
        *figures.finetune_figures(tuned, 2.0, read_podgov_energies(shared_data)),
        *figures.budget_figures(budgets),
        *figures.drift_figures(drifted, 2.0),
    ]
    names = [figure.name for figure in found]
    assert len(names) == len(set(names))
    assert {
        "settled_regret_mean_percent",
        "settled_regret_worst_percent",
        "job_excess_percent",
        "settle_steps_p95",
        "finetune_regret_worst_percent",
        "budget_violation_percent",
        "budget_saving_share_percent",
        "drift_regret_mean_percent",
    } <= set(names)
    assert all(np.isfinite(figure.value) for figure in found)


def test_an_oracle_that_saves_nothing_leaves_no_share_to_tell() -> None:
    idle = TableJob(
        "idle", [Segment(40, 1.0, {500: Costs(1.0, 2.0, 500.0), None: Costs(1, 2, 500)})]
    )
    found = figures.budget_figures({0.1: [play(Podgov(), idle, 0)]})
    assert not any("share" in figure.name for figure in found)
    assert all(np.isfinite(figure.value) for figure in found)


def test_all_deciders_meet_in_the_contest() -> None:
    found = contest_figures(
        BOARD, None, 1, 1, LEAST_ENERGY, Objective("energy", 0.1), steps=(60, 20)
    )
    names = {figure.name for figure in found}
    assert len(NAMES) == len(OURS) + len(RIVALS)
    assert {f"{name}_family_regret_percent" for name in NAMES} <= names
    assert {f"{name}_drift_regret_percent" for name in NAMES} <= names


@pytest.mark.parametrize("name", OURS)
def test_ours_run_a_job_to_its_end(name: str) -> None:
    job = steady_jobs(BOARD, 1, steps=60)[0]
    played = play(ours(name, job.segments[0].points_hz, LEAST_ENERGY), job, 0)
    assert len(played.step_j) == 60
    assert (played.step_j > 0).all()


def test_seeds_are_averaged_before_jobs_are_compared() -> None:
    assert by_job(["a", "b", "a"], [1.0, 5.0, 3.0]) == [2.0, 5.0]
    worst = worst_figure("worst", ["a", "b", "a"], [1.0, 5.0, 3.0], bar="<= 4")
    assert (worst.value, worst.ok) == (5.0, False)
