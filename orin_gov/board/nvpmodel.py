"""The power mode that nvpmodel has set, from its own files: no command is run.

The state file tells the mode's number, the configuration what it caps. A mode whose change of
power-gated GPU clusters could not be made at run time waits for a reboot: then the mask in the
configuration and the one in force differ.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orin_gov.board.files import read_text, within

STATUS = "var/lib/nvpmodel/status"
CONFIGURATION = "etc/nvpmodel.conf"

NO_CAPS = frozenset({0, 2**31 - 1, 2**63 - 1})
"""What stands for no cap, as any negative value does: INT_MAX of JetPack 4, and of 64 bits."""

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18}|0x[0-9a-f]{1,16})")

SECTION = re.compile(r"<\s*(POWER_MODEL|PARAM|PM_CONFIG)\s+([^>]*)>")


@dataclass(frozen=True)
class PowerMode:
    """One mode: its number, its name, and its caps in Hz (None = no cap, or not said)."""

    number: int
    name: str | None = None
    gpu_max_hz: int | None = None
    emc_max_hz: int | None = None
    waits_for_reboot: bool | None = None


@dataclass
class _Section:
    settings: dict[str, str]
    values: dict[tuple[str, str], str] = field(default_factory=dict)


def read_power_mode(root: Path, gpu_directory: Path | None) -> PowerMode | None:
    """Return the mode that was set last, or None where nvpmodel has left no state."""
    status = re.match(r"pmode:(\d{1,9})\b", read_text(root / STATUS) or "")
    if status is None:
        return None
    number = int(status[1])
    section = parse_modes(read_text(within(root, CONFIGURATION)) or "").get(number)
    if section is None:
        return PowerMode(number)
    return PowerMode(
        number=number,
        name=section.settings.get("NAME"),
        gpu_max_hz=_cap(section.values.get(("GPU", "MAX_FREQ"))),
        emc_max_hz=_cap(section.values.get(("EMC", "MAX_FREQ"))),
        waits_for_reboot=_waits(section, gpu_directory),
    )


def parse_modes(text: str) -> Mapping[int, _Section]:
    """Return the POWER_MODEL sections of a configuration by their number, and nothing else."""
    modes: dict[int, _Section] = {}
    section: _Section | None = None
    for line in text.splitlines():
        if head := SECTION.match(line.strip()):
            settings = dict(word.split("=", 1) for word in head[2].split() if "=" in word)
            section = None
            if head[1] == "POWER_MODEL" and (number := _number(settings.get("ID"))) is not None:
                section = modes[number] = _Section(settings)
        elif section is not None and len(words := line.split()) == 3:
            section.values[words[0], words[1]] = words[2]
    return modes


def _number(text: str | None) -> int | None:
    return int(text, 0) if text and NUMBER.fullmatch(text) else None


def _cap(text: str | None) -> int | None:
    value = _number(text)
    return None if value is None or value < 0 or value in NO_CAPS else value


def _waits(section: _Section, gpu_directory: Path | None) -> bool | None:
    wanted = _number(section.values.get(("TPC_POWER_GATING", "TPC_PG_MASK")))
    if wanted is None or gpu_directory is None:
        return None
    in_force = _number(read_text(gpu_directory / "device/tpc_pg_mask"))
    return None if in_force is None else in_force != wanted
