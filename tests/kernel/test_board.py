"""The board room on the drivers' own sysfs files."""

from pathlib import Path

import pytest
from rig import CHIP, LOW_HZ, NODE, OTHER_CHIP, TOP_HZ, hwmon, limits, write

from orin_gov.board.averaging import Averaging, find_averaging
from orin_gov.board.gpu import find_gpu
from orin_gov.board.probe import open_board

ROOT = Path("/")


def test_the_board_is_found_whole() -> None:
    board = open_board(ROOT)
    assert board.identity.module == "p3701-0000"
    assert [(rail.label, rail.chip, rail.channel) for rail in board.rails] == [
        ("VDD_GPU_SOC", CHIP, 1),
        ("VDD_CPU_CV", CHIP, 2),
        ("VIN_SYS_5V0", CHIP, 3),
        ("VDDQ_VDD2_1V8AO", OTHER_CHIP, 2),
    ]
    assert board.gpu is not None
    assert (board.gpu.table_hz[0], board.gpu.table_hz[-1]) == (LOW_HZ, TOP_HZ)
    assert board.gpu.governor() == "nvhost_podgov"
    assert board.problems() == []


def test_a_switched_off_channel_has_files_and_is_no_rail() -> None:
    assert (hwmon(OTHER_CHIP) / "in1_input").exists()
    with pytest.raises(OSError, match="No data available"):
        (hwmon(OTHER_CHIP) / "curr1_input").read_text()
    assert all((rail.chip, rail.channel) != (OTHER_CHIP, 1) for rail in open_board(ROOT).rails)


def averaging() -> Averaging:
    (found,) = (found for found in find_averaging(ROOT) if found.chip == CHIP)
    return found


def test_averaging_is_read_and_the_update_interval_does_not_tell_of_it() -> None:
    assert averaging().samples == 1
    interval = (hwmon() / "update_interval").read_text()
    write(hwmon() / "samples", 512)
    assert averaging().samples == 512
    assert (hwmon() / "update_interval").read_text() == interval


def test_limits_are_those_in_effect() -> None:
    gpu = find_gpu(ROOT)
    assert gpu is not None
    write(NODE / "max_freq", 612_000_000)
    assert (gpu.read_range().min_hz, gpu.read_range().max_hz) == limits() == (LOW_HZ, 612_000_000)
