"""What keeps a governor from working on a board, and the one thing that mends it."""

from dataclasses import replace
from pathlib import Path

import pytest
from trees import AGX_JP5, AGX_JP6, NANO_JP6, NX_JP6, build_tree, gpu_folder

from orin_gov.board.probe import Problem, open_board


def problem_of(root: Path) -> Problem:
    (problem,) = open_board(root).problems()
    return problem


@pytest.mark.parametrize("board", [AGX_JP6, AGX_JP5, NX_JP6, NANO_JP6])
def test_a_whole_board_has_no_problem(tmp_path: Path, board) -> None:
    opened = open_board(build_tree(tmp_path, board))
    assert opened.problems() == []
    assert opened.averaging == board.samples


def test_looking_writes_nothing(tmp_path: Path) -> None:
    build_tree(tmp_path)
    before = sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    open_board(tmp_path).problems()
    assert sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_gpu_that_has_not_powered_on_is_told_with_how_to_wake_it(tmp_path: Path) -> None:
    build_tree(tmp_path)
    (tmp_path / "sys/class/devfreq/17000000.gpu").unlink()
    problem = problem_of(tmp_path)
    assert "no GPU under /sys/class/devfreq" in problem.what
    assert "torch.cuda.init()" in problem.mend


@pytest.mark.parametrize("table", ["306000000", "", "garbage", "306000000 garbage 408000000"])
def test_a_table_without_a_choice_is_told_as_it_stands(tmp_path: Path, table: str) -> None:
    build_tree(tmp_path)
    (gpu_folder(tmp_path) / "available_frequencies").write_text(f"{table}\n")
    what = problem_of(tmp_path).what
    assert f"available_frequencies holds {table!r}, a governor needs at least 2" in what


def test_a_missing_total_names_the_rails_that_it_lacks(tmp_path: Path) -> None:
    board = replace(AGX_JP6, chips={"1-0040": ("VDD_GPU_SOC", "VDD_CPU_CV", None)})
    problem = problem_of(build_tree(tmp_path, board))
    assert problem == Problem("power rail VIN_SYS_5V0 not found", "sudo modprobe ina3221")


def test_without_the_sensors_driver_every_rail_of_the_total_is_missing(tmp_path: Path) -> None:
    problem = problem_of(build_tree(tmp_path, replace(AGX_JP6, chips={})))
    assert problem.what == "power rails VDD_GPU_SOC, VDD_CPU_CV, VIN_SYS_5V0 not found"


@pytest.mark.parametrize(("channel", "told"), [(1, True), (2, False)], ids=["total", "another"])
def test_a_rail_that_fails_to_be_read_is_a_problem_where_the_total_needs_it(
    tmp_path: Path, channel: int, told: bool
) -> None:
    build_tree(tmp_path, NX_JP6)
    chip = tmp_path / "sys/bus/i2c/drivers/ina3221/1-0040"
    broken = chip / f"hwmon/hwmon1/curr{channel}_input"
    broken.unlink()
    broken.mkdir()  # fails to be read, as a switched-off channel does
    problems = open_board(tmp_path).problems()
    assert [problem.what for problem in problems] == (
        [f"no reading of VDD_IN: {broken}: Is a directory"] if told else []
    )


def test_the_gpu_comes_first_where_rails_are_missing_as_well(tmp_path: Path) -> None:
    build_tree(tmp_path, replace(AGX_JP6, chips={}))
    (tmp_path / "sys/class/devfreq/17000000.gpu").unlink()
    first, second = open_board(tmp_path).problems()
    assert first.what.startswith("no GPU")
    assert second.what.startswith("power rails")
