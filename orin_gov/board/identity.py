"""Which board this is, by /proc/device-tree/compatible under a given root."""

import re
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import read_text
from orin_gov.errors import BoardError

MODULE_NAMES = {
    "p3701-0000": "Jetson AGX Orin (developer kit)",
    "p3701-0004": "Jetson AGX Orin 32GB",
    "p3701-0005": "Jetson AGX Orin 64GB",
    "p3701-0008": "Jetson AGX Orin Industrial",
    "p3767-0000": "Jetson Orin NX 16GB",
    "p3767-0001": "Jetson Orin NX 8GB",
    "p3767-0003": "Jetson Orin Nano 8GB",
    "p3767-0004": "Jetson Orin Nano 4GB",
    "p3767-0005": "Jetson Orin Nano 8GB (developer kit)",
}
"""Module part numbers as they stand in the device tree of L4T 35 and 36."""

VIRTUAL_MARK = "etc/orin_gov-virtual-board"


@dataclass(frozen=True)
class Identity:
    """One machine: its module part number, a name for people, and whether it is virtual."""

    module: str
    name: str
    model: str | None
    l4t: str | None
    virtual: str | None

    @property
    def title(self) -> str:
        """The board as a report names it; a virtual one always says so."""
        return f"virtual board {self.virtual} ({self.name})" if self.virtual else self.name


def identify(root: Path) -> Identity:
    """Return the identity of the board whose file system starts at `root`.

    Raises:
        BoardError: there is no device tree, or none of its entries is a known Jetson module.
    """
    compatible = read_text(root / "proc/device-tree/compatible")
    if compatible is None:
        raise BoardError(f"this is no Jetson: {root / 'proc/device-tree/compatible'} is missing")
    module = _module(compatible)
    if module is None:
        raise BoardError(
            f"unknown board: compatible is {compatible!r}, "
            f"expected one of {', '.join(MODULE_NAMES)}"
        )
    return Identity(
        module=module,
        name=MODULE_NAMES[module] + (" Super" if "-super" in compatible else ""),
        model=read_text(root / "proc/device-tree/model"),
        l4t=_l4t_release(root),
        virtual=read_text(root / VIRTUAL_MARK),
    )


def _module(compatible: str) -> str | None:
    # The most specific entry stands first. An emulated module ("...-as-p3701-0004") behaves as the
    # one it plays, so the last one of that entry counts.
    for entry in compatible.split():
        for match in reversed(re.findall(r"p\d{4}-\d{4}", entry)):
            if match in MODULE_NAMES:
                return str(match)
    return None


def _l4t_release(root: Path) -> str | None:
    text = read_text(root / "etc/nv_tegra_release") or ""
    match = re.match(r"# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else None
