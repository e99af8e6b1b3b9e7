"""The modules that are known, and how each family of them is wired.

Sources: the device trees of L4T 32, 35, 36 and 38 (part numbers, labels, shunts) and NVIDIA's
developer guides for what a rail covers. A module that is not here is measured by rail, without a
total: a sum of the wrong rails would be worse than none.
"""

from collections.abc import Collection
from dataclasses import dataclass

MODULE_NAMES = {
    "p2180-1000": "Jetson TX1",
    "p2888-0001": "Jetson AGX Xavier 16GB",
    "p2888-0004": "Jetson AGX Xavier 32GB",
    "p2888-0005": "Jetson AGX Xavier 64GB",
    "p2888-0008": "Jetson AGX Xavier Industrial",
    "p3310-1000": "Jetson TX2",
    "p3448-0000": "Jetson Nano (developer kit)",
    "p3448-0002": "Jetson Nano",
    "p3448-0003": "Jetson Nano 2GB (developer kit)",
    "p3489-0000": "Jetson TX2i",
    "p3489-0888": "Jetson TX2 4GB",
    "p3636-0001": "Jetson TX2 NX",
    "p3668-0000": "Jetson Xavier NX (developer kit)",
    "p3668-0001": "Jetson Xavier NX",
    "p3668-0003": "Jetson Xavier NX 16GB",
    "p3701-0000": "Jetson AGX Orin (developer kit)",
    "p3701-0004": "Jetson AGX Orin 32GB",
    "p3701-0005": "Jetson AGX Orin 64GB",
    "p3701-0008": "Jetson AGX Orin Industrial",
    "p3767-0000": "Jetson Orin NX 16GB",
    "p3767-0001": "Jetson Orin NX 8GB",
    "p3767-0003": "Jetson Orin Nano 8GB",
    "p3767-0004": "Jetson Orin Nano 4GB",
    "p3767-0005": "Jetson Orin Nano 8GB (developer kit)",
    "p3834-0008": "Jetson AGX Thor",
}
"""Module part numbers as they stand in the device tree."""


@dataclass(frozen=True)
class Family:
    """Modules of one board layout.

    `totals` are the sets of rails whose sum is the module's power, by the label they have in one
    release or another: the first one that is there counts. `gpu_rails` are the rails that feed the
    GPU, and mostly something else as well.
    """

    name: str
    totals: tuple[tuple[str, ...], ...]
    gpu_rails: tuple[str, ...]

    def total(self, labels: Collection[str]) -> tuple[str, ...]:
        """Return the rails of the total, given the labels found; the usual ones where none fit."""
        return next((each for each in self.totals if set(each) <= set(labels)), self.totals[0])

    def gpu_rail(self, labels: Collection[str]) -> str:
        """Return the rail that feeds the GPU, given the labels found; the usual one by default."""
        return next((each for each in self.gpu_rails if each in labels), self.gpu_rails[0])


_TX2 = Family("Jetson TX2", (("VDD_IN",),), ("VDD_SYS_GPU",))

FAMILIES = {
    "p2180": Family("Jetson TX1", (("VDD_IN",),), ("VDD_GPU",)),
    "p2888": Family(
        "Jetson AGX Xavier", (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),), ("GPU",)
    ),
    "p3310": _TX2,
    "p3489": _TX2,
    "p3636": Family("Jetson TX2 NX", (("VDD_IN",),), ("VDD_CPU_GPU",)),
    "p3448": Family("Jetson Nano", (("POM_5V_IN",), ("VDD_IN",)), ("POM_5V_GPU", "VDD_GPU")),
    "p3668": Family(
        "Jetson Xavier NX", (("VDD_IN",), ("5V_IN",)), ("VDD_CPU_GPU_CV", "5V_CPU_GPU_CV")
    ),
    # VDDQ_VDD2_1V8AO lies inside VIN_SYS_5V0.
    "p3701": Family(
        "Jetson AGX Orin", (("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),), ("VDD_GPU_SOC",)
    ),
    # Every other rail lies inside VDD_IN.
    "p3767": Family("Jetson Orin NX or Nano", (("VDD_IN",),), ("VDD_CPU_GPU_CV",)),
    # VIN, from the INA238, is the module and its carrier.
    "p3834": Family(
        "Jetson AGX Thor", (("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"),), ("VDD_GPU",)
    ),
}
"""Families by the first half of the part number."""

OTHER_NAMES = {
    "galen": "p2888",
    "jetson-nano": "p3448",
    "jetson-tx1": "p2180",
    "jetson-xavier": "p2888",
    "jetson-xavier-nx": "p3668",
    "p2371-2180": "p2180",
    "p2771-0000": "p3310",
    "p2972-0000": "p2888",
    "p3450-0000": "p3448",
    "quill": "p3310",
}
"""What a device tree without a module's part number calls the board, and the family it means."""


def family_of(module: str | None) -> Family | None:
    """Return the family of a module by its part number, or None where it is not known."""
    return FAMILIES.get(module.partition("-")[0]) if module else None


def known_total(labels: Collection[str]) -> tuple[str, ...] | None:
    """Return the rails of the module's total by labels alone, for a log that names no board."""
    totals = {each for family in FAMILIES.values() for each in family.totals}
    fitting = [each for each in sorted(totals) if set(each) <= set(labels)]
    return fitting[0] if len(fitting) == 1 else None
