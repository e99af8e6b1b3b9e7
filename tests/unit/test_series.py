"""Windows kept as rows: the same come back, and neighbours that became one add up."""

from dataclasses import replace

import numpy as np
import pytest

from orin_gov import series
from orin_gov.policy.compared import BY_ITSELF, rows_of
from orin_gov.policy.reference import step_sums
from orin_gov.policy.window import StepSample, Window
from orin_gov.series import Series

OWN = Window(
    start_ns=2**61 + 1,  # no float holds it
    end_ns=2**61 + 10**9,
    duration_s=0.9,
    target_hz=None,
    steps=2,
    work=64.0,
    unit="unit of work",
    energy_j=30.0,
    rail_energy_j={"VDD_GPU_SOC": 20.0, "VDD_CPU_CV": 5.0},
    samples=[StepSample(30.0, 0.4, 14.0), StepSample(34.0, 0.5, 16.0)],
)
LATER = replace(OWN, start_ns=OWN.end_ns, end_ns=OWN.end_ns + 10**9)


def kept(*windows: Window) -> Series:
    found = Series()
    for window in windows:
        found.add(window)
    assert found.count == len(windows)
    return found


def test_a_window_is_a_row_and_nan_what_is_missing_of_it() -> None:
    row = rows_of([OWN])[0]
    assert (row["start_ns"], row["end_ns"]) == (OWN.start_ns, OWN.end_ns)
    assert (row["target_hz"], row["steps"]) == (BY_ITSELF, 2)
    assert (row["work"], row["duration_s"]) == (64.0, 0.9)
    assert (row["energy_j"], row["two_rails_j"]) == (30.0, 25.0)
    assert tuple(row["time"]) == step_sums(OWN).time
    assert tuple(row["energy"]) == step_sums(OWN).energy
    assert rows_of([replace(OWN, target_hz=918_000_000)])["target_hz"] == 918_000_000
    holed = replace(OWN, work=None, energy_j=None, rail_energy_j={"VDD_GPU_SOC": None})
    holed = replace(holed, samples=[*OWN.samples, StepSample(30.0, 0.4, None)])
    (row,) = rows_of([holed])
    assert np.isnan([row["work"], row["energy_j"], row["two_rails_j"], *row["energy"]]).all()
    assert not np.isnan(row["time"]).any()
    assert len(rows_of([])) == 0


def test_as_long_as_there_is_room_windows_are_kept_one_by_one() -> None:
    windows = [replace(OWN, start_ns=n, work=float(n)) for n in range(series.MOST_WINDOWS)]
    assert (kept(*windows).rows == rows_of(windows)).all()


def test_neighbours_add_up_and_what_one_of_them_lacks_is_missing(monkeypatch) -> None:
    monkeypatch.setattr(series, "MOST_WINDOWS", 2)
    holed = replace(LATER, energy_j=None)
    first, second = kept(OWN, holed, LATER).rows
    assert second == rows_of([LATER])[0]
    assert (first["start_ns"], first["end_ns"]) == (OWN.start_ns, LATER.end_ns)
    assert first["duration_s"] == pytest.approx(1.8)
    assert (first["steps"], first["work"], first["two_rails_j"]) == (4, 128.0, 50.0)
    assert np.isnan(first["energy_j"])
    both = replace(OWN, samples=[*OWN.samples, *OWN.samples])
    assert first["time"] == pytest.approx(np.array(step_sums(both).time))
    assert kept(OWN, holed, LATER, LATER).rows["energy_j"][1] == 60.0


def test_rows_that_were_asked_for_stay_as_they_were(monkeypatch) -> None:
    monkeypatch.setattr(series, "MOST_WINDOWS", 2)
    found = kept(OWN, LATER)
    before = found.rows
    found.add(replace(LATER, work=1.0))
    assert (before == rows_of([OWN, LATER])).all()
