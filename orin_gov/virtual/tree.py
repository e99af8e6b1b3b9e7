"""The files of a virtual board: a JetPack 6 Orin's device tree, devfreq, hwmon, caps, thermal.

Paths, contents and formats are those of L4T R36 (kernel 5.15), but for blanks before the newline of
a value that once was longer (`ValueFile`). Channels 1 and 3 of the second
INA3221 are disabled there: they have no label, and reading them fails with ENODATA; plain files
cannot fail so, so their inputs are left out. A power mode stands where nvpmodel leaves it: its
number in the status file, its caps in max_freq, cpufreq and the memory's cap. The file `MARK` says
that the board is virtual.
"""

import os
from pathlib import Path

from orin_gov.virtual.board_file import PowerMode, Rail
from orin_gov.virtual.plant import BoardModel, quantised
from orin_gov.virtual.thermal import at_rest

MARK = "etc/orin_gov-virtual-board"
"""Relative path of the file that holds a virtual board's name; no real board has it."""

GOVERNORS = ("nvhost_podgov", "userspace", "performance", "powersave")

_PLATFORM = "sys/devices/platform/bus@0"
_I2C = f"{_PLATFORM}/c240000.i2c/i2c-1"
_HWMON = {"1-0040": "hwmon3", "1-0041": "hwmon4"}

ZONES = ("cpu-thermal", "gpu-thermal", "tj-thermal")
"""The thermal zones, by number. One die, one temperature: all three show it."""


def devfreq_directory(board: BoardModel, root: Path) -> Path:
    """The GPU's devfreq directory, by its real path."""
    return root / _PLATFORM / board.devfreq / "devfreq" / board.devfreq


def rail_files(rail: Rail, root: Path) -> tuple[Path, Path]:
    """A rail's voltage (mV) and current (mA) files, by their real paths."""
    hwmon = chip_directory(rail.chip, root)
    return hwmon / f"in{rail.channel}_input", hwmon / f"curr{rail.channel}_input"


def chip_directory(chip: str, root: Path) -> Path:
    """The hwmon directory of one INA3221, by its real path."""
    return root / _I2C / chip / "hwmon" / _HWMON[chip]


def temperature_files(root: Path) -> list[Path]:
    """The thermal zones' temperature files (millidegrees C)."""
    return [root / f"sys/class/thermal/thermal_zone{index}/temp" for index in range(len(ZONES))]


def build_tree(board: BoardModel, root: Path) -> None:
    """Write the whole tree under `root` with the values of a board at rest.

    Raises:
        OSError: a file could not be written or is there already as something else.
    """
    _write(root / MARK, f"{board.name}\n")
    _write(root / "proc/device-tree/model", f"{board.model}\0")
    _write(root / "proc/device-tree/compatible", "".join(f"{c}\0" for c in board.compatible))
    _write(root / "etc/nv_tegra_release", f"{board.nv_tegra_release}\n# KERNEL_VARIANT: oot\n")
    (root / "run").mkdir()
    _build_power_modes(board, root)
    _build_gpu(board, root)
    for chip in sorted({rail.chip for rail in board.rails}):
        _build_chip(board, chip, root)
    temperature_c = at_rest(board).temperature_c
    for kind, path in zip(ZONES, temperature_files(root), strict=True):
        _write(path.with_name("type"), f"{kind}\n")
        _write(path, f"{round(1000 * temperature_c)}\n")


def _build_power_modes(board: BoardModel, root: Path) -> None:
    """The state that nvpmodel left, its table, and the caps beside the GPU's."""
    _write(root / "var/lib/nvpmodel/status", f"pmode:{board.mode.id:04d}")
    table = "\n".join(_mode_text(mode) for mode in board.modes)
    _write(root / "etc/nvpmodel/nvpmodel_virtual.conf", table)
    (root / "etc/nvpmodel.conf").symlink_to("nvpmodel/nvpmodel_virtual.conf")
    _write(root / "sys/kernel/nvpmodel_clk_cap/emc", f"{board.mode.emc_max_hz or 0}\n")
    for core in range(max(mode.cpu_cores for mode in board.modes)):
        cpu = root / f"sys/devices/system/cpu/cpu{core}"
        _write(cpu / "online", f"{int(core < board.mode.cpu_cores)}\n")
        _write(cpu / "cpufreq/scaling_max_freq", f"{board.cpu_hz // 1000}\n")


