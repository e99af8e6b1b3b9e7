"""What a step took: by phase and rail, missing where it was not measured."""

import pytest
from minutes import TOTAL, step, timeline

from orin_gov.measured import MeasuredStep, measure_steps
from orin_gov.workload.tracker import Step


def measure(of: Step, unread: frozenset[str] = frozenset(), resolved: bool = True) -> MeasuredStep:
    (measured,) = measure_steps([of], timeline(unread), TOTAL, resolved)
    return measured


def test_a_step_is_split_by_phase_and_rail() -> None:
    measured = measure(step(0, 1.0, 0.1, 0.2, 0.3))
    assert measured.phase_time_s == pytest.approx({"data": 0.1, "forward": 0.2, "backward": 0.3})
    assert measured.phase_energy_j == pytest.approx({"data": 2.5, "forward": 5.0, "backward": 7.5})
    assert measured.rail_energy_j == pytest.approx({"GPU": 12.0, "CPU": 3.0, "inside": 0.6})
    assert measured.energy_j == pytest.approx(15.0)


def test_a_step_with_a_rail_of_the_total_missing_has_no_total() -> None:
    measured = measure(step(0, 1.0, 0.1, 0.2), frozenset({"CPU"}))
    assert measured.energy_j is None
    assert measured.phase_energy_j == {"data": None, "forward": None}
    assert measured.rail_energy_j["CPU"] is None
    assert measured.rail_energy_j["GPU"] == pytest.approx(6.0)


def test_a_rail_outside_the_total_may_be_missing() -> None:
    measured = measure(step(0, 1.0, 0.4), frozenset({"inside"}))
    assert measured.energy_j == pytest.approx(10.0)
    assert measured.rail_energy_j["inside"] is None


def test_a_total_that_names_a_rail_the_board_lacks_is_missing() -> None:
    (measured,) = measure_steps([step(0, 1.0, 0.4)], timeline(), ("GPU", "DLA"))
    assert measured.energy_j is None


def test_a_step_outside_what_was_sampled_is_missing() -> None:
    assert measure(step(0, 59.9, 0.4)).energy_j is None


def test_phases_that_the_sensors_do_not_resolve_have_no_energy() -> None:
    whole = step(0, 1.0, 0.1, 0.2, 0.3)
    resolved, lagging = (measure(whole, resolved=each) for each in (True, False))
    assert resolved.energy_j == lagging.energy_j == pytest.approx(25 * 0.6)
    assert resolved.phase_energy_j["forward"] == pytest.approx(25 * 0.2)
    assert set(lagging.phase_energy_j.values()) == {None}
    assert resolved.phase_time_s == lagging.phase_time_s


def test_steps_measured_together_are_as_one_by_one() -> None:
    steps = [step(0, 1.0, 0.1, 0.2), step(1, 2.0), step(2, 3.0, 0.3), step(3, 59.9, 0.4)]
    assert measure_steps(steps, timeline(), TOTAL) == [measure(each) for each in steps]
    assert measure_steps([], timeline(), TOTAL) == []
