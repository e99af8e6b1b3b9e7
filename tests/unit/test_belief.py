"""The belief: a Kalman filter, held against conditioning a Gaussian in one go."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov.policy.answer import Answer, Prior, at_clocks, halves_at_clocks
from orin_gov.policy.belief import GUESS, GUESS_STEPS, Belief, Scatter, log_ratio

N = 4
ENERGY, TIME = np.array([-0.2, -0.15, -0.05, 0.0]), np.array([0.3, 0.1, 0.02, 0.0])
REFERENCE_ERROR = 0.004


def prior(seed: int = 0, rest: float = 0.01) -> Prior:
    deviations = 0.05 * np.random.default_rng(seed).normal(size=(3, 2 * N))
    return Prior(Answer(ENERGY, TIME), deviations.T @ deviations + rest**2 * np.eye(2 * N))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int | None, float, float, float, float, float]]:
    """Windows: point, energy, time, their errors, and the walk before it."""
    ratio, error = st.floats(-0.5, 0.5), st.floats(1e-3, 0.05)
    window = st.tuples(
        st.none() | st.integers(0, N - 1), ratio, ratio, error, error, st.floats(0.0, 0.02)
    )
    return draw(st.lists(window, min_size=1, max_size=8))


def conditioned(history, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of points and the last walk, from one joint Gaussian of everything.

    The unknowns are the points and each increment of the walk; windows are linear in them.
    """
    steps = len(history)
    size = 2 * N + 2 + 2 * steps
    mean = np.zeros(size)
    mean[: 2 * N] = prior.answer.joined
    cov = np.zeros((size, size))
    cov[: 2 * N, : 2 * N] = prior.covariance
    cov[2 * N : 2 * N + 2, 2 * N : 2 * N + 2] = REFERENCE_ERROR**2 * np.eye(2)
    rows, seen, errors = [], [], []
    for i, (point, energy, time, energy_error, time_error, walk) in enumerate(history):
        at = 2 * N + 2 + 2 * i
        cov[at : at + 2, at : at + 2] = walk**2 * np.array([[1.0, 0.8], [0.8, 1.0]])
        for half, value, error in ((0, energy, energy_error), (1, time, time_error)):
            row = np.zeros(size)
            row[2 * N + half : at + 2 : 2] = 1.0
            if point is not None:
                row[half * N + point] = 1.0
            rows.append(row)
            seen.append(value)
            errors.append(error**2)
    h = np.stack(rows)
    gain = cov @ h.T @ np.linalg.inv(h @ cov @ h.T + np.diag(errors))
    mean = mean + gain @ (np.array(seen) - h @ mean)
    cov = cov - gain @ h @ cov
    now = np.zeros((2 * N + 2, size))
    now[:, : 2 * N + 2] = np.eye(2 * N + 2)
    for half in (0, 1):
        now[2 * N + half, 2 * N + half :: 2] = 1.0
    return now @ mean, now @ cov @ now.T


def filtered(history, prior: Prior) -> Belief:
    belief = Belief(prior, REFERENCE_ERROR)
    for point, energy, time, energy_error, time_error, walk in history:
        belief.pass_window(walk)
        belief.observe(point, energy, time, energy_error, time_error)
    return belief


@given(histories())
@settings(deadline=None)
def test_window_by_window_it_believes_what_all_windows_at_once_would_say(history) -> None:
    belief = filtered(history, prior())
    mean, cov = conditioned(history, prior())
    assert belief.answer.joined == pytest.approx(mean[: 2 * N], abs=1e-7)
    assert belief.machine == pytest.approx(mean[2 * N :], abs=1e-7)
    spread = np.sqrt(np.diag(cov))
    assert belief.time_error == pytest.approx(spread[N : 2 * N], abs=1e-7)
    # Of the objective against the baseline, and against another point.
    for exponent in (0, 1, 2):
        rows = np.hstack([np.eye(N), exponent * np.eye(N)])
        inner = cov[: 2 * N, : 2 * N]
        for one in (None, 1):
            against = rows if one is None else rows - rows[one]
            expected = np.sqrt(np.maximum(np.diag(against @ inner @ against.T), 0))
            assert belief.difference_error(exponent, one) == pytest.approx(expected, abs=1e-6)
        assert belief.objective(exponent) == pytest.approx(rows @ mean[: 2 * N], abs=1e-6)


def test_before_any_window_it_believes_its_prior() -> None:
    belief = Belief(prior(), REFERENCE_ERROR)
    assert belief.answer.energy == pytest.approx(ENERGY)
    assert belief.answer.time == pytest.approx(TIME)
    assert belief.machine == (0.0, 0.0)


