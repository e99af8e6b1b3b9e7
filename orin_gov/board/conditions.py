"""What a figure was measured under: power mode, memory clock, temperatures, over-current events.

Each is None where it could not be read; on most boards some take root, and some are not there.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_gov.board.files import read_int, read_ints, read_texts
from orin_gov.board.gpu import Gpu
from orin_gov.board.nvpmodel import PowerMode, read_power_mode

EMC_RATES = ("sys/kernel/debug/bpmp/debug/clk/emc/rate",)
"""The memory clock in Hz, on TX2 and later; it lies in debugfs and takes root."""

EMC_CAPS = ("sys/kernel/nvpmodel_clk_cap/emc", "sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
"""nvpmodel's cap of the memory clock in Hz: JetPack 6 and 7, JetPack 5."""

NO_CAP = frozenset({0, 2**31 - 1, 2**63 - 1})

ZONE = re.compile(r"(.+?)[-_]?(therm|thermal)", re.IGNORECASE)
"""A zone by its type, `CPU-therm` on JetPack 4 and 5 and `cpu-thermal` later; its index moves."""

NOT_MEASURED = frozenset({"PMIC-Die"})
"""A zone of JetPack 4 that holds a constant, 100 or 50 C."""

COLDEST_C, HOTTEST_C = -55.0, 200.0
"""What lies outside is no temperature: JetPack 4 has -256 for a domain that is switched off."""

OVER_CURRENT = "soctherm_oc"
COUNTER = re.compile(r"oc(\d)_event_cnt")
COOLING = re.compile(r"devfreq-(.+)")


@dataclass(frozen=True)
class Conditions:
    """One look: frequencies in Hz, temperatures in degrees Celsius by zone, events since boot."""

    power_mode: PowerMode | None
    emc_rate_hz: int | None
    emc_cap_hz: int | None
    temperature_c: Mapping[str, float | None]
    over_current_events: Mapping[str, int | None]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for the run directory."""
        return asdict(self)


def read_conditions(root: Path, gpu: Gpu | None) -> Conditions:
    """Look at the board under `root`; nothing is raised for what cannot be read."""
    return Conditions(
        power_mode=read_power_mode(root, gpu.directory if gpu else None),
        emc_rate_hz=_first_positive(root, EMC_RATES),
        emc_cap_hz=_first_positive(root, EMC_CAPS),
        temperature_c=read_temperatures(root),
        over_current_events=read_over_current(root),
    )


def read_temperatures(root: Path) -> dict[str, float | None]:
    """Return degrees Celsius by zone (`cpu`, `gpu`, `tj` ...); None where one is switched off."""
    found: dict[str, float | None] = {}
    zones = sorted((root / "sys/class/thermal").glob("thermal_zone*"))
    kinds = read_texts([zone / "type" for zone in zones])
    values = read_ints([zone / "temp" for zone in zones])
    for kind, value in zip(kinds, values, strict=True):
        if kind and kind not in NOT_MEASURED:
            match = ZONE.fullmatch(kind)
            found[(match[1] if match else kind).lower()[:64]] = celsius(value)
    return found


def read_over_current(root: Path) -> dict[str, int | None]:
    """Return events since boot by counter: oc1 is under-voltage, oc2 power, oc3 current.

    The clock is about halved for a millisecond at each, and cur_freq does not show it.
    """
    return read_counters(find_counters(root))


def risen(before: int | None, now: int | None) -> int | None:
    """Return by how much a counter has risen; None where it was not read, or has begun anew."""
    return None if before is None or now is None or now < before else now - before


def find_counters(root: Path) -> dict[str, Path]:
    """Return the files of the over-current counters by name."""
    folders = sorted((root / "sys/class/hwmon").glob("hwmon*"))
    for hwmon, name in zip(folders, read_texts([each / "name" for each in folders]), strict=True):
        if name == OVER_CURRENT:
            return {
                f"oc{match[1]}": file
                for file in sorted(hwmon.glob("oc*_event_cnt"))
                if (match := COUNTER.fullmatch(file.name))
            }
    return {}


def read_counters(counters: Mapping[str, Path]) -> dict[str, int | None]:
    """Return what the counters stand at."""
    values = map(_not_negative, read_ints([*counters.values()]))
    return dict(zip(counters, values, strict=True))


def is_cooled(root: Path, gpu: Gpu) -> bool:
    """Tell whether the thermal framework caps the GPU now.

    Its cap shows in max_freq like anyone's, but is a request of its own, and lifts itself: it must
    not be taken for the cap to put back.
    """
    devices = sorted((root / "sys/class/thermal").glob("cooling_device*"))
    kinds = read_texts([device / "type" for device in devices])
    ours = [
        device / "cur_state"
        for device, kind in zip(devices, kinds, strict=True)
        if (match := COOLING.fullmatch(kind or "")) and match[1] in gpu.directory.parts
    ]
    return any((state or 0) > 0 for state in read_ints(ours))


def celsius(milli: int | None) -> float | None:
    """Return degrees of a zone's millidegrees, or None where they are no temperature."""
    if milli is None or not COLDEST_C <= milli / 1000 <= HOTTEST_C:
        return None
    return milli / 1000


def _not_negative(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _first_positive(root: Path, paths: tuple[str, ...]) -> int | None:
    values = (read_int(root / path) for path in paths)
    return next((value for value in values if value and value > 0 and value not in NO_CAP), None)
