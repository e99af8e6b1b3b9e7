"""Features: what a window is reduced to, and what is missing stays missing."""

from dataclasses import replace

import pytest

from orin_gov.policy.features import FEATURES, features_of
from orin_gov.policy.window import Surroundings, Window

WINDOW = Window(
    start_ns=0,
    end_ns=2_500_000_000,
    duration_s=2.0,
    target_hz=None,
    steps=4,
    work=400.0,
    unit="unit of work",
    energy_j=60.0,
    rail_energy_j={"VDD_GPU_SOC": 36.0, "VDD_CPU_CV": None},
    phase_time_s={
        "data": 0.2,
        "forward": 0.6,
        "backward": 1.0,
        "optimizer": 0.1,
        "idle": 0.1,
    },
    phase_energy_j={
        "data": 3.0,
        "forward": 18.0,
        "backward": 36.0,
        "optimizer": 2.4,
        "idle": 0.6,
    },
    frequency_hz=650e6,
    load=0.8,
    operations_per_step={"forward": 1e9, "backward": 2e9, "optimizer": 0.0},
    bytes_per_step={"forward": 3e8, "backward": 6e8, "optimizer": 1e8},
    launches_per_step={"forward": 300.0, "backward": 500.0, "optimizer": 20.0},
    power_range_w=(24.0, 39.0),
    surroundings=Surroundings(
        temperature_c=51.5,
        floor_hz=306_000_000,
        ceiling_hz=1_300_500_000,
        emc_hz=3_199_000_000,
        power_mode=2,
        gpu_rail="VDD_GPU_SOC",
        peak_operations_per_cycle=4096.0,
        peak_bytes_per_s=2e11,
    ),
    sensitivity=0.4,
)
EXPECTED = {
    "load": 0.8,
    "clock_share": 0.5,
    "data_share": 0.1,
    "forward_share": 0.3,
    "backward_share": 0.5,
    "optimizer_share": 0.05,
    "idle_share": 0.05,
    "power_w": 30.0,
    "step_s": 0.5,
    "max_slowdown": 0.1,
    "data_energy_share": 0.05,
    "forward_energy_share": 0.3,
    "backward_energy_share": 0.6,
    "optimizer_energy_share": 0.04,
    "idle_energy_share": 0.01,
    "host_gap_share": 0.15,
    "step_cycles": 0.5 * 650e6,
    "tokens_per_step": 100.0,
    "operations_per_step": 3e9,
    "bytes_per_step": 1e9,
    "launches_per_step": 820.0,
    "intensity": 3.0,
    "forward_operations_of_peak": 1e9 / (0.15 * 650e6 * 4096),
    "backward_operations_of_peak": 2e9 / (0.25 * 650e6 * 4096),
    "optimizer_operations_of_peak": 0.0,
    "forward_bytes_of_peak": 3e8 / 0.15 / 2e11,
    "backward_bytes_of_peak": 6e8 / 0.25 / 2e11,
    "optimizer_bytes_of_peak": 1e8 / 0.025 / 2e11,
    "forward_launches_per_s": 2000.0,
    "backward_launches_per_s": 2000.0,
    "optimizer_launches_per_s": 800.0,
    "forward_cycles_per_launch": 325_000.0,
    "backward_cycles_per_launch": 325_000.0,
    "optimizer_cycles_per_launch": 812_500.0,
    "gpu_rail_w": 18.0,
    "other_rails_w": 12.0,
    "gpu_rail_share": 0.6,
    "power_p99_w": 39.0,
    "power_range": 0.5,
    "sensitivity": 0.4,
    "temperature_c": 51.5,
    "floor_hz": 306_000_000,
    "ceiling_hz": 1_300_500_000,
    "emc_hz": 3_199_000_000,
    "power_mode": 2,
}
SHARES = ("data_share", "forward_share", "backward_share", "optimizer_share", "idle_share")


def test_the_features_of_a_window_are_its_shares_means_and_the_budget() -> None:
    features = features_of(WINDOW, top_hz=1_300_000_000, max_slowdown=0.1)
    assert features == pytest.approx(EXPECTED)
    assert list(features) == list(FEATURES)


def test_a_phase_that_took_no_time_has_no_share() -> None:
    window = replace(WINDOW, phase_time_s={"forward": 1.0})
    assert features_of(window, 1, 0.1)["data_share"] == 0.0


COUNTED = {
    name
    for name in FEATURES
    if name.endswith(("_of_peak", "_per_s", "_per_launch")) or name == "intensity"
}
IN_PHASES = {*SHARES, "step_s", "step_cycles", "host_gap_share"}
OF_ENERGY = {name for name in FEATURES if name.endswith("_energy_share")}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"load": None}, {"load"}),
        (
            {"frequency_hz": None},
            {"clock_share", "step_cycles"}
            | {name for name in COUNTED if name.endswith(("operations_of_peak", "_per_launch"))},
        ),
        (
            {"energy_j": None},
            {"power_w", "other_rails_w", "gpu_rail_share", "power_range"} | OF_ENERGY,
        ),
        (
            {"steps": 0, "phase_time_s": {}},
            IN_PHASES | COUNTED - {"intensity"} | {"tokens_per_step"},
        ),
        ({"phase_time_s": {}}, IN_PHASES | COUNTED - {"intensity"}),
        ({"phase_energy_j": {}}, OF_ENERGY),
        ({"phase_energy_j": {"forward": None}}, {"forward_energy_share"}),
        ({"unit": "step"}, {"tokens_per_step"}),
        ({"unit": "busy cycle"}, {"tokens_per_step"}),
        (
            {"operations_per_step": {}, "bytes_per_step": {}, "launches_per_step": {}},
            COUNTED | {"operations_per_step", "bytes_per_step", "launches_per_step"},
        ),
        # By shapes: operations alone.
        (
            {"bytes_per_step": {}, "launches_per_step": {}, "by_shapes": True},
            {name for name in COUNTED if not name.endswith("operations_of_peak")}
            | {"bytes_per_step", "launches_per_step"},
        ),
        ({"power_range_w": None}, {"power_range", "power_p99_w"}),
        ({"rail_energy_j": {}}, {"gpu_rail_w", "other_rails_w", "gpu_rail_share"}),
        ({"sensitivity": None}, {"sensitivity"}),
        (
            {"surroundings": Surroundings()},
            {"temperature_c", "floor_hz", "ceiling_hz", "emc_hz", "power_mode"}
            | {"gpu_rail_w", "other_rails_w", "gpu_rail_share"}
            | {name for name in COUNTED if name.endswith("_of_peak")},
        ),
    ],
)
def test_what_was_not_measured_is_none_and_never_zero(
    changes: dict[str, object], missing: set[str]
) -> None:
    features = features_of(replace(WINDOW, **changes), 1_300_000_000, 0.1)  # type: ignore[arg-type]
    assert {name for name, value in features.items() if value is None} == missing


SHIPPED = (*("load", "clock_share", *SHARES, "power_w", "step_s", "max_slowdown"),)


def test_the_names_that_policies_were_fitted_on_are_still_there() -> None:
    assert tuple(FEATURES)[: len(SHIPPED)] == SHIPPED


def test_a_window_of_power_and_time_alone_has_features() -> None:
    bare = Window(0, 1, 2.0, None, 4, None, "step", 60.0, phase_time_s={"forward": 2.0})
    known = {name for name, value in features_of(bare, 1, 0.1).items() if value is not None}
    assert known == {*SHARES, "power_w", "step_s", "max_slowdown", "host_gap_share"}
