"""Features: what a window is reduced to, and what is missing stays missing."""

from dataclasses import replace

import pytest

from orin_gov.policy.features import FEATURES, features_of
from orin_gov.policy.window import Window

WINDOW = Window(
    start_ns=0,
    end_ns=2_500_000_000,
    duration_s=2.0,
    target_hz=None,
    steps=4,
    work=400.0,
    unit="unit of work",
    energy_j=60.0,
    phase_time_s={
        "data": 0.2,
        "forward": 0.6,
        "backward": 1.0,
        "optimizer": 0.1,
        "idle": 0.1,
    },
    frequency_hz=650e6,
    load=0.8,
)
SHARES = ("data_share", "forward_share", "backward_share", "optimizer_share", "idle_share")


def test_the_features_of_a_window_are_its_shares_means_and_the_budget() -> None:
    features = features_of(WINDOW, top_hz=1_300_000_000, max_slowdown=0.1)
    assert features == pytest.approx(
        {
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
        }
    )
    assert list(features) == list(FEATURES)


def test_a_phase_that_took_no_time_has_no_share() -> None:
    window = replace(WINDOW, phase_time_s={"forward": 1.0})
    assert features_of(window, 1, 0.1)["data_share"] == 0.0


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"load": None}, {"load"}),
        ({"frequency_hz": None}, {"clock_share"}),
        ({"energy_j": None}, {"power_w"}),
        ({"steps": 0, "phase_time_s": {}}, {*SHARES, "step_s"}),
        ({"phase_time_s": {}}, {*SHARES, "step_s"}),
    ],
)
def test_what_was_not_measured_is_none_and_never_zero(
    changes: dict[str, object], missing: set[str]
) -> None:
    features = features_of(replace(WINDOW, **changes), 1_300_000_000, 0.1)  # type: ignore[arg-type]
    assert {name for name, value in features.items() if value is None} == missing
