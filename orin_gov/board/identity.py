"""Which board this is, by the device tree under a given root, or by what the user says it is."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import fault, read_text
from orin_gov.board.modules import FAMILIES, MODULE_NAMES, OTHER_NAMES
from orin_gov.errors import BoardError

VIRTUAL_MARK = "etc/orin_gov-virtual-board"
SAID = "ORIN_GOV_MODULE"
"""Environment variable that names the module where the device tree cannot, as in a container."""

COMPATIBLE = ("proc/device-tree/compatible", "sys/firmware/devicetree/base/compatible")
MODEL = ("proc/device-tree/model", "sys/firmware/devicetree/base/model")

PART = re.compile(r"p\d{4}-\d{4}")

KERNELS = {"4.9": "4", "5.10": "5", "5.15": "6", "6.8": "7"}
"""JetPack's generation by its kernel, for a root without /etc/nv_tegra_release."""

JETPACKS = {
    "32.7": "4.6",
    "34.1": "5.0",
    "35.1": "5.0.2",
    "35.2": "5.1",
    "35.3": "5.1.1",
    "35.4": "5.1.2",
    "35.5": "5.1.3",
    "35.6": "5.1.4",
    "36.3": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "36.5": "6.2.2",
    "38.2": "7.0",
    "38.4": "7.1",
    "39.2": "7.2",
}
"""JetPack by L4T release; an L4T revision that is not here counts by its first two numbers."""


@dataclass(frozen=True)
class Identity:
    """One machine: its module part number, a name for people, and whether it is virtual.

    `module` is a part number, or its first half where the rest is not said; None is unknown.
    """

    module: str | None
    name: str
    model: str | None
    l4t: str | None
    virtual: str | None
    jetpack: str | None = None

    @property
    def title(self) -> str:
        """The board as a report names it; a virtual one always says so."""
        return f"virtual board {self.virtual} ({self.name})" if self.virtual else self.name


def identify(root: Path, has_parts: bool = False) -> Identity:
    """Return the identity of the board whose file system starts at `root`.

    `has_parts` tells that a Jetson's sensors or GPU were found there: then it is one, if unknown.

    Raises:
        BoardError: this is no Jetson, or the environment names a module that is not known.
    """
    compatible = _first(root, COMPATIBLE)
    said = os.environ.get(SAID)
    if (
        not said
        and not has_parts
        and "tegra" not in (compatible or "")
        and not module_of(compatible)
    ):
        raise BoardError(f"this is no Jetson: {_missing(root, compatible)}")
    module = _said(said) if said else module_of(compatible)
    l4t = _l4t_release(root)
    return Identity(
        module=module,
        name=_name(module, compatible or ""),
        model=_first(root, MODEL),
        l4t=l4t,
        jetpack=_jetpack(root, l4t),
        virtual=read_text(root / VIRTUAL_MARK),
    )


def _first(root: Path, paths: tuple[str, ...]) -> str | None:
    texts = (read_text(root / path) for path in paths)
    return next((text for text in texts if text is not None), None)


def _missing(root: Path, compatible: str | None) -> str:
    if compatible is not None:
        return f"its device tree says {compatible!r}"
    path = root / COMPATIBLE[0]
    why = f"{path} is missing" if not path.exists() else fault(path)
    return f"{why} (in a container: set {SAID}, for example to p3701-0005)"


def _said(text: str) -> str:
    if text not in MODULE_NAMES and text not in FAMILIES:
        raise BoardError(f"{SAID} is {text!r}, expected one of {', '.join(MODULE_NAMES)}")
    return text


def module_of(compatible: str | None) -> str | None:
    """Return the part number of the module that a device tree's `compatible` names, if any."""
    # The most specific entry stands first. An emulated module ("...-as-p3701-0004") behaves as the
    # one it plays, so the last one of that entry counts.
    entries = (compatible or "").split()
    for entry in entries:
        for match in reversed(PART.findall(entry)):
            if match.partition("-")[0] in FAMILIES:
                return str(match)
    names = (entry.rpartition(",")[2] for entry in entries)
    return next((OTHER_NAMES[name] for name in names if name in OTHER_NAMES), None)


def _name(module: str | None, compatible: str) -> str:
    if module is None:
        return f"unknown Jetson ({compatible or 'no device tree'})"
    family = FAMILIES[module.partition("-")[0]].name
    name = MODULE_NAMES.get(module, family if module in FAMILIES else f"{family} ({module})")
    return name + (" Super" if "-super" in compatible else "")


def _l4t_release(root: Path) -> str | None:
    text = read_text(root / "etc/nv_tegra_release") or ""
    match = re.match(r"# R(\d+) \(release\), REVISION: (\d+(?:\.\d+)*)", text)
    return f"{match[1]}.{match[2]}" if match else None


def _jetpack(root: Path, l4t: str | None) -> str | None:
    if l4t is not None:
        return JETPACKS.get(l4t) or JETPACKS.get(".".join(l4t.split(".")[:2]))
    kernel = read_text(root / "proc/sys/kernel/osrelease") or ""
    match = re.match(r"(\d+\.\d+)\.\S*tegra", kernel)
    return KERNELS.get(match[1]) if match else None
