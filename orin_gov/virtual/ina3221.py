"""The power rails of a virtual board: exact energy inside, quantised readings outside.

Each conversion shows the mean power since the last one, as the INA3221 converts it: with noise, in
steps of the shunt's and the bus's resolution. The exact integral stays here as the truth.
"""

import random
from collections.abc import Mapping
from pathlib import Path

from orin_gov.virtual.files import ValueFile
from orin_gov.virtual.plant import BoardModel, quantised
from orin_gov.virtual.tree import rail_files


class Rails:
    """Every rail of one board; `energy_j` is the exact energy by label since the start.

    Thread-safety: none; the server's loop owns it.
    """

    def __init__(self, board: BoardModel, root: Path, rng: random.Random) -> None:
        self._board = board
        self._rng = rng
        self._files = {
            rail.label: tuple(ValueFile(path) for path in rail_files(rail, root))
            for rail in board.rails
        }
        self.energy_j = {rail.label: 0.0 for rail in board.rails}
        self._converted_j = dict(self.energy_j)
        self._elapsed_s = 0.0

    def add(self, seconds: float, power_w: Mapping[str, float]) -> None:
        """Integrate `power_w` (by label) over `seconds`."""
        self._elapsed_s += seconds
        for label, watts in power_w.items():
            self.energy_j[label] += watts * seconds

    def convert(self) -> None:
        """Show every rail's mean power since the last conversion."""
        if self._elapsed_s <= 0.0:
            return
        noise = self._board.constants
        for rail in self._board.rails:
            energy_j = self.energy_j[rail.label]
            power_w = (energy_j - self._converted_j[rail.label]) / self._elapsed_s
            self._converted_j[rail.label] = energy_j
            voltage_file, current_file = self._files[rail.label]
            current_ma = self._rng.gauss(1000 * power_w / rail.voltage_v, noise.current_noise_ma)
            voltage_mv = self._rng.gauss(1000 * rail.voltage_v, noise.voltage_noise_mv)
            current_file.show(quantised(current_ma, self._board.current_quantum_ma))
            voltage_file.show(quantised(voltage_mv, self._board.voltage_quantum_mv))
        self._elapsed_s = 0.0
