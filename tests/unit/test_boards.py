"""Every board of tests/data: what is found of it, and what `orin-gov doctor` tells of it.

`python tests/unit/test_boards.py` writes what the doctor says anew.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from trees import AGX_RAILS, BOARDS, NANO_CLOCKS, board_names, content, plant

from orin_gov.board.conditions import read_conditions
from orin_gov.board.probe import Board, open_board
from orin_gov.commands import doctor

XAVIER_RAILS = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
INSIDE = ("VDD_IN",)

# module's family: rails of the total, the GPU's rail
WIRED = {
    "p2888": (XAVIER_RAILS, "GPU"),
    "p3310": (INSIDE, "VDD_SYS_GPU"),
    "p3448": (("POM_5V_IN",), "POM_5V_GPU"),
    "p3668": (INSIDE, "VDD_CPU_GPU_CV"),
    "p3701": (AGX_RAILS, "VDD_GPU_SOC"),
    "p3767": (INSIDE, "VDD_CPU_GPU_CV"),
    "p3834": (("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), "VDD_GPU"),
}

# board: module, JetPack, rails, the GPU's folder, clocks, limits in MHz
WHOLE: dict[str, tuple[str, str, int, str, int, int, int]] = {
    "agx-orin-32gb-jp6": ("p3701-0004", "6.2.1", 4, "17000000.gpu", 8, 306, 612),
    "agx-orin-64gb-jp5": ("p3701-0005", "5.1.2", 4, "17000000.ga10b", 11, 306, 1300),
    "agx-orin-64gb-jp6": ("p3701-0005", "6.2.1", 4, "17000000.gpu", 11, 306, 1300),
    "agx-orin-64gb-jp7": ("p3701-0005", "7.2", 4, "17000000.gpu", 11, 306, 1300),
    "agx-orin-industrial-jp6": ("p3701-0008", "6.2.1", 4, "17000000.gpu", 10, 306, 1224),
    "agx-thor-jp7": ("p3834-0008", "7.0", 4, "gpu-gpc-0", 12, 315, 1575),
    "agx-xavier-jp4": ("p2888-0001", "4.6", 6, "17000000.gv11b", 14, 114, 1377),
    "agx-xavier-jp5": ("p2888", "5.1.2", 6, "17000000.gv11b", 14, 114, 1377),
    "nano-jp4": ("p3448-0000", "4.6", 3, "57000000.gpu", 12, 76, 921),
    "orin-nano-4gb-jp6": ("p3767-0004", "6.2.1", 3, "17000000.gpu", 4, 306, 306),
    "orin-nano-8gb-jp6": ("p3767-0003", "6.2.1", 3, "17000000.gpu", 4, 306, 408),
    "orin-nano-super-jp6": ("p3767-0005", "6.2.1", 3, "17000000.gpu", 8, 306, 918),
    "orin-nx-16gb-jp6": ("p3767-0000", "6.2.1", 3, "17000000.gpu", 7, 306, 408),
    "orin-nx-16gb-super-jp6": ("p3767-0000", "6.2.1", 3, "17000000.gpu", 10, 306, 1173),
    "orin-nx-8gb-jp5": ("p3767-0001", "5.1.2", 3, "17000000.ga10b", 5, 306, 612),
    "tx2-jp4": ("p3310", "4.6", 12, "17000000.gp10b", 13, 114, 1300),
    "xavier-nx-jp5": ("p3668-0001", "5.1.2", 3, "17000000.gv11b", 15, 114, 1109),
}
PROBLEMS = {
    "orin-nano-4gb-jp6": ["the board's cap of 306 MHz leaves no choice of GPU clocks"],
}
UNKNOWN = "unknown-jp7"


def opened(root: Path, name: str) -> Board:
    return open_board(plant(root, name))


def test_every_board_of_the_data_is_here() -> None:
    assert sorted([*WHOLE, UNKNOWN]) == board_names()


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_board_has_is_found(tmp_path: Path, name: str) -> None:
    module, jetpack, rails, folder, clocks, min_mhz, max_mhz = WHOLE[name]
    total, gpu_rail = WIRED[module.partition("-")[0]]
    board = opened(tmp_path, name)
    assert (board.identity.module, board.identity.jetpack) == (module, jetpack)
    assert (len(board.rails), board.total_rails, board.gpu_rail) == (rails, total, gpu_rail)
    assert board.gpu is not None
    assert (board.gpu.directory.name, len(board.gpu.table_hz)) == (folder, clocks)
    found = board.gpu.read_range()
    assert (found.min_hz // 1_000_000, found.max_hz // 1_000_000) == (min_mhz, max_mhz)
    assert [problem.what for problem in board.problems()] == PROBLEMS.get(name, [])
    assert set(total) | {gpu_rail} <= {rail.label for rail in board.rails}
    assert [rail for rail in board.rails if rail.fault()] == []


@pytest.mark.parametrize("name", board_names())
def test_the_doctor_tells_of_each_board_what_it_told_before(tmp_path: Path, name: str) -> None:
    before = content(plant(tmp_path, name))
    assert said_of(tmp_path) == (BOARDS / f"{name}.doctor").read_text()
    assert content(tmp_path) == before


def test_a_clock_of_a_lower_power_mode_may_be_higher(tmp_path: Path) -> None:
    board = opened(tmp_path, "orin-nx-16gb-jp6")
    mode = read_conditions(tmp_path, board.gpu).power_mode
    assert mode is not None
    assert (mode.name, mode.gpu_max_hz) == ("25W", 408_000_000)  # its 15W has 612 MHz


def test_a_mode_that_waits_for_a_reboot_is_told(tmp_path: Path) -> None:
    told = {}
    for name in ("agx-orin-32gb-jp6", "agx-orin-64gb-jp6", "orin-nx-8gb-jp5"):
        board = opened(tmp_path / name, name)
        mode = read_conditions(board.root, board.gpu).power_mode
        assert mode is not None
        told[name] = mode.waits_for_reboot
    # Set but not in force; in force; and a configuration that says nothing of clusters.
    assert list(told.values()) == [True, False, None]


def test_what_no_table_knows_is_measured_by_rail_without_a_total(tmp_path: Path) -> None:
    board = opened(tmp_path, UNKNOWN)
    assert [rail.label for rail in board.rails] == ["VDD_IN", "VDD_GPU", "VDD_CPU"]
    assert (board.identity.module, board.total_rails, board.gpu_rail) == (None, None, None)
    (problem,) = board.problems()
    assert (
        "not known: unknown Jetson (nvidia,p9999-0000+p9998-0001 nvidia,tegra999)" in problem.what
    )
    assert problem.mend.startswith("set ORIN_GOV_MODULE")


def test_the_whole_of_conditions_on_a_board_that_tells_everything(tmp_path: Path) -> None:
    board = opened(tmp_path, "orin-nano-super-jp6")
    found = read_conditions(tmp_path, board.gpu)
    assert found.power_mode is not None
    assert (found.power_mode.number, found.power_mode.name) == (1, "25W")
    assert (found.emc_rate_hz, found.emc_cap_hz) == (3_199_000_000, 3_199_000_000)
    assert found.over_current_events == {"oc1": 0, "oc2": 0, "oc3": 17}
    assert found.temperature_c["gpu"] == 46.25
    assert found.temperature_c["cv0"] is None  # switched off: EAGAIN
    assert board.gpu is not None
    assert board.gpu.table_hz == NANO_CLOCKS


def test_jetpack_4s_sign_for_a_gpu_that_is_off_is_no_temperature(tmp_path: Path) -> None:
    opened(tmp_path, "agx-xavier-jp4")
    assert read_conditions(tmp_path, None).temperature_c["gpu"] is None


def said_of(root: Path) -> str:
    """Return what the doctor says of the tree under `root`, and what it ends with."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = doctor.run(argparse.Namespace(root=root, json=False))
    return f"{out.getvalue().replace(str(root), '')}ends with {code}\n"


if __name__ == "__main__":
    for each in board_names():
        with tempfile.TemporaryDirectory() as place:
            (BOARDS / f"{each}.doctor").write_text(said_of(plant(Path(place), each)))
