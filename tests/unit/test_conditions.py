"""What a figure was measured under: power mode, memory clock, heat, over-current events."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import link, plant, write

from orin_gov.board.conditions import (
    is_cooled,
    read_conditions,
    read_over_current,
    read_temperatures,
)
from orin_gov.board.gpu import find_gpu
from orin_gov.board.nvpmodel import PowerMode, parse_modes, read_power_mode

CONFIGURATION = """
# < POWER_MODEL ID=7 NAME=COMMENTED >
<PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap
< POWER_MODEL ID=0 NAME=MAXN >
GPU MAX_FREQ 2147483647
EMC MAX_FREQ 0
< POWER_MODEL ID=1 NAME=15W >
GPU MIN_FREQ 0
GPU MAX_FREQ 612000000
EMC MAX_FREQ 3199000000
TPC_POWER_GATING TPC_PG_MASK 0xf0
< POWER_MODEL NAME=NUMBERLESS >
GPU MAX_FREQ 1
< PM_CONFIG DEFAULT=1 >
GPU MAX_FREQ 2
"""


def mode(root: Path, status: str, configuration: str = CONFIGURATION) -> PowerMode | None:
    write(root / "var/lib/nvpmodel/status", status)
    write(root / "etc/nvpmodel/here.conf", configuration)
    if not (root / "etc/nvpmodel.conf").is_symlink():
        link(root / "etc/nvpmodel.conf", Path("/etc/nvpmodel/here.conf"))  # absolute, as on a board
    return read_power_mode(root, root / "gpu")


def test_a_modes_caps_are_read_under_the_boards_own_root(tmp_path: Path) -> None:
    assert mode(tmp_path, "pmode:0000") == PowerMode(0, "MAXN", None, None, None)
    capped = PowerMode(1, "15W", 612_000_000, 3_199_000_000, None)
    assert mode(tmp_path, "pmode:0001 fmode:fanNull\n") == capped
    write(tmp_path / "gpu/device/tpc_pg_mask", "240\n")
    told = mode(tmp_path, "pmode:0001")
    assert told is not None
    assert told.waits_for_reboot is False
    write(tmp_path / "gpu/device/tpc_pg_mask", "0\n")
    told = mode(tmp_path, "pmode:0001")
    assert told is not None
    assert told.waits_for_reboot is True


def test_a_mode_that_the_configuration_lacks_keeps_its_number(tmp_path: Path) -> None:
    assert mode(tmp_path, "pmode:0007") == PowerMode(7)
    assert mode(tmp_path, "pmode:0001", "") == PowerMode(1)


@pytest.mark.parametrize(
    "status", ["", "pmode:", "pmode:x", "mode:0001", "\0\xff", "pmode:99999999999"]
)
def test_a_state_that_says_nothing_is_no_mode(tmp_path: Path, status: str) -> None:
    assert mode(tmp_path, status) is None


@given(st.text(alphabet=st.sampled_from("<> POWER_MODEL=ID0x1-NAME\nGPU MAX_FREQ 9"), max_size=200))
def test_no_configuration_is_too_strange(text: str) -> None:
    for section in parse_modes(text).values():
        assert isinstance(section.settings, dict)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("CPU-therm", "cpu"),
        ("cpu-thermal", "cpu"),
        ("soc012-thermal", "soc012"),
        ("Tboard_tegra", "tboard_tegra"),
        ("tj-thermal", "tj"),
    ],
)
def test_a_zone_is_known_by_its_type_whatever_its_number(tmp_path: Path, kind, name) -> None:
    for number, (each, temp) in enumerate([("acpitz", "27800"), (kind, "48250")]):
        write(tmp_path / f"sys/class/thermal/thermal_zone{number + 5}/type", f"{each}\n")
        write(tmp_path / f"sys/class/thermal/thermal_zone{number + 5}/temp", f"{temp}\n")
    assert read_temperatures(tmp_path) == {"acpitz": 27.8, name: 48.25}


@pytest.mark.parametrize("temp", ["-256000", "", "garbage", "4000000", "47.5", "-60000"])
def test_what_is_no_temperature_is_missing(tmp_path: Path, temp: str) -> None:
    write(tmp_path / "sys/class/thermal/thermal_zone0/type", "gpu-thermal\n")
    write(tmp_path / "sys/class/thermal/thermal_zone0/temp", temp)
    assert read_temperatures(tmp_path) == {"gpu": None}


def test_over_current_events_are_found_by_the_chips_name(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/hwmon/hwmon0/name", "pwmfan\n")
    write(tmp_path / "sys/class/hwmon/hwmon0/oc1_event_cnt", "99\n")
    assert read_over_current(tmp_path) == {}
    for counter, text in (("oc1", "0"), ("oc2", "-1"), ("oc3", "17")):
        write(tmp_path / f"sys/class/hwmon/hwmon9/{counter}_event_cnt", text)
    write(tmp_path / "sys/class/hwmon/hwmon9/name", "soctherm_oc\n")
    assert read_over_current(tmp_path) == {"oc1": 0, "oc2": None, "oc3": 17}


@pytest.mark.parametrize("text", ["0", "-1", "2147483647", "9223372036854775807", "", "garbage"])
def test_no_cap_of_the_memory_clock_has_many_spellings(tmp_path: Path, text: str) -> None:
    write(tmp_path / "sys/kernel/nvpmodel_clk_cap/emc", text)
    assert read_conditions(tmp_path, None).emc_cap_hz is None


def test_the_memory_clocks_cap_is_found_where_each_release_has_it(tmp_path: Path) -> None:
    for path in ("nvpmodel_clk_cap/emc", "nvpmodel_emc_cap/emc_iso_cap"):
        write(tmp_path / path / "sys/kernel" / path, "2133000000\n")
        assert read_conditions(tmp_path / path, None).emc_cap_hz == 2_133_000_000


@pytest.mark.parametrize(
    ("kind", "state", "cooled"),
    [
        ("devfreq-17000000.gpu", "3", True),
        ("devfreq-17000000.gpu", "0", False),
        ("devfreq-17000000.gpu", "garbage", False),
        ("cpufreq-cpu0", "3", False),
        ("pwm-fan", "3", False),
        ("devfreq-15340000.vic", "3", False),
    ],
)
def test_a_thermal_cap_is_the_gpus_own_cooling_device_at_work(
    tmp_path: Path, kind: str, state: str, cooled: bool
) -> None:
    gpu = find_gpu(plant(tmp_path, "agx-orin-64gb-jp6"))
    assert gpu is not None
    write(tmp_path / "sys/class/thermal/cooling_device1/type", f"{kind}\n")
    write(tmp_path / "sys/class/thermal/cooling_device1/cur_state", f"{state}\n")
    assert is_cooled(tmp_path, gpu) == cooled


def test_nothing_is_there_on_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert read_conditions(tmp_path, None).as_json() == {
        "power_mode": None,
        "emc_rate_hz": None,
        "emc_cap_hz": None,
        "temperature_c": {},
        "over_current_events": {},
    }
