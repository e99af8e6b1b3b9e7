"""The files of a virtual board: a JetPack 6 AGX Orin's device tree, devfreq, hwmon and thermal.

Paths, contents and formats are those of L4T R36 (kernel 5.15), but for blanks before the newline of
a value that once was longer (`ValueFile`). Channels 1 and 3 of the second
INA3221 are disabled there: they have no label, and reading them fails with ENODATA; plain files
cannot fail so, so their inputs are left out. The file `MARK` says that the board is virtual.
"""

import os
from pathlib import Path

from orin_gov.virtual.plant import BoardModel, Rail, quantised

MARK = "etc/orin_gov-virtual-board"
"""Relative path of the file that holds a virtual board's name; no real board has it."""

GOVERNORS = ("nvhost_podgov", "userspace", "performance", "powersave")

_PLATFORM = "sys/devices/platform/bus@0"
_I2C = f"{_PLATFORM}/c240000.i2c/i2c-1"
_HWMON = {"1-0040": "hwmon3", "1-0041": "hwmon4"}
_ZONES = {"cpu-thermal": 49_000, "gpu-thermal": 47_000, "tj-thermal": 50_000}


def devfreq_directory(board: BoardModel, root: Path) -> Path:
    """The GPU's devfreq directory, by its real path."""
    return root / _PLATFORM / board.devfreq / "devfreq" / board.devfreq


def rail_files(rail: Rail, root: Path) -> tuple[Path, Path]:
    """A rail's voltage (mV) and current (mA) files, by their real paths."""
    hwmon = _hwmon_directory(rail.chip, root)
    return hwmon / f"in{rail.channel}_input", hwmon / f"curr{rail.channel}_input"


def build_tree(board: BoardModel, root: Path) -> None:
    """Write the whole tree under `root` with the values of a board at rest in MAXN.

    Raises:
        OSError: a file could not be written or is there already as something else.
    """
    _write(root / MARK, f"{board.name}\n")
    _write(root / "proc/device-tree/model", f"{board.model}\0")
    _write(root / "proc/device-tree/compatible", "".join(f"{c}\0" for c in board.compatible))
    _write(root / "etc/nv_tegra_release", f"{board.nv_tegra_release}\n# KERNEL_VARIANT: oot\n")
    _write(root / "var/lib/nvpmodel/status", "pmode:0000")
    (root / "run").mkdir()
    _build_gpu(board, root)
    for chip in sorted({rail.chip for rail in board.rails}):
        _build_chip(board, chip, root)
    for index, (kind, temperature_mc) in enumerate(_ZONES.items()):
        zone = root / f"sys/class/thermal/thermal_zone{index}"
        _write(zone / "type", f"{kind}\n")
        _write(zone / "temp", f"{temperature_mc}\n")


def _build_gpu(board: BoardModel, root: Path) -> None:
    """The GPU's device directory, its devfreq directory and the class link to that."""
    lowest_hz, top_hz = board.frequencies_hz[0], board.top_hz
    device = root / _PLATFORM / board.devfreq
    _write(device / "load", "0\n")
    _write(device / "of_node/name", "gpu\0")
    _write(device / "railgate_enable", "1\n")
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
        "max_freq": str(top_hz),
        "polling_interval": "25",
    }.items():
        _write(devfreq / name, f"{text}\n")
    (devfreq / "device").symlink_to("../..")
    _link(root / "sys/class/devfreq" / board.devfreq, devfreq)


def _build_chip(board: BoardModel, chip: str, root: Path) -> None:
    """One INA3221: its hwmon directory, the driver's link to the chip, the class link to hwmon."""
    hwmon = _hwmon_directory(chip, root)
    _write(hwmon / "name", "ina3221\n")
    _write(hwmon / "samples", "1\n")
    _write(hwmon / "update_interval", f"{round(board.constants.conversion_ms)}\n")
    shunt_uohm = 40_000 // board.current_quantum_ma
    for channel in (1, 2, 3):
        _write(hwmon / f"shunt{channel}_resistor", f"{shunt_uohm}\n")
        _write(hwmon / f"in{channel}_enable", "0\n")
    for rail in board.rails:
        if rail.chip == chip:
            voltage, current = rail_files(rail, root)
            _write(hwmon / f"in{rail.channel}_label", f"{rail.label}\n")
            _write(hwmon / f"in{rail.channel}_enable", "1\n")
            voltage_mv = quantised(1000 * rail.voltage_v, board.voltage_quantum_mv)
            current_ma = 1000 * rail.static_w / rail.voltage_v
            _write(voltage, f"{voltage_mv}\n")
            _write(current, f"{quantised(current_ma, board.current_quantum_ma)}\n")
    _link(root / "sys/bus/i2c/drivers/ina3221" / chip, root / _I2C / chip)
    _link(root / "sys/class/hwmon" / hwmon.name, hwmon)


def _hwmon_directory(chip: str, root: Path) -> Path:
    return root / _I2C / chip / "hwmon" / _HWMON[chip]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def _link(path: Path, target: Path) -> None:
    """A relative link, as sysfs has them, so that the tree can be moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
