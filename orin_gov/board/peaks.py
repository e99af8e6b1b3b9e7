"""What a module's GPU and memory can do at most, by its part number.

Sources: NVIDIA's data sheets of the modules: CUDA cores, the width of the memory's bus and its top
clock. A core does 2 operations a cycle (one fused multiply-add in fp32; tensor cores do more, so
that a share of this peak may exceed 1), and the bus moves its width twice in a cycle.
"""

from dataclasses import dataclass

MHZ = 1_000_000


@dataclass(frozen=True)
class Peaks:
    """CUDA cores, bits of the memory's bus, and the memory's top clock."""

    cores: int
    bus_bits: int
    emc_hz: int

    @property
    def operations_per_cycle(self) -> float:
        """The fp32 operations that all cores do in a cycle of the GPU's clock."""
        return 2.0 * self.cores

    def bytes_per_s(self, emc_hz: int | None) -> float:
        """The bytes that the bus moves in a second; None as the memory's clock is its top one."""
        return 2.0 * self.bus_bits / 8 * (emc_hz or self.emc_hz)


PEAKS = {
    "p2180": Peaks(256, 64, 1600 * MHZ),
    "p2888": Peaks(512, 256, 2133 * MHZ),
    "p3310": Peaks(256, 128, 1866 * MHZ),
    "p3448": Peaks(128, 64, 1600 * MHZ),
    "p3489": Peaks(256, 128, 1866 * MHZ),
    "p3636": Peaks(256, 128, 1600 * MHZ),
    "p3668": Peaks(384, 128, 1866 * MHZ),
    "p3701": Peaks(2048, 256, 3199 * MHZ),
    "p3701-0004": Peaks(1792, 256, 3199 * MHZ),
    "p3767": Peaks(1024, 128, 3199 * MHZ),
    "p3767-0004": Peaks(512, 64, 3199 * MHZ),
    "p3834": Peaks(2560, 256, 4266 * MHZ),
}
"""By family, or by module where it differs from its family."""


def find_peaks(module: str | None) -> Peaks | None:
    """Return the peaks of a module, or None where no table tells them."""
    if not module:
        return None
    return PEAKS.get(module) or PEAKS.get(module.partition("-")[0])
