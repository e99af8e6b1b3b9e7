"""Windows kept as numbers: the same come back, and neighbours that became one add up."""

from dataclasses import replace

import pytest

from orin_gov import compared
from orin_gov.compared import Series
from orin_gov.policy.reference import step_sums
from orin_gov.policy.window import StepSample, Window

OWN = Window(
    start_ns=2**62 + 1,  # no float holds it
    end_ns=2**62 + 10**9,
    duration_s=0.9,
    target_hz=None,
    steps=2,
    work=64.0,
    unit="unit of work",
    energy_j=30.0,
    rail_energy_j={"VDD_GPU_SOC": 20.0, "VDD_CPU_CV": 5.0},
    samples=[StepSample(30.0, 0.4, 14.0), StepSample(34.0, 0.5, None)],
)
LATER = replace(OWN, start_ns=OWN.end_ns, end_ns=OWN.end_ns + 10**9)


def compared_part(window: Window) -> Window:
    """Return the window with the sums over its steps in place of the steps."""
    return replace(window, samples=(), sums=step_sums(window))


def kept(*windows: Window) -> list[Window]:
    series = Series(windows[0].unit, windows[0].target_hz)
    for window in windows:
        series.add(window)
    assert series.count == len(windows)
    return series.windows


@pytest.mark.parametrize(
    "window",
    [
        OWN,
        replace(OWN, work=None, energy_j=None),
        replace(OWN, rail_energy_j={"VDD_GPU_SOC": None, "VDD_CPU_CV": 5.0}),
        replace(OWN, samples=[], unit="busy cycle", steps=0),
        replace(OWN, target_hz=918_000_000, samples=[]),
    ],
)
def test_what_is_compared_of_a_window_comes_back_as_it_was(window: Window) -> None:
    more = replace(window, work=1.5)
    assert kept(window, more) == [compared_part(window), compared_part(more)]


def test_what_the_saving_does_not_compare_is_left_out() -> None:
    rails = {**OWN.rail_energy_j, "VDDQ_VDD2_1V8AO": 3.0}
    whole = replace(OWN, rail_energy_j=rails, load=0.9, phase_time_s={"forward": 0.3}, noise=0.1)
    assert kept(whole) == [compared_part(OWN)]


def test_a_rail_that_the_board_lacks_is_missing() -> None:
    (window,) = kept(replace(OWN, rail_energy_j={}))
    assert window.rail_energy_j == {"VDD_GPU_SOC": None, "VDD_CPU_CV": None}


def test_neighbours_add_up_and_what_one_of_them_lacks_is_missing(monkeypatch) -> None:
    monkeypatch.setattr(compared, "MOST_WINDOWS", 2)
    holed = replace(LATER, energy_j=None, rail_energy_j={"VDD_GPU_SOC": 20.0})
    first, second = kept(OWN, holed, LATER)
    assert second == compared_part(LATER)
    assert first == replace(
        OWN,
        end_ns=LATER.end_ns,
        duration_s=1.8,
        steps=4,
        work=128.0,
        energy_j=None,
        rail_energy_j={"VDD_GPU_SOC": 40.0, "VDD_CPU_CV": None},
        samples=(),
        sums=step_sums(replace(OWN, samples=[*OWN.samples, *OWN.samples])),
    )
    assert kept(OWN, holed, LATER, LATER)[1].energy_j == 60.0
