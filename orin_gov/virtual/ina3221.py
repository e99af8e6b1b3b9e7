"""The power monitors of a virtual board: exact energy inside, what their registers hold outside.

An INA3221 converts the shunt and the bus voltage of its enabled channels in turn, over and over.
With averaging on, a register moves by 1/N of the difference at each conversion (a recursive mean:
one of N = 512 lags by 512 cycles). The shunt register counts 40 uV in 13 bits with sign, the bus
register 8 mV. L4T's driver reads whatever is latched, so that polling faster than the conversions
yields repeats. `samples` and `update_interval` take effect when written, on the next settings that
the chip has; as in L4T, `update_interval` does not count the averaging.
"""

import random
from collections.abc import Mapping
from pathlib import Path

from orin_gov.virtual.devfreq import parse_limit
from orin_gov.virtual.files import ValueFile
from orin_gov.virtual.plant import BoardModel, quantised
from orin_gov.virtual.tree import chip_directory, rail_files

CONVERSION_US = (140, 204, 332, 588, 1100, 2116, 4156, 8244)
SAMPLES = (1, 4, 16, 64, 128, 256, 512, 1024)
_SHUNT_LIMIT = 4095
_SHOW_NS = 6_600_000


class Register:
    """One rail's registers and the exact energy of the rail."""

    def __init__(self, board: BoardModel, label: str, root: Path) -> None:
        (self._rail,) = (rail for rail in board.rails if rail.label == label)
        self._board = board
        self._voltage_file, self._current_file = map(ValueFile, rail_files(self._rail, root))
        self._converted_j = self.energy_j = 0.0
        self._mean_ma: float | None = None
        self._mean_mv = 0.0

    def convert(self, seconds: float, kept: float, rng: random.Random) -> None:
        """Take up the mean power of the last `seconds`; `kept` of the old average stays."""
        noise = self._board.constants
        power_w = (self.energy_j - self._converted_j) / seconds
        self._converted_j = self.energy_j
        current_ma = rng.gauss(1000 * power_w / self._rail.voltage_v, noise.current_noise_ma)
        voltage_mv = rng.gauss(1000 * self._rail.voltage_v, noise.voltage_noise_mv)
        if self._mean_ma is None:
            self._mean_ma, self._mean_mv = current_ma, voltage_mv
        self._mean_ma = kept * self._mean_ma + (1 - kept) * current_ma
        self._mean_mv = kept * self._mean_mv + (1 - kept) * voltage_mv
        quantum_ma = self._board.current_quantum_ma
        limit_ma = _SHUNT_LIMIT * quantum_ma
        self._current_file.show(max(-limit_ma, min(quantised(self._mean_ma, quantum_ma), limit_ma)))
        self._voltage_file.show(quantised(self._mean_mv, self._board.voltage_quantum_mv))


class Chip:
    """One INA3221: its settings, and the registers of its enabled channels."""

    def __init__(self, board: BoardModel, chip: str, root: Path, now_ns: int) -> None:
        directory = chip_directory(chip, root)
        self.registers = {
            rail.label: Register(board, rail.label, root)
            for rail in board.rails
            if rail.chip == chip
        }
        self._samples_file = ValueFile(directory / "samples")
        self._interval_file = ValueFile(directory / "update_interval")
        self._samples = board.constants.averaged_samples
        self._conversion_us = board.constants.conversion_us
        self._converted_ns = now_ns
        self.due_ns = now_ns + self._show_ns

    @property
    def cycle_ns(self) -> int:
        """How long the chip takes to convert all its channels once."""
        return 2 * self._conversion_us * len(self.registers) * 1000

    @property
    def _show_ns(self) -> int:
        """How often the registers are shown: each cycle, or more rarely where they crawl."""
        return self.cycle_ns if self._samples == 1 else max(self.cycle_ns, _SHOW_NS)

    def poll(self) -> None:
        """Take up what was written to the settings since."""
        samples = parse_limit(self._samples_file.read())
        if samples is not None and samples != self._samples:
            self._samples = min(SAMPLES, key=lambda known: abs(known - samples))
            self._samples_file.overwrite(b"%d" % self._samples)
        shown_ms = round(self.cycle_ns / 1e6)
        interval_ms = parse_limit(self._interval_file.read())
        if interval_ms is not None and interval_ms != shown_ms:
            wanted_us = 1000 * interval_ms / 2 / (len(self.registers) * self._samples)
            self._conversion_us = min(CONVERSION_US, key=lambda known: abs(known - wanted_us))
            self._interval_file.overwrite(b"%d" % round(self.cycle_ns / 1e6))

    def convert(self, now_ns: int, rng: random.Random) -> None:
        """Show what the conversions up to now have made of the registers."""
        elapsed_ns = now_ns - self._converted_ns
        self._converted_ns = now_ns
        self.due_ns += self._show_ns * max(1, (now_ns - self.due_ns) // self._show_ns + 1)
        if elapsed_ns > 0:
            kept = (1 - 1 / self._samples) ** (elapsed_ns / self.cycle_ns)
            for register in self.registers.values():
                register.convert(elapsed_ns * 1e-9, kept, rng)


class Rails:
    """Every rail of one board.

    Thread-safety: none; the server's loop owns it.
    """

    def __init__(self, board: BoardModel, root: Path, rng: random.Random, now_ns: int) -> None:
        self._rng = rng
        names = sorted({rail.chip for rail in board.rails})
        self.chips = [Chip(board, name, root, now_ns) for name in names]
        self._registers = {
            label: register for chip in self.chips for label, register in chip.registers.items()
        }

    @property
    def energy_j(self) -> dict[str, float]:
        """The exact energy by label since the start."""
        return {label: register.energy_j for label, register in self._registers.items()}

    @property
    def due_ns(self) -> int:
        """When the next conversion is through."""
        return min(chip.due_ns for chip in self.chips)

    def add(self, seconds: float, power_w: Mapping[str, float]) -> None:
        """Integrate `power_w` (by label) over `seconds`."""
        for label, watts in power_w.items():
            self._registers[label].energy_j += watts * seconds

    def convert(self, now_ns: int) -> None:
        """Show the conversions that are through."""
        for chip in self.chips:
            if now_ns >= chip.due_ns:
                chip.convert(now_ns, self._rng)

    def poll(self) -> None:
        """Take up what was written to the chips' settings."""
        for chip in self.chips:
            chip.poll()
