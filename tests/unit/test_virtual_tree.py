"""The served tree against the layout of a JetPack 6 AGX Orin."""

import os
import re
from pathlib import Path

import pytest

from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import MARK, build_tree, devfreq_directory, rail_files

BOARD = load_board("agx-orin-64gb")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    build_tree(BOARD, tmp_path)
    return tmp_path


def test_the_board_says_that_it_is_virtual(root: Path) -> None:
    assert (root / MARK).read_text() == "agx-orin-64gb\n"


def test_the_device_tree_strings_end_with_nul(root: Path) -> None:
    tree = root / "proc/device-tree"
    assert (tree / "model").read_bytes() == b"NVIDIA Jetson AGX Orin Developer Kit\0"
    assert (tree / "compatible").read_bytes() == b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0"


def test_the_release_line_reads_as_r36_4_7(root: Path) -> None:
    line = (root / "etc/nv_tegra_release").read_text().splitlines()[0]
    assert re.match(r"# R36 \(release\), REVISION: 4\.7, .*BOARD: generic, EABI: aarch64", line)


def test_the_gpu_is_found_through_its_class_link(root: Path) -> None:
    link = root / "sys/class/devfreq/17000000.gpu"
    assert os.readlink(link) == "../../devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu"
    assert link.resolve() == devfreq_directory(BOARD, root)
    assert (link / "device/of_node/name").read_bytes() == b"gpu\0"
    assert (link / "device/load").read_text() == "0\n"
    assert (link / "device").resolve() == root / "sys/devices/platform/bus@0/17000000.gpu"


def test_the_devfreq_files_hold_what_maxn_at_rest_shows(root: Path) -> None:
    directory = root / "sys/class/devfreq/17000000.gpu"
    shown = {
        name: (directory / name).read_text()
        for name in ("governor", "min_freq", "max_freq", "cur_freq", "polling_interval")
    }
    assert shown == {
        "governor": "nvhost_podgov\n",
        "min_freq": "306000000\n",
        "max_freq": "1300500000\n",
        "cur_freq": "306000000\n",
        "polling_interval": "25\n",
    }
    table = (directory / "available_frequencies").read_text()
    assert tuple(map(int, table.split())) == BOARD.frequencies_hz
    assert table.endswith("1300500000\n")
    assert (root / "var/lib/nvpmodel/status").read_text() == "pmode:0000"


def test_every_rail_is_found_by_chip_and_label(root: Path) -> None:
    found = {
        (chip.name, label.name[2], label.read_text())
        for chip in (root / "sys/bus/i2c/drivers/ina3221").iterdir()
        for label in chip.glob("hwmon/hwmon*/in*_label")
    }
    assert found == {
        ("1-0040", "1", "VDD_GPU_SOC\n"),
        ("1-0040", "2", "VDD_CPU_CV\n"),
        ("1-0040", "3", "VIN_SYS_5V0\n"),
        ("1-0041", "2", "VDDQ_VDD2_1V8AO\n"),
    }


def test_a_disabled_channel_has_neither_label_nor_readings(root: Path) -> None:
    (hwmon,) = (root / "sys/bus/i2c/drivers/ina3221/1-0041/hwmon").iterdir()
    for channel in (1, 3):
        assert (hwmon / f"in{channel}_enable").read_text() == "0\n"
        for name in (f"in{channel}_label", f"in{channel}_input", f"curr{channel}_input"):
            assert not (hwmon / name).exists()


def test_no_file_states_a_power_as_the_driver_has_none(root: Path) -> None:
    assert not list(root.rglob("power*_input"))


def test_the_hwmon_class_links_lead_to_the_chips(root: Path) -> None:
    links = sorted((root / "sys/class/hwmon").iterdir())
    assert [(link / "name").read_text() for link in links] == ["ina3221\n", "ina3221\n"]
    assert all(link.is_symlink() and not os.readlink(link).startswith("/") for link in links)


def test_rails_at_rest_read_as_the_plant_idling_at_the_lowest_clock(root: Path) -> None:
    idle_w = BOARD.rail_power_w(BOARD.laws["idle"], BOARD.frequencies_hz[0])
    for rail in BOARD.rails:
        millivolts, milliamperes = (int(path.read_text()) for path in rail_files(rail, root))
        quantum_w = 0.021 * rail.voltage_v
        assert millivolts * milliamperes * 1e-6 == pytest.approx(idle_w[rail.label], abs=quantum_w)


def test_the_shunts_are_the_2_milliohm_of_the_module(root: Path) -> None:
    shunts = {path.read_text() for path in root.rglob("shunt*_resistor") if not path.is_symlink()}
    assert shunts == {"2000\n"}


def test_the_thermal_zones_are_named_by_type(root: Path) -> None:
    zones = (root / "sys/class/thermal").glob("thermal_zone*")
    kinds = {(zone / "type").read_text(): int((zone / "temp").read_text()) for zone in zones}
    assert set(kinds) == {"cpu-thermal\n", "gpu-thermal\n", "tj-thermal\n"}
    assert all(20_000 < temperature < 90_000 for temperature in kinds.values())


def test_the_tree_can_be_moved(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    moved = root.rename(tmp_path_factory.mktemp("elsewhere") / "board")
    assert (moved / "sys/class/devfreq/17000000.gpu/device/load").read_text() == "0\n"
    assert (moved / "sys/class/hwmon/hwmon3/name").read_text() == "ina3221\n"


def test_there_is_a_place_for_the_governors_journal(root: Path) -> None:
    assert list((root / "run").iterdir()) == []
