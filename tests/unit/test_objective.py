"""Objectives and constraints."""

import pytest

from orin_gov.errors import UsageError
from orin_gov.policy.objective import OBJECTIVES, Objective
from orin_gov.policy.window import Window


def window(energy_j: float | None = 60.0, work: float | None = 4.0) -> Window:
    return Window(
        start_ns=0,
        end_ns=1,
        duration_s=2.0,
        target_hz=None,
        steps=4,
        work=work,
        unit="step",
        energy_j=energy_j,
    )


@pytest.mark.parametrize(
    ("name", "value"), [("energy", 15.0), ("edp", 7.5), ("ed2p", 3.75), ("time", 0.5)]
)
def test_an_objective_is_energy_times_a_power_of_time_per_work(name: str, value: float) -> None:
    assert Objective(name).value(window()) == value


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_without_its_measurement_is_none(name: str) -> None:
    assert Objective(name).value(window(work=None)) is None
    assert Objective(name).value(window(work=0.0)) is None
    assert (Objective(name).value(window(energy_j=None)) is None) == (name != "time")


@pytest.mark.parametrize(
    ("cap_w", "energy_j", "over"),
    [(None, 60.0, False), (29.9, 60.0, True), (30.0, 60.0, False), (1.0, None, False)],
)
def test_the_mean_power_is_held_against_the_cap(
    cap_w: float | None, energy_j: float | None, over: bool
) -> None:
    assert Objective(power_cap_w=cap_w).over_power(window(energy_j)) is over


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "speed"}, "expected one of energy, edp, ed2p, time"),
        ({"max_slowdown": -0.1}, "expected a share >= 0"),
        ({"max_slowdown": float("nan")}, "expected a share >= 0"),
        ({"max_slowdown": float("inf")}, "expected a share >= 0"),
        ({"power_cap_w": 0.0}, "expected more than 0"),
        ({"power_cap_w": -5.0}, "expected more than 0"),
        ({"power_cap_w": float("nan")}, "expected more than 0"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Objective(**options)  # type: ignore[arg-type]
