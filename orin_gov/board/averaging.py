"""How far behind the sensors are: the chip averages conversions, and that is a time constant.

An INA3221 averages recursively, new = old + (reading - old) / N at each conversion, which is a
low-pass of time constant N cycles. Stock L4T 36 sets N = 512: about 0.4 s.
"""

from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import read_int
from orin_gov.board.rails import find_chips

CYCLE_S = 0.0066
"""One cycle at the reset configuration 0x7127: 3 channels of 1.1 + 1.1 ms."""

LONGEST_CYCLE_S = 0.0495
"""3 channels of 8.244 + 8.244 ms, the slowest the chip can be set to."""

SHORTEST_CYCLE_S = 0.0005
"""What an `update_interval` that reads 0 ms can stand for at most."""

MOST_SAMPLES = 1024

FIXED_SAMPLES = {"ina3221x": 64}
"""Averaging of drivers that do not tell it: JetPack 4 configures 0x7727."""

SETTLED = 3
"""Time constants after which a step of power has shown up to 95 %."""

SHORTEST_PHASE_S = 0.1
"""A phase that is to be measured on its own lasts so long at least."""

TOLD_BY = frozenset({"ina3221", "ina3221x"})


@dataclass(frozen=True)
class Averaging:
    """How one chip averages: `samples` conversions (1 = none, None = not known) of `cycle_s`."""

    chip: str
    samples: int | None
    cycle_s: float
    file: Path | None = None

    @property
    def time_constant_s(self) -> float:
        """Seconds until a step of power has shown up to 63 %; a single cycle where not known."""
        return (self.samples or 1) * self.cycle_s


def find_averaging(root: Path) -> tuple[Averaging, ...]:
    """Return the averaging of every INA3221 under `root`."""
    return tuple(
        _averaging(layout.driver, device.name, folder)
        for layout, device, folder in find_chips(root)
        if layout.driver in TOLD_BY
    )


def _averaging(driver: str, chip: str, folder: Path) -> Averaging:
    if driver in FIXED_SAMPLES:
        return Averaging(chip, FIXED_SAMPLES[driver], CYCLE_S)
    file = folder / "samples"
    samples = read_int(file)
    if samples is None or not 1 <= samples <= MOST_SAMPLES:
        return Averaging(chip, None, CYCLE_S, file)
    return Averaging(chip, samples, _cycle_s(read_int(folder / "update_interval"), samples), file)


def _cycle_s(interval_ms: int | None, samples: int) -> float:
    """Return one cycle, from the interval as the driver tells it.

    NVIDIA's driver leaves the averaging out of the interval, mainline's has it in. Only one that is
    longer than any cycle can be is surely mainline's; a doubtful one is taken for the slower.
    """
    if interval_ms is None or interval_ms < 0:
        return CYCLE_S
    interval_s = interval_ms / 1000
    if interval_s > LONGEST_CYCLE_S:
        interval_s /= samples
    return min(max(interval_s, SHORTEST_CYCLE_S), LONGEST_CYCLE_S)
