"""Caps on the module's mean, on the GPU's rail and on the 99th percentile."""

from dataclasses import replace

import pytest
from plants import POINTS, Plant, policy_of_all_plants

from orin_gov.commands.run import parse_cap
from orin_gov.errors import UsageError
from orin_gov.policy.decision import State
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.window import Surroundings, Window

PLANT = Plant()
OTHERS_W, SPIKES = 8.0, 1.2


def window(hz: int | None) -> Window:
    found = PLANT.window(hz)
    mean_w = PLANT.power_w(hz)
    return replace(
        found,
        rail_energy_j={"GPU": (mean_w - OTHERS_W) * found.duration_s},
        surroundings=Surroundings(gpu_rail="GPU"),
        power_range_w=(0.9 * mean_w, SPIKES * mean_w),
    )


@pytest.mark.parametrize(
    ("capped", "less_w", "spikes"), [("gpu", OTHERS_W, 1.0), ("p99", 0, SPIKES)]
)
def test_the_fastest_point_under_the_cap_is_held(capped: str, less_w: float, spikes: float) -> None:
    powers = [spikes * PLANT.power_w(hz) - less_w for hz in POINTS]
    cap_w = (powers[2] + powers[3]) / 2
    governor = Governor(
        policy_of_all_plants(), POINTS, Objective("time", 0.0, cap_w, capped_power=capped)
    )
    decision, held = governor.first(), []
    for _ in range(30):
        decision = governor.decide(window(decision.target_hz))
        if decision.state is State.HOLD:
            held.append(decision.target_hz)
    assert held[-5:] == [POINTS[2]] * 5


def test_a_cap_is_held_against_what_it_is_on() -> None:
    found = window(None)
    mean_w = PLANT.power_w(None)
    for capped, power_w in (
        ("module", mean_w),
        ("gpu", mean_w - OTHERS_W),
        ("p99", SPIKES * mean_w),
    ):
        assert Objective(power_cap_w=power_w - 0.1, capped_power=capped).over_power(found)
        assert not Objective(power_cap_w=power_w + 0.1, capped_power=capped).over_power(found)
    blind = replace(found, rail_energy_j={}, power_range_w=None)
    assert not Objective(power_cap_w=1.0, capped_power="gpu").over_power(blind)
    assert not Objective(power_cap_w=1.0, capped_power="p99").over_power(blind)


def test_caps_as_they_are_typed() -> None:
    assert parse_cap(None) == ("module", None)
    assert parse_cap("25") == ("module", 25.0)
    assert parse_cap("gpu:15") == ("gpu", 15.0)
    assert parse_cap("p99:30") == ("p99", 30.0)
    with pytest.raises(UsageError, match="expected a number"):
        parse_cap("gpu:much")
    with pytest.raises(UsageError, match="expected one of module, gpu, p99"):
        Objective(power_cap_w=5.0, capped_power="cpu")
