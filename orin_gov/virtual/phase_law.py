"""The law of a phase: what of its time and power answers to which clock (the formulas: plant.py)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PhaseLaw:
    """How one phase answers to the clocks.

    `floor`, `compute` and `memory` are times at the top clocks with the whole GPU on, in seconds or
    in any one unit: what the host takes, what scales with the GPU's clock, and what scales with the
    memory's. `dynamic_w` and `memory_w` are watts at that rate of work, the first of them at the
    lowest voltage. `cores` is how many CPU cores are busy. `sharpness` is the p of the overlap: 16
    for a loop of equal steps (measured), lower for a mix of steps, whose corners differ (assumed).
    """

    floor: float
    compute: float
    dynamic_w: float
    memory: float = 0.0
    memory_w: float = 0.0
    cores: float = 1.0
    sharpness: float = 4.0

    @classmethod
    def of_work(
        cls,
        host_s: float,
        compute_s: float,
        memory_s: float,
        core_j: float,
        memory_j: float,
        cores: float = 1.0,
        sharpness: float = 4.0,
    ) -> "PhaseLaw":
        """The law of a phase from its times at the top clocks (s) and its energies (J).

        `core_j` is the GPU's switching energy at the lowest voltage, `memory_j` that of DRAM, its
        controller and the fabric.
        """
        time_s = overlap(host_s, compute_s + memory_s, sharpness)
        return cls(
            host_s, compute_s, core_j / time_s, memory_s, memory_j / time_s, cores, sharpness
        )


def overlap(one: float, other: float, sharpness: float) -> float:
    """How long two things take that run side by side: their p-norm (>= the longer one)."""
    longer = max(one, other)
    if longer <= 0.0:
        return 0.0
    share = min(one, other) / longer
    return float(longer * (1.0 + share**sharpness) ** (1.0 / sharpness))