def test_a_window_at_one_point_moves_the_others_along_the_deviations() -> None:
    # Of this family it is known: what is slower at point 0 is half as much slower at point 1.
    way = np.zeros(2 * N)
    way[N : N + 2] = [0.10, 0.05]
    belief = Belief(Prior(Answer(ENERGY, TIME), np.outer(way, way) + 1e-8 * np.eye(2 * N)), 1e-6)
    belief.observe(0, None, TIME[0] + 0.08, 0.001, 0.001)
    moved = belief.answer.time - TIME
    assert moved[0] == pytest.approx(0.08, rel=1e-3)
    assert moved[1] == pytest.approx(0.04, rel=1e-2)
    assert moved[2:] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert belief.answer.energy == pytest.approx(ENERGY, abs=1e-6)
    # What was learnt of the other is as well known.
    assert belief.time_error[1] < 0.002 < 0.05


def test_a_machine_that_moves_is_told_by_baseline_windows_and_by_no_point() -> None:
    belief = Belief(prior(), 1e-4)
    for _ in range(20):
        belief.pass_window(0.02)
        belief.observe(None, 0.10, 0.12, 0.001, 0.001)
    assert belief.machine == pytest.approx((0.10, 0.12), abs=1e-3)
    assert belief.answer.time == pytest.approx(TIME, abs=1e-6)
    # A point that is slower by as much then is no slower than it was.
    window = (1, ENERGY[1] + 0.10, TIME[1] + 0.12, 0.001, 0.001)
    assert belief.surprise(*window)[0] < 1
    belief.observe(*window)
    assert belief.answer.time == pytest.approx(TIME, abs=2e-3)


def test_the_lesson_is_how_far_off_the_policy_was() -> None:
    belief = Belief(prior(), 1e-6)
    assert belief.lesson.joined == pytest.approx(np.zeros(2 * N))
    for _ in range(50):
        belief.observe(0, ENERGY[0] - 0.04, TIME[0] + 0.05, 1e-3, 1e-3)
    assert belief.lesson.energy[0] == pytest.approx(-0.04, abs=1e-3)
    assert belief.lesson.time[0] == pytest.approx(0.05, abs=1e-3)
    moved = prior().shifted(belief.lesson, 0.5)
    assert moved.answer.time[0] == pytest.approx(TIME[0] + 0.025, abs=1e-3)
    assert moved.covariance is not None


def test_a_value_that_is_missing_or_no_number_teaches_nothing() -> None:
    belief = Belief(prior(), REFERENCE_ERROR)
    for value in (None, math.nan, math.inf, -math.inf):
        assert belief.surprise(1, value, value, 0.001, 0.001) == (0.0, 0.0)
        belief.observe(1, value, value, 0.001, 0.001)
    assert belief.answer.joined == pytest.approx(prior().answer.joined)


def test_a_surprise_counts_standard_deviations() -> None:
    belief = Belief(Prior(Answer(ENERGY, TIME), 0.03**2 * np.eye(2 * N)), 0.0)
    found = belief.surprise(2, ENERGY[2], TIME[2] + 0.15, 0.04, 0.04)
    assert found == pytest.approx((3.0, 0.15))
    assert belief.answer.time == pytest.approx(TIME)


def test_a_new_belief_recalls_what_an_older_one_measured_and_where_the_machine_is() -> None:
    old, new = Belief(prior(), 1e-3), Belief(prior(seed=1), 1e-3)
    for _ in range(20):
        old.pass_window(0.02)
        old.observe(None, 0.10, 0.12, 0.001, 0.001)
        old.observe(2, 0.13, 0.33, 0.001, 0.001)
    new.recall(old, [2], 0.002)
    assert new.machine == pytest.approx(old.machine, abs=1e-3)
    assert new.answer.energy[2] == pytest.approx(0.03, abs=3e-3)
    assert new.answer.time[2] == pytest.approx(0.21, abs=3e-3)


def test_doubt_makes_it_learn_anew() -> None:
    sure, doubting = (Belief(prior(rest=1e-4), REFERENCE_ERROR) for _ in range(2))
    for belief in (sure, doubting):
        for _ in range(50):
            belief.observe(0, ENERGY[0], TIME[0], 0.002, 0.002)
    doubting.widen_smoothly(0.05)
    for belief in (sure, doubting):
        belief.observe(0, ENERGY[0] + 0.05, TIME[0] + 0.05, 0.002, 0.002)
    assert sure.answer.time[0] == pytest.approx(TIME[0], abs=0.002)
    assert doubting.answer.time[0] == pytest.approx(TIME[0] + 0.05, abs=0.002)


def test_after_very_many_windows_its_errors_are_still_errors() -> None:
    rng = np.random.default_rng(1)
    belief = Belief(prior(rest=1e-3), 1e-3)
    for _ in range(5000):
        belief.pass_window()
        point = int(rng.integers(-1, N))
        belief.observe(None if point < 0 else point, *rng.normal(0, 0.01, 2), 1e-4, 1e-4)
    for errors in (belief.time_error, belief.difference_error(2, 0)):
        assert np.isfinite(errors).all()
    assert (belief.time_error > 0).all()
    assert (belief.time_error < 0.05).all()


