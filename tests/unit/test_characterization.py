"""Characterizations: what is kept, what is gone on with, and what the curves say."""

import json
from pathlib import Path

import pytest

from orin_gov.characterization import Characterization, choose_points, sweep_jobs
from orin_gov.epoch import Epoch
from orin_gov.errors import RunDirectoryError, UsageError
from orin_gov.policy.sweep import Stop
from orin_gov.policy.window import Window
from orin_gov.record.characterization import (
    append,
    best,
    curves,
    finished_board,
    measurement_of,
    open_directory,
    read_measurements,
)

TABLE = (306_000_000, 612_000_000, 1_300_500_000)
PYTHIA = "pythia-14m/cola"


def measurement(workload="a/b", target_hz=612_000_000, round_=0, energy_j=20.0, duration_s=2.0):
    rails = {"VDD_GPU_SOC": 8.0, "VDD_CPU_CV": 2.0, "VIN_SYS_5V0": 10.0}
    window = Window(
        0, 10**9, duration_s, target_hz, 10, 100.0, "tokens", energy_j, rails,
        frequency_hz=6e8, load=0.5,
    )  # fmt: skip
    return measurement_of(workload, Stop(target_hz, round_), window, 50.0)


def wanted(path: Path, **changes: object) -> Characterization:
    settings = {
        "epoch": Epoch(10),
        "board": "virtual:agx-orin-64gb",
        "freqs": "306,612,1300",
        "repeats": 2,
        "output": path,
    }
    return Characterization(**{**settings, **changes})  # type: ignore[arg-type]


def test_a_measurement_comes_back_as_it_was_written(tmp_path):
    written = [measurement(round_=n) for n in range(3)]
    for each in written:
        append(tmp_path, each)
    assert read_measurements(tmp_path) == written


def test_a_line_cut_off_by_a_crash_is_left_out_and_then_removed(tmp_path):
    open_directory(tmp_path, {})
    append(tmp_path, measurement())
    with (tmp_path / "measurements.jsonl").open("a") as file:
        file.write('{"workload": "a/b", "targ')
    assert read_measurements(tmp_path) == [measurement()]
    open_directory(tmp_path, {})
    append(tmp_path, measurement(round_=1))
    assert [each.round for each in read_measurements(tmp_path)] == [0, 1]


def test_a_damaged_list_is_told_of(tmp_path):
    (tmp_path / "measurements.jsonl").write_text('{"unknown": 1}\n')
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_measurements(tmp_path)


def test_the_same_wish_goes_on_and_another_is_refused(tmp_path):
    path = tmp_path / "run"
    open_directory(path, {"board": "x", "repeats": 3})
    append(path, measurement())
    open_directory(path, {"board": "x", "repeats": 3})
    assert read_measurements(path) == [measurement()]
    with pytest.raises(RunDirectoryError, match=r"repeats is 3, not 4"):
        open_directory(path, {"board": "x", "repeats": 4})


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match="no characterization"):
        open_directory(tmp_path, {"board": "x"})
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_curve_holds_means_and_spread_by_unit_of_work():
    energies = (18.0, 20.0, 22.0)
    found = curves(
        [measurement(round_=n, energy_j=each) for n, each in enumerate(energies)]
        + [measurement(target_hz=None)]
    )
    own, point = found["a/b"]
    assert own.target_hz is None
    assert (point.rounds, point.energy_j, point.energy_sd) == (3, *map(pytest.approx, (0.2, 0.02)))
    assert point.time_s == pytest.approx(0.02)
    assert point.power_w == pytest.approx(10.0)
    assert point.two_rail_energy_j == pytest.approx(0.1)


def test_missing_energy_stays_missing():
    (point,) = curves([measurement(energy_j=None)])["a/b"]
    assert (point.energy_j, point.energy_sd, point.power_w) == (None, None, None)
    assert best([point]) is None


def test_the_best_point_is_a_pinned_one():
    points = curves(
        [
            measurement(target_hz=None, energy_j=1.0),
            measurement(target_hz=306_000_000, energy_j=9.0),
            measurement(target_hz=612_000_000, energy_j=8.0),
        ]
    )["a/b"]
    assert best(points).target_hz == 612_000_000


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("all", TABLE),
        ("612", TABLE[1:2]),
        ("1300,306", (TABLE[0], TABLE[2])),
        ("1300.5", TABLE[2:]),
    ],
)
def test_points_are_named_in_megahertz(text, points):
    assert choose_points(text, TABLE) == list(points)


@pytest.mark.parametrize("text", ["", "613.5", "high", "306,", "nan"])
def test_points_outside_the_table_are_refused(text):
    with pytest.raises(UsageError, match="--freqs"):
        choose_points(text, TABLE)


def test_a_sweep_in_virtual_time_measures_every_point_and_round(tmp_path):
    swept = sweep_jobs(wanted(tmp_path / "run"), [PYTHIA])
    found = read_measurements(swept.path)
    assert len(found) == 2 * 4
    assert {each.target_hz for each in found} == {None, *TABLE}
    assert swept.exit_code == 0
    assert finished_board(swept.path) == "virtual board agx-orin-64gb"
    own, *pinned = curves(found)[PYTHIA]
    assert [point.clock_hz for point in pinned] == list(TABLE)
    assert pinned[0].time_s > pinned[-1].time_s
    assert pinned[0].power_w < pinned[-1].power_w
    assert TABLE[0] < own.clock_hz < TABLE[-1]


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "run"
    sweep_jobs(wanted(path), [PYTHIA])
    file = path / "measurements.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:5]) + lines[5][:40])
    (path / "summary.json").unlink()
    sweep_jobs(wanted(path), [PYTHIA])
    again = file.read_text().splitlines(keepends=True)
    assert again[:5] == lines[:5]
    stops = [(row["target_hz"], row["round"]) for row in map(json.loads, again)]
    assert stops == [(row["target_hz"], row["round"]) for row in map(json.loads, lines)]


def test_two_sweeps_with_the_same_seed_are_identical(tmp_path):
    for name in ("one", "two"):
        sweep_jobs(wanted(tmp_path / name), [PYTHIA])
    one, two = ((tmp_path / name / "measurements.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two


def test_each_workload_has_its_curve(tmp_path):
    swept = sweep_jobs(wanted(tmp_path / "run", repeats=1), [PYTHIA, "bert-tiny/cola"])
    assert list(curves(read_measurements(swept.path))) == [PYTHIA, "bert-tiny/cola"]


@pytest.mark.parametrize("board", [None, "agx-orin-64gb", "virtual:toaster"])
def test_virtual_time_needs_a_virtual_board(board, tmp_path):
    with pytest.raises(UsageError):
        sweep_jobs(wanted(tmp_path / "run", board=board), [PYTHIA])
    assert not (tmp_path / "run").exists()


def test_a_power_mode_leaves_out_what_it_does_not_allow(tmp_path):
    capped = wanted(tmp_path / "run", board="virtual:agx-orin-64gb:30w", freqs="all", repeats=1)
    found = read_measurements(sweep_jobs(capped, [PYTHIA]).path)
    assert max(each.target_hz or 0 for each in found) == 612_000_000
