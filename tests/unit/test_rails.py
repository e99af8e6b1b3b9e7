"""The power rails: found by chip and label, and totalled as each board is wired."""

from dataclasses import replace
from pathlib import Path

import pytest
from trees import AGX_JP5, AGX_JP6, AGX_RAILS, NANO_JP6, NX_JP6, SMALL_RAILS, build_tree

from orin_gov.board.averaging import find_averaging
from orin_gov.board.probe import open_board
from orin_gov.board.rails import find_rails, unreadable_labels


def found(root: Path) -> list[tuple[str, int, str]]:
    return [(rail.chip, rail.channel, rail.label) for rail in find_rails(root)]


AGX_FOUND = [
    ("1-0040", 1, "VDD_GPU_SOC"),
    ("1-0040", 2, "VDD_CPU_CV"),
    ("1-0040", 3, "VIN_SYS_5V0"),
    ("1-0041", 2, "VDDQ_VDD2_1V8AO"),
]


@pytest.mark.parametrize("board", [AGX_JP6, AGX_JP5], ids=["disabled channels", "NC channels"])
@pytest.mark.parametrize("hwmon", [0, 4, 9])  # with 9, hwmon10 sorts before hwmon9
def test_rails_are_the_same_whatever_their_hwmon_number(tmp_path: Path, board, hwmon: int) -> None:
    assert found(build_tree(tmp_path, replace(board, hwmon=hwmon))) == AGX_FOUND


def test_a_rail_names_the_two_files_of_its_own_channel(tmp_path: Path) -> None:
    build_tree(tmp_path, replace(NX_JP6, hwmon=6))
    for rail in find_rails(tmp_path):
        assert rail.voltage_file.name == f"in{rail.channel}_input"
        assert rail.current_file.name == f"curr{rail.channel}_input"
        assert rail.voltage_file.parent == rail.current_file.parent
        assert rail.voltage_file.parent.name == "hwmon6"
        assert (rail.voltage_file.read_text(), rail.current_file.read_text()) == ("5000\n", "800\n")


def test_an_empty_label_is_no_rail(tmp_path: Path) -> None:
    board = replace(NX_JP6, chips={"1-0040": ("VDD_IN", "", "NC")})
    assert found(build_tree(tmp_path, board)) == [("1-0040", 1, "VDD_IN")]


def test_a_chip_of_the_carrier_is_left_out_by_its_driver(tmp_path: Path) -> None:
    build_tree(tmp_path, NX_JP6)
    other = tmp_path / "sys/bus/i2c/drivers/ina219/1-0044/hwmon/hwmon2"
    other.mkdir(parents=True)
    (other / "in1_label").write_text("CVB_ATX_12V")
    assert [label for _, _, label in found(tmp_path)] == list(SMALL_RAILS)


@pytest.mark.parametrize(
    ("board", "total", "gpu"),
    [
        (AGX_JP6, AGX_RAILS, "VDD_GPU_SOC"),  # never VDDQ: it lies inside VIN_SYS_5V0
        (AGX_JP5, AGX_RAILS, "VDD_GPU_SOC"),
        (NX_JP6, ("VDD_IN",), "VDD_CPU_GPU_CV"),  # every other rail lies inside VDD_IN
        (NANO_JP6, ("VDD_IN",), "VDD_CPU_GPU_CV"),
    ],
)
def test_the_total_is_as_the_board_is_wired(tmp_path: Path, board, total, gpu: str) -> None:
    opened = open_board(build_tree(tmp_path, board))
    assert (opened.total_rails, opened.gpu_rail) == (total, gpu)


def test_without_a_sensor_there_is_no_rail_and_nothing_unreadable(tmp_path: Path) -> None:
    assert (find_rails(tmp_path), find_averaging(tmp_path)) == ([], ())
    assert unreadable_labels(tmp_path) == []
