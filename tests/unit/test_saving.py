"""The saving and its interval."""

import numpy as np
import pytest

from orin_gov.policy.saving import change, relative_to_baseline
from orin_gov.policy.window import Window


def window(energy_j: float | None, work: float | None = 2.0) -> Window:
    return Window(
        start_ns=0,
        end_ns=1,
        duration_s=4.0,
        target_hz=None,
        steps=1,
        work=work,
        unit="step",
        energy_j=energy_j,
    )


def test_a_change_is_the_ratio_of_geometric_means() -> None:
    found = change([8.0, 2.0], [10.0, 10.0, 10.0])
    assert found is not None
    assert found.value == pytest.approx(-0.6)
    assert (found.n_governed, found.n_baseline) == (2, 3)


def test_the_interval_is_welchs() -> None:
    # Two samples of 3 with equal spread d in their logarithms: 4 degrees of freedom, t = 2.776.
    a, b, d = np.log(0.9), 0.0, 0.01
    governed, baseline = np.exp([a - d, a, a + d]), np.exp([b - d, b, b + d])
    found = change(governed.tolist(), baseline.tolist())
    assert found is not None
    half = 2.776 * d * np.sqrt(2 / 3)
    assert np.log1p(found.low) == pytest.approx(a - half, rel=2e-3)
    assert np.log1p(found.high) == pytest.approx(a + half, rel=2e-3)


def test_samples_without_any_scatter_have_a_point_for_an_interval() -> None:
    found = change([9.0, 9.0], [10.0, 10.0])
    assert found is not None
    assert found.low == found.value == found.high == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("governed", "baseline"), [([], []), ([1.0], [1.0, 1.0]), ([1.0, 1.0, 1.0], [1.0])]
)
def test_fewer_than_two_windows_on_a_side_are_no_comparison(
    governed: list[float], baseline: list[float]
) -> None:
    assert change(governed, baseline) is None


def test_swapping_the_sides_inverts_the_change() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(0, 0.1, 5).tolist(), rng.lognormal(0.2, 0.3, 4).tolist()
    one, other = change(a, b), change(b, a)
    assert one is not None
    assert other is not None
    assert (1 + one.value) * (1 + other.value) == pytest.approx(1)
    assert (1 + one.low) * (1 + other.high) == pytest.approx(1)


@pytest.mark.parametrize(
    ("n_governed", "n_baseline", "sd_governed", "sd_baseline"),
    [(30, 4, 0.01, 0.03), (5, 5, 0.05, 0.01)],
)
def test_the_interval_holds_the_truth_95_times_in_100(
    n_governed: int, n_baseline: int, sd_governed: float, sd_baseline: float
) -> None:
    rng, truth, runs = np.random.default_rng(7), -0.12, 100
    held = 0
    for _ in range(runs):
        governed = 50 * (1 + truth) * rng.lognormal(0, sd_governed, n_governed)
        baseline = 50 * rng.lognormal(0, sd_baseline, n_baseline)
        found = change(governed.tolist(), baseline.tolist())
        assert found is not None
        held += found.low <= truth <= found.high
    # Three standard errors of a share of 0.95 in 100 runs are 0.065.
    assert 0.95 - 0.065 <= held / runs < 1.0


def test_windows_are_compared_per_unit_of_work_and_holes_are_left_out() -> None:
    baseline = [window(10.0), window(10.0), window(20.0, work=4.0)]
    governed = [window(9.0), window(9.0), window(None), window(7.0, work=None)]
    energy, time = relative_to_baseline(governed, baseline)
    assert energy is not None
    assert (energy.n_governed, energy.n_baseline) == (2, 3)
    assert energy.value < 0
    assert time is not None
    assert time.n_governed == 3