def _mode_text(mode: PowerMode) -> str:
    """One mode as nvpmodel's own table states it; -1 is no cap."""
    return (
        f"< POWER_MODEL ID={mode.id} NAME={mode.name} >\n"
        f"CPU_A78_0 MAX_FREQ {(mode.cpu_max_hz or -1000) // 1000}\n"
        "GPU MIN_FREQ 0\n"
        f"GPU MAX_FREQ {mode.gpu_max_hz or -1}\n"
        f"GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on\nTPC_POWER_GATING TPC_PG_MASK {mode.tpc_pg_mask}\n"
        f"EMC MAX_FREQ {mode.emc_max_hz or 0}\n"
    )


def _build_gpu(board: BoardModel, root: Path) -> None:
    """The GPU's device directory, its devfreq directory and the class link to that."""
    lowest_hz = board.frequencies_hz[0]
    device = root / _PLATFORM / board.devfreq
    _write(device / "load", "0\n")
    _write(device / "of_node/name", "gpu\0")
    _write(device / "railgate_enable", "1\n")
    _write(device / "tpc_pg_mask", f"{board.mode.tpc_pg_mask}\n")
    _write(device / "power/control", "auto\n")
    devfreq = devfreq_directory(board, root)
    for name, text in {
        "name": board.devfreq,
        "governor": GOVERNORS[0],
        "available_governors": " ".join(GOVERNORS),
        "available_frequencies": " ".join(map(str, board.frequencies_hz)),
        "cur_freq": str(lowest_hz),
        "target_freq": str(lowest_hz),
        "min_freq": str(lowest_hz),
        "max_freq": str(board.cap_hz),
        "polling_interval": "25",
    }.items():
        _write(devfreq / name, f"{text}\n")
    (devfreq / "device").symlink_to("../..")
    _link(root / "sys/class/devfreq" / board.devfreq, devfreq)


def _build_chip(board: BoardModel, chip: str, root: Path) -> None:
    """One INA3221: its hwmon directory, the driver's link to the chip, the class link to hwmon."""
    hwmon = chip_directory(chip, root)
    enabled = sum(rail.chip == chip for rail in board.rails)
    _write(hwmon / "name", "ina3221\n")
    _write(hwmon / "samples", f"{board.constants.averaged_samples}\n")
    interval_ms = round(2 * board.constants.conversion_us * enabled / 1000)
    _write(hwmon / "update_interval", f"{interval_ms}\n")
    idle_w = board.rail_power_w(board.laws["idle"], board.frequencies_hz[0])
    for channel in (1, 2, 3):
        _write(hwmon / f"shunt{channel}_resistor", f"{board.shunt_uohm}\n")
        _write(hwmon / f"in{channel}_enable", "0\n")
    for rail in board.rails:
        if rail.chip == chip:
            voltage, current = rail_files(rail, root)
            _write(hwmon / f"in{rail.channel}_label", f"{rail.label}\n")
            _write(hwmon / f"in{rail.channel}_enable", "1\n")
            voltage_mv = quantised(1000 * rail.voltage_v, board.voltage_quantum_mv)
            current_ma = 1000 * idle_w[rail.label] / rail.voltage_v
            _write(voltage, f"{voltage_mv}\n")
            _write(current, f"{quantised(current_ma, board.current_quantum_ma)}\n")
    _link(root / "sys/bus/i2c/drivers/ina3221" / chip, root / _I2C / chip)
    _link(root / "sys/class/hwmon" / hwmon.name, hwmon)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def _link(path: Path, target: Path) -> None:
    """A relative link, as sysfs has them, so that the tree can be moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
