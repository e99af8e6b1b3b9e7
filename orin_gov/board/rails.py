"""The power rails: found by driver, chip address and label, in the layout of each JetPack."""

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orin_gov.board.files import fault, read_int, read_text

CHIP = re.compile(r"(\d+)-00([0-9a-f]{2})")
"""A device on an I2C bus: the bus and the address. A hwmon number is none: it moves."""

SHUNT_STEP_UV = 40
"""What one bit of an INA3221's shunt voltage stands for (datasheet, section 7.5)."""

LABEL = re.compile(r"(?!NC$)[!-?A-~]([ -?A-~]{0,62}[!-?A-~])?")
"""What names a connected rail: printable ASCII, no @; NC is a channel that is not connected."""


@dataclass(frozen=True)
class Layout:
    """How one driver shows a chip's channels: `{}` in a name stands for the channel's index.

    `label` names the rail; where its file is missing, `otherwise` does, if there is one. `shunt` is
    the resistor in micro-ohm, where the driver tells it.
    """

    driver: str
    folder: str
    indices: Sequence[int]
    label: str
    voltage: str
    current: str
    otherwise: str = ""
    shunt: str | None = None


LAYOUTS = (
    Layout(
        "ina3221x",
        "iio:device*",
        (0, 1, 2),
        "rail_name_{}",
        "in_voltage{}_input",
        "in_current{}_input",
    ),
    Layout(
        "ina3221",
        "hwmon/hwmon*",
        (1, 2, 3),
        "in{}_label",
        "in{}_input",
        "curr{}_input",
        shunt="shunt{}_resistor",
    ),
    # On Thor; it has power in microwatts too, but volts and amperes are read as everywhere.
    Layout("ina238", "hwmon/hwmon*", (1,), "label", "in{}_input", "curr{}_input", "VIN"),
)
"""JetPack 4, JetPack 5 to 7, and the input sensor of Thor: millivolts and milliamperes in all."""


@dataclass(frozen=True)
class Rail:
    """One measured supply: its label, the chip and channel behind it, and the two files to read."""

    label: str
    chip: str
    channel: int
    voltage_file: Path
    current_file: Path
    pattern: str = ""
    shunt_file: Path | None = None

    @property
    def sampler_files(self) -> tuple[str, str]:
        """The two files as glob patterns that outlive a renumbering of hwmon."""
        return tuple(  # type: ignore[return-value]
            f"{self.pattern}/{file.name}" for file in (self.voltage_file, self.current_file)
        )

    def quantum_w(self) -> float | None:
        """Return the smallest step of power the rail can show, or None where it is not told.

        A current is a multiple of 40 uV over the shunt: 20 mA at 2 mOhm, 0.4 W of a 20 V rail.
        """
        shunt_uohm = read_int(self.shunt_file) if self.shunt_file else None
        voltage_mv = read_int(self.voltage_file)
        if not shunt_uohm or shunt_uohm < 0 or voltage_mv is None or voltage_mv < 0:
            return None
        return SHUNT_STEP_UV / shunt_uohm * voltage_mv / 1000

    def fault(self) -> str | None:
        """Return in words why the rail gives no reading, or None where it does."""
        for file in (self.voltage_file, self.current_file):
            if why := fault(file):
                return why
            if read_int(file) is None:
                return f"{file} holds {read_text(file)!r}, expected an integer"
        return None


def find_chips(root: Path) -> Iterator[tuple[Layout, Path, Path]]:
    """Yield each chip under `root`, ordered by bus and address: layout, device, folder of files."""
    for layout in LAYOUTS:
        devices = (root / "sys/bus/i2c/drivers" / layout.driver).glob("*-00*")
        for device in sorted((each for each in devices if CHIP.fullmatch(each.name)), key=_address):
            for folder in sorted(device.glob(layout.folder))[:1]:
                yield layout, device, folder


def find_rails(root: Path) -> list[Rail]:
    """Return every labelled rail under `root`, ordered by chip and channel; labels are unique.

    A channel without a label, or labelled NC, is not connected and is left out.
    """
    rails: list[Rail] = []
    for layout, device, folder in find_chips(root):
        for rail in _rails_of(layout, device, folder):
            twin = any(rail.label == each.label for each in rails)
            rails.append(
                replace(rail, label=f"{rail.label}@{rail.chip}:{rail.channel}") if twin else rail
            )
    return rails


def _rails_of(layout: Layout, device: Path, folder: Path) -> Iterator[Rail]:
    for channel, index in enumerate(layout.indices, 1):
        label = read_text(folder / layout.label.format(index)) or layout.otherwise
        if LABEL.fullmatch(label):
            yield Rail(
                label=label,
                chip=device.name,
                channel=channel,
                voltage_file=folder / layout.voltage.format(index),
                current_file=folder / layout.current.format(index),
                pattern=f"{glob.escape(str(device))}/{layout.folder}",
                shunt_file=folder / layout.shunt.format(index) if layout.shunt else None,
            )


def unreadable_labels(root: Path) -> list[Path]:
    """Return the label files that cannot be read though there, as on JetPack 4 and 5."""
    return [
        label
        for layout, _, folder in find_chips(root)
        for index in layout.indices
        if (label := folder / layout.label.format(index)).exists() and fault(label)
    ]


def _address(device: Path) -> tuple[int, str]:
    bus, _, address = device.name.partition("-")
    return int(bus), address
