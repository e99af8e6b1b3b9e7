"""The INA3221 power rails: found by chip address and label, totalled as the board is wired."""

import os
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import read_text

TOTAL_RAILS = {
    "p3701": ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    "p3767": ("VDD_IN",),
}
"""Rails whose sum is the module's power, by module family.

On AGX Orin (p3701) VDDQ_VDD2_1V8AO lies inside VIN_SYS_5V0; on Orin NX and Nano (p3767) every other
rail lies inside VDD_IN. Source: the device trees of L4T 35 and 36.
"""

GPU_RAIL = {"p3701": "VDD_GPU_SOC", "p3767": "VDD_CPU_GPU_CV"}
"""The rail that feeds the GPU; it feeds the SoC fabric (AGX) or the CPU (NX, Nano) as well."""

UNUSED_LABELS = frozenset({"", "NC"})


@dataclass(frozen=True)
class Rail:
    """One measured supply: its label, the chip and channel behind it, and the two files to read."""

    label: str
    chip: str
    channel: int
    voltage_file: Path
    current_file: Path


def find_rails(root: Path) -> list[Rail]:
    """Return every labelled rail under `root`, ordered by chip and channel.

    Chips are found through their driver, never by a hwmon number: those change from boot to boot.
    A channel without a label, or labelled NC, is not connected and is left out.
    """
    chips = sorted((root / "sys/bus/i2c/drivers/ina3221").glob("*-004[0-3]"))
    return [rail for chip in chips for rail in _rails_of(chip)]


def _rails_of(chip: Path) -> list[Rail]:
    rails = []
    for hwmon in sorted((chip / "hwmon").glob("hwmon*"))[:1]:
        for channel in (1, 2, 3):
            label = read_text(hwmon / f"in{channel}_label") or ""
            if label not in UNUSED_LABELS:
                voltage, current = hwmon / f"in{channel}_input", hwmon / f"curr{channel}_input"
                rails.append(Rail(label, chip.name, channel, voltage, current))
    return rails


def unreadable_labels(root: Path) -> list[Path]:
    """Return the label files that are there but may not be read, as on JetPack 5 without root."""
    labels = (root / "sys/bus/i2c/drivers/ina3221").glob("*-004[0-3]/hwmon/hwmon*/in[123]_label")
    return sorted(label for label in labels if not os.access(label, os.R_OK))


def total_rails(module: str) -> tuple[str, ...]:
    """Return the labels whose sum is the power of `module`."""
    return TOTAL_RAILS[module.partition("-")[0]]


def gpu_rail(module: str) -> str:
    """Return the label of the rail that feeds the GPU of `module`."""
    return GPU_RAIL[module.partition("-")[0]]


def sensor_averaging(root: Path) -> int | None:
    """Return how many conversions the sensors average (1 = none), or None where it is not said.

    Stock L4T 36 boards average 512, a lag of about 0.4 s; the driver's own default is 1.
    """
    counts = [
        int(text)
        for chip in (root / "sys/bus/i2c/drivers/ina3221").glob("*-004[0-3]/hwmon/hwmon*")
        if (text := read_text(chip / "samples")) and text.isdigit()
    ]
    return max(counts, default=None)