def test_a_belief_has_as_many_points_as_its_prior() -> None:
    one = Prior(Answer(ENERGY[:1], TIME[:1]), 1e-4 * np.eye(2))
    belief = Belief(one, 0.001)
    belief.observe(0, -0.1, 0.1, 0.01, 0.01)
    assert belief.answer.energy.shape == belief.time_error.shape == (1,)


@pytest.mark.parametrize("ratio", [None, 0.0, -1.0, math.nan, math.inf, -math.inf])
def test_what_has_no_logarithm_is_missing(ratio: float | None) -> None:
    assert log_ratio(ratio) is None
    assert log_ratio(math.e) == pytest.approx(1.0)


def test_scatter_is_pooled_over_windows_and_begins_as_a_guess() -> None:
    scatter = Scatter()
    assert scatter.of(4) == pytest.approx(GUESS / 2)
    rng = np.random.default_rng(2)
    for _ in range(400):
        steps = rng.normal(1.0, 0.05, 5)
        scatter.add(float(steps.std(ddof=1) / 5**0.5 / steps.mean()), 5)
    assert scatter.of(1) == pytest.approx(0.05, rel=0.05)
    assert scatter.of(25) == pytest.approx(0.01, rel=0.05)
    assert scatter.freedom == GUESS_STEPS + 400 * 4


@pytest.mark.parametrize(("error", "steps"), [(None, 5), (math.nan, 5), (math.inf, 5), (0.1, 1)])
def test_a_window_that_tells_no_scatter_adds_none(error: float | None, steps: int) -> None:
    scatter = Scatter()
    scatter.add(error, steps)
    assert scatter == Scatter()
    assert scatter.of(0) == scatter.of(1)


def test_between_knots_it_interpolates_and_beyond_the_nearest_stands() -> None:
    knots, values = (0.2, 0.6, 1.0), np.array([3.0, 1.0, 0.0])
    assert at_clocks(knots, values, [0.1, 0.2, 0.4, 1.0, 1.3]).tolist() == [3, 3, 2, 0, 0]
    rows = np.stack([np.concatenate([values, 10 * values])])
    assert halves_at_clocks(knots, rows, [0.4]).tolist() == [[2.0, 20.0]]


@given(histories(), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))
@settings(deadline=None)
def test_against_another_governor_of_the_boards_own_all_points_move_alike(
    history, energy: float, time: float
) -> None:
    belief, before = filtered(history, prior()), filtered(history, prior())
    belief.rebase(energy, time, 0.003, 0.004)
    moved_j, moved_s = before.machine
    assert belief.answer.energy == pytest.approx(before.answer.energy + moved_j - energy)
    assert belief.answer.time == pytest.approx(before.answer.time + moved_s - time)
    assert belief.machine == (0.0, 0.0)
    for one in range(N):
        told = belief.difference_error(1, one), before.difference_error(1, one)
        assert told[0] == pytest.approx(told[1], abs=1e-7)
    # A window at a point is expected where it would have been: only the reference is another.
    assert belief.surprise(1, *_as_before(before, energy, time), 1e-9, 1e-9)[1] < 1e-7


def _as_before(before: Belief, energy: float, time: float) -> tuple[float, float]:
    """What point 1 is expected to take of a reference that lies so far from the earlier one."""
    answer, machine = before.answer, before.machine
    return answer.energy[1] + machine[0] - energy, answer.time[1] + machine[1] - time


def test_a_new_reference_errs_alike_for_all_windows_after_it() -> None:
    belief = Belief(prior(), 1e-6)
    belief.observe(1, -0.2, 0.1, 1e-6, 1e-6)
    belief.rebase(-0.05, 0.02, 0.01, 0.01)
    assert belief.time_error[1] == pytest.approx(0.01, rel=1e-3)
    # The error of the new reference is in the window at the point as well: it tells nothing new.
    belief.observe(1, -0.15, 0.08, 1e-6, 1e-6)
    assert belief.time_error[1] == pytest.approx(0.01, rel=1e-3)
    belief.observe(None, 0.007, 0.006, 1e-6, 1e-6)
    assert belief.time_error[1] < 1e-4
    assert belief.answer.time[1] == pytest.approx(0.08 - 0.006, abs=1e-4)


def test_what_is_believed_of_some_points_is_what_is_believed_of_all() -> None:
    belief = filtered([(2, -0.1, 0.05, 0.01, 0.01, 0.001)], prior())
    some = belief.of([1, 3])
    assert some.answer.energy == pytest.approx(belief.answer.energy[[1, 3]])
    assert some.time_error == pytest.approx(belief.time_error[[1, 3]])
    assert some.difference_error(1, 0)[1] == pytest.approx(belief.difference_error(1, 1)[3])
    assert some.lesson.time == pytest.approx(belief.lesson.time[[1, 3]])
    some.observe(0, -0.3, 0.2, 1e-3, 1e-3)
    assert belief.answer.energy[1] != pytest.approx(some.answer.energy[0])
