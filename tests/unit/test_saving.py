"""The saving and its interval."""

import math
from dataclasses import replace

import numpy as np
import pytest

from orin_gov.policy.saving import (
    Expected,
    against_top,
    relative_to_baseline,
    saving,
    why_no_saving,
)
from orin_gov.policy.window import Window

TOP = 1_300_000_000
TRUTH = -0.12


def window(
    at_s: float, energy_j: float | None, hz: int | None, work: float | None = 10.0
) -> Window:
    return Window(
        start_ns=int(at_s * 1e9),
        end_ns=int((at_s + 1) * 1e9),
        duration_s=1.0,
        target_hz=hz,
        steps=10,
        work=work,
        unit="step",
        energy_j=energy_j,
    )


def job(
    order: str, sd_own: float = 0.0, sd_governed: float = 0.0, drift: float = 0.0, seed: int = 0
) -> tuple[list[Window], list[Window]]:
    """Windows in order: b is the baseline, g governed, t at the top; the machine drifts by window."""
    rng = np.random.default_rng(seed)
    windows = []
    for at_s, kind in enumerate(order):
        level = {"b": 0.0, "g": math.log1p(TRUTH), "t": 0.1}[kind] + drift * at_s
        noise = rng.normal(0, sd_own if kind == "b" else sd_governed)
        hz = {"b": None, "g": 900_000_000, "t": TOP}[kind]
        windows.append(window(at_s, 50 * math.exp(level + noise), hz))
    return [w for w in windows if w.target_hz], [w for w in windows if not w.target_hz]


def test_a_saving_without_scatter_has_a_point_for_an_interval() -> None:
    energy, time = relative_to_baseline(*job("bbggggbgg"))
    assert energy is not None
    assert energy.low == pytest.approx(TRUTH)
    assert energy.high == pytest.approx(energy.value) == pytest.approx(TRUTH)
    assert (energy.n_governed, energy.n_baseline) == (6, 3)
    assert time is not None
    assert time.value == pytest.approx(0.0)


@pytest.mark.parametrize("order", ["", "bb", "gg", "bgggg", "bbbbg"])
def test_fewer_than_two_windows_on_a_side_are_no_comparison_and_the_reason_is_told(
    order: str,
) -> None:
    governed, baseline = job(order)
    energy, _ = relative_to_baseline(governed, baseline)
    assert energy is None
    told = why_no_saving(len(governed), len(baseline), energy)
    assert told is not None
    assert f"{len(governed)} governed" in told


def test_missing_energy_is_told_as_the_reason() -> None:
    governed, baseline = job("bbggg")
    energy, time = relative_to_baseline([replace(w, energy_j=None) for w in governed], baseline)
    assert energy is None
    assert time is not None
    assert "missing" in (why_no_saving(3, 2, energy) or "")
    assert why_no_saving(3, 2, time) is None


@pytest.mark.parametrize("drift", [-0.01, 0.01])
def test_a_drifting_machine_looks_like_neither_saving_nor_slowdown(drift: float) -> None:
    energy, _ = relative_to_baseline(*job("bb" + "ggggb" * 6, drift=drift))
    assert energy is not None
    # Between its stops the machine moves by 5 %, in all by 30 %.
    assert energy.value == pytest.approx(TRUTH, abs=0.005)
    assert energy.low <= TRUTH <= energy.high


@pytest.mark.parametrize(
    ("order", "sd_own", "sd_governed"),
    [
        ("bb" + "g" * 10, 0.03, 0.01),
        ("bbgggggbggggg", 0.01, 0.01),
        ("b" + "ggggb" * 4, 0.01, 0.05),
        ("bb" + "g" * 3 + "b" + "g" * 20, 0.02, 0.01),
    ],
)
def test_the_interval_holds_the_truth_95_times_in_100(
    order: str, sd_own: float, sd_governed: float
) -> None:
    runs, held = 400, 0
    for seed in range(runs):
        energy, _ = relative_to_baseline(*job(order, sd_own, sd_governed, seed=seed))
        assert energy is not None
        held += energy.low <= TRUTH <= energy.high
    assert 0.91 <= held / runs <= 0.99


def test_windows_are_compared_per_unit_of_work_and_holes_are_left_out() -> None:
    baseline = [window(0, 10.0, None), window(1, 10.0, None), window(2, 20.0, None, work=20.0)]
    governed = [
        window(3, 9.0, TOP),
        window(4, 9.0, TOP),
        window(5, None, TOP),
        window(6, 7.0, TOP, work=None),
    ]
    energy, time = relative_to_baseline(governed, baseline)
    assert energy is not None
    assert (energy.n_governed, energy.n_baseline) == (2, 3)
    assert energy.value < 0
    assert time is not None
    assert time.n_governed == 3


def test_two_rails_are_told_where_the_board_has_them() -> None:
    def with_rails(windows: list[Window], share: float) -> list[Window]:
        return [
            replace(w, rail_energy_j={"VDD_GPU_SOC": share * 10.0, "VDD_CPU_CV": 5.0, "IN": 90.0})
            for w in windows
        ]

    governed, baseline = job("bbgggg")
    found = saving(with_rails(governed, 0.5), with_rails(baseline, 1.0))
    assert found.two_rail_energy is not None
    assert found.two_rail_energy.value == pytest.approx(10 / 15 - 1)
    assert found.energy is not None
    assert found.energy.value == pytest.approx(TRUTH)
    assert saving(governed, baseline).two_rail_energy is None


def test_against_the_top_is_measured_where_it_was_run_and_else_said_to_be_estimated() -> None:
    believed = Expected(TOP, 0.05, -0.02, 0.01, 0.01)
    estimated = against_top(*job("bbgggg"), believed)
    assert estimated is not None
    assert estimated.estimated
    assert estimated.energy is not None
    assert estimated.energy.value == pytest.approx((1 + TRUTH) / math.exp(0.05) - 1)
    assert estimated.energy.low < estimated.energy.value < estimated.energy.high
    measured = against_top(*job("bbggttgg"), believed)
    assert measured is not None
    assert not measured.estimated
    assert against_top(*job("bbgggg"), None) is None
