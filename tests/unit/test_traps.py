"""The fifteen traps of a Jetson's interfaces, by number, each with what is asked for.

T13, a killed run, has tests/integration/test_leaving_as_found.py to itself; the native parts of T1,
T9 and T10 are tested where they live, test_sampler*.py and test_actuator*.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import command, without_rights
from trees import (
    AGX_CLOCKS,
    AGX_RAILS,
    build_tree,
    eventually,
    following,
    gpu_folder,
    limits,
    plant,
    write,
)

from orin_gov._actuator import Transition
from orin_gov.board.averaging import CYCLE_S, find_averaging
from orin_gov.board.gpu import Range, find_gpu
from orin_gov.board.identity import SAID
from orin_gov.board.probe import open_board
from orin_gov.board.rails import find_rails
from orin_gov.control import take_control
from orin_gov.epoch import Epoch
from orin_gov.measured import module_energy
from orin_gov.readying import operating_points, resolvable, sensors_words


def chip_files(root: Path, chip: str = "1-0040") -> Path:
    (folder,) = (root / f"sys/bus/i2c/drivers/ina3221/{chip}/hwmon").glob("hwmon*")
    return folder


def test_t1_a_rail_keeps_its_name_and_pattern_when_hwmon_is_renumbered(tmp_path: Path) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    before = find_rails(root)
    folder = chip_files(root)
    folder.rename(folder.with_name("hwmon17"))
    after = find_rails(root)
    assert [(rail.label, rail.chip) for rail in before] == [
        (rail.label, rail.chip) for rail in after
    ]
    assert [rail.sampler_files for rail in before] == [rail.sampler_files for rail in after]
    assert before[0].voltage_file != after[0].voltage_file
    for rail in after:
        for pattern, file in zip(
            rail.sampler_files, (rail.voltage_file, rail.current_file), strict=True
        ):
            assert "hwmon/hwmon*/" in pattern
            assert [str(file)] == [str(path) for path in root.glob(os.path.relpath(pattern, root))]


@pytest.mark.parametrize("name", ["agx-orin-64gb-jp5", "agx-orin-64gb-jp6"])
def test_t2_a_dead_channel_is_left_out_and_costs_its_chip_nothing(tmp_path: Path, name) -> None:
    board = open_board(plant(tmp_path, name))
    assert [rail.label for rail in board.rails if rail.chip == "1-0041"] == ["VDDQ_VDD2_1V8AO"]
    assert board.problems() == []


def test_t2_a_channel_that_dies_at_run_time_is_told_and_the_others_stay(tmp_path: Path) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    dead = chip_files(root, "1-0041") / "curr2_input"
    dead.unlink()
    dead.mkdir()
    board = open_board(root)
    assert len(board.rails) == 4
    assert [rail.label for rail in board.rails if rail.fault()] == ["VDDQ_VDD2_1V8AO"]
    assert board.problems() == []  # it is not in the total


def test_t3_a_total_is_of_the_tables_rails_or_none() -> None:
    rails = (*AGX_RAILS, "VDDQ_VDD2_1V8AO")
    joules = np.array([[10.0, 5.0, 4.0, 2.0]])
    assert module_energy(joules, rails, AGX_RAILS) == [19.0]
    for total in (None, (), ("VDD_IN",), (*AGX_RAILS, "NOT_THERE")):
        assert np.isnan(module_energy(joules, rails, total)).all()


def test_t4_the_step_of_a_rails_power_is_known(tmp_path: Path) -> None:
    rails = {rail.label: rail for rail in find_rails(plant(tmp_path, "agx-orin-64gb-jp6"))}
    assert rails["VDD_GPU_SOC"].quantum_w() == pytest.approx(0.020 * 19.736)
    assert rails["VIN_SYS_5V0"].quantum_w() == pytest.approx(0.020 * 5.016)
    nano = find_rails(plant(tmp_path / "nano", "orin-nano-super-jp6"))
    assert nano[0].quantum_w() == pytest.approx(0.008 * 5.032)


@pytest.mark.parametrize(
    ("samples", "interval", "lag_s"),
    [
        ("1", "7", 0.007),
        ("512", "1", 0.512),  # as stock JetPack 6 has it: NVIDIA's driver leaves the samples out
        ("512", "430", 0.430),  # as mainline's driver tells the same
        ("64", "7", 0.448),
        ("4", "0", 0.002),  # a cycle under half a millisecond reads 0
        ("1", "", CYCLE_S),
        ("1", "garbage", CYCLE_S),
        ("1", "-5", CYCLE_S),
    ],
)
def test_t5_the_lag_of_averaging_sensors_is_known(
    tmp_path: Path, samples: str, interval: str, lag_s: float
) -> None:
    root = plant(tmp_path, "orin-nx-16gb-jp6")
    write(chip_files(root) / "samples", samples)
    write(chip_files(root) / "update_interval", interval)
    (found,) = find_averaging(root)
    assert found.time_constant_s == pytest.approx(lag_s, rel=0.01)
    board = open_board(root)
    assert resolvable(Epoch(), board).least_s == max(1.0, 3 * found.time_constant_s)
    assert board.resolves_phases == (lag_s <= 0.1 / 3)
    said = sensors_words(Epoch(), board)
    if board.resolves_phases:
        assert said is None
    else:
        assert f"averaging {samples} readings: phases cannot be told apart" in (said or "")


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "4096", "512.0"])
def test_t5_averaging_that_is_not_told_is_unknown_not_one(tmp_path: Path, text: str) -> None:
    root = plant(tmp_path, "orin-nx-16gb-jp6")
    write(chip_files(root) / "samples", text)
    (found,) = find_averaging(root)
    assert found.samples is None
    assert open_board(root).averaging is None


def test_t5_the_slowest_sensor_counts_and_jetpack_4s_is_what_its_driver_sets(
    tmp_path: Path,
) -> None:
    root = plant(tmp_path / "agx", "agx-orin-64gb-jp6")
    write(chip_files(root, "1-0041") / "samples", "64")
    board = open_board(root)
    assert (board.averaging, board.time_constant_s) == (64, pytest.approx(0.448))
    nano = open_board(plant(tmp_path / "nano", "nano-jp4"))
    assert (nano.averaging, nano.time_constant_s) == (64, pytest.approx(64 * CYCLE_S))
    assert not nano.can_be_quicker
    assert "--fast-sensors" not in (sensors_words(Epoch(), nano) or "")


@pytest.mark.parametrize(
    ("name", "closed", "mode"),
    [
        ("agx-orin-64gb-jp5", "in?_label", 0o400),
        ("nano-jp4", "rail_name_?", 0o600),
        ("orin-nx-16gb-jp6", "curr1_input", 0o400),
    ],
)
def test_t6_a_closed_sensor_is_told_with_file_and_mode_not_as_missing(
    tmp_path: Path, name: str, closed: str, mode: int
) -> None:
    plant(tmp_path, name)
    for file in tmp_path.rglob(closed):
        file.chmod(mode)
        if os.geteuid() == 0:
            os.chown(file, 12345, 12345)
    done = subprocess.run(
        without_rights(command("doctor", "--root", tmp_path)), capture_output=True, text=True
    )
    if os.geteuid():
        pytest.skip("a file closed to its owner takes root to make")
    assert done.returncode == 1
    assert "no right to read" in done.stdout
    assert f"mode {mode:04o}, owner 12345" in done.stdout
    assert "not found" not in done.stdout
    assert "sudo chmod a+r" in done.stdout


def test_t7_the_gpu_is_found_by_any_of_its_names_and_no_other_engine_is_it(tmp_path: Path) -> None:
    names = {
        "nano-jp4": "57000000.gpu",
        "tx2-jp4": "17000000.gp10b",
        "agx-xavier-jp5": "17000000.gv11b",
        "agx-orin-64gb-jp5": "17000000.ga10b",
        "agx-orin-64gb-jp6": "17000000.gpu",
        "agx-thor-jp7": "gpu-gpc-0",
    }
    for board, name in names.items():
        gpu = find_gpu(plant(tmp_path / board, board))
        assert gpu is not None
        assert gpu.directory.name == name


def test_t8_a_gpu_that_is_not_there_yet_is_awaited_and_told(tmp_path: Path) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    node = root / "sys/class/devfreq/17000000.gpu"
    target = node.readlink()
    node.unlink()
    board = open_board(root)
    assert board.awaits_gpu
    assert "it appears when the GPU first powers on" in board.problems()[0].what
    node.symlink_to(target)
    assert not open_board(root).awaits_gpu
    table = gpu_folder(root) / "available_frequencies"
    table.unlink()
    assert open_board(root).awaits_gpu  # the node can be there before its table is


def test_t9_a_cap_that_is_in_the_way_is_read_back_not_guessed(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    folder = gpu_folder(root)
    gpu = find_gpu(root)
    assert gpu is not None
    with take_control(root, gpu) as control:
        control.request(AGX_CLOCKS[5])  # plain files: the clock stays where it is
        assert eventually(lambda: limits(folder) == (str(AGX_CLOCKS[5]),) * 2)
        found: list[Transition] = []
        assert eventually(lambda: found.extend(control.transitions()) or found)
    (transition,) = found
    assert (transition.min_hz, transition.achieved_hz) == (AGX_CLOCKS[5], AGX_CLOCKS[0])
    assert transition.achieved_ns is None


def test_t11_nothing_off_the_table_is_asked_for_even_under_a_cap_off_it(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    folder = gpu_folder(root)
    write(folder / "max_freq", "950000000\n")
    board = open_board(root)
    assert operating_points(board)[-1] == 918_000_000  # 950 would come out as 1020
    assert board.gpu is not None
    with take_control(root, board.gpu) as control, following(folder):
        control.request(408_000_000)
        assert eventually(lambda: control.transitions())
        (folder / "max_freq").write_text("850000000")
        found = control.foreign_range()
        assert found is not None
        assert control.points(control.adopt(found))[-1] == 816_000_000
        control.request(None)
        assert eventually(lambda: limits(folder) == ("306000000", "816000000"))
    assert limits(folder) == ("306000000", "850000000")  # theirs, to the hertz


def test_t12_another_writers_limits_are_adopted_and_put_back(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    folder, gpu = gpu_folder(root), find_gpu(root)
    assert gpu is not None
    with take_control(root, gpu) as control, following(folder):
        control.request(612_000_000)
        assert eventually(control.transitions)
        (folder / "max_freq").write_text("408000000")
        found = control.foreign_range()
        assert found == Range(408_000_000, 408_000_000)
        assert control.adopt(found) == Range(0, 408_000_000)
        assert control.original == Range(306_000_000, 408_000_000)
        assert control.foreign_range() is None  # seen
        (folder / "max_freq").write_text("1300500000")  # the cap is lifted again
        found = control.foreign_range()
        assert found is not None
        assert control.points(control.adopt(found)) == AGX_CLOCKS
    assert limits(folder) == ("306000000", "1300500000")


def test_t12_a_floor_that_another_writer_raises_is_kept(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    folder, gpu = gpu_folder(root), find_gpu(root)
    assert gpu is not None
    with take_control(root, gpu) as control, following(folder):
        control.request(612_000_000)
        assert eventually(control.transitions)
        for name in ("max_freq", "min_freq"):  # as jetson_clocks does
            (folder / name).write_text("1300500000")
        found = control.foreign_range()
        assert found is not None
        assert control.points(control.adopt(found)) == (1_300_500_000,)
    assert limits(folder) == ("1300500000", "1300500000")


def cool(root: Path, state: int) -> None:
    (device,) = (
        path.parent
        for path in (root / "sys/class/thermal").glob("cooling_device*/type")
        if path.read_text().startswith("devfreq-")
    )
    write(device / "cur_state", f"{state}\n")


def test_t9_a_thermal_cap_bounds_us_but_is_never_put_back(tmp_path: Path) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    folder, gpu = gpu_folder(root), find_gpu(root)
    assert gpu is not None
    with take_control(root, gpu) as control, following(folder):
        control.request(918_000_000)
        assert eventually(control.transitions)
        cool(root, 3)
        (folder / "max_freq").write_text("714000000")
        (folder / "min_freq").write_text("714000000")
        found = control.foreign_range()
        assert found is not None
        assert control.points(control.adopt(found))[-1] == 714_000_000
        assert control.original == Range(306_000_000, 1_300_500_000)
    # Written as a cap, 714 MHz would stay when the board has cooled.
    assert limits(folder) == ("306000000", "1300500000")


def test_t9_while_the_gpu_is_cooled_its_limits_are_not_taken_for_its_own(tmp_path: Path) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    cool(root, 1)
    (problem,) = open_board(root).problems()
    assert "too hot" in problem.what
    cool(root, 0)
    assert open_board(root).problems() == []


def test_t14_in_a_container_the_module_can_be_said_and_the_rest_is_found(
    tmp_path: Path, monkeypatch
) -> None:
    root = plant(tmp_path, "agx-orin-64gb-jp6")
    (root / "proc/device-tree/compatible").unlink()
    (root / "etc/nv_tegra_release").unlink()
    board = open_board(root)
    assert (board.identity.module, board.total_rails) == (None, None)
    assert len(board.rails) == 4
    assert SAID in board.problems()[0].mend
    monkeypatch.setenv(SAID, "p3701-0005")
    board = open_board(root)
    assert board.problems() == []
    assert (board.identity.l4t, board.identity.jetpack) == (None, "6")


READ_ONLY = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
shift
exec "$@"
"""


def test_t14_a_read_only_sysfs_is_told_with_what_mounts_it_writable(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    words = ["unshare", "-m", "bash", "-c", READ_ONLY, "bash", str(root / "sys")]
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    done = subprocess.run(
        [*words, *command("doctor", "--root", root)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "lie on a read-only file system, as in a container" in done.stdout
    assert f"-v {gpu_folder(root)}:{gpu_folder(root)}" in done.stdout


def test_t15_nvml_is_never_asked(tmp_path: Path) -> None:
    for name in ("pynvml", "nvidia_smi", "py3nvml"):
        write(tmp_path / f"modules/{name}.py", "raise SystemExit('NVML was asked')\n")
    root = plant(tmp_path / "board", "agx-orin-64gb-jp6")
    done = subprocess.run(
        command("doctor", "--root", root),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "modules"), *sys.path]),
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "nvml" not in done.stdout.lower()
