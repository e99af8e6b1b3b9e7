"""The die's temperature: two thermal resistances and capacities in a row, solved exactly.

The die warms over the heat sink by `junction_k_per_w` for each watt, the sink over the air by
`sink_k_per_w`, each with its own time constant.
"""

from math import exp

from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel


class ThermalState:
    """A board's temperatures (deg C), starting in balance with a power.

    Thread-safety: none; one caller.
    """

    def __init__(self, board: BoardModel, module_w: float) -> None:
        c = self._constants = board.constants
        self._sink_c = c.ambient_c + c.sink_k_per_w * module_w
        self._rise_c = c.junction_k_per_w * module_w

    @property
    def temperature_c(self) -> float:
        """The die's temperature."""
        return self._sink_c + self._rise_c

    def step(self, seconds: float, module_w: float) -> None:
        """Let `seconds` pass at a constant power."""
        c = self._constants
        sink_c = c.ambient_c + c.sink_k_per_w * module_w
        rise_c = c.junction_k_per_w * module_w
        self._sink_c = sink_c + (self._sink_c - sink_c) * exp(-seconds / c.sink_tau_s)
        self._rise_c = rise_c + (self._rise_c - rise_c) * exp(-seconds / c.junction_tau_s)


def at_rest(board: BoardModel) -> ThermalState:
    """The temperatures of a board that has long been idle at its lowest clock."""
    law, clock_hz = board.laws["idle"], board.frequencies_hz[0]
    temperature_c = steady_temperature_c(board, law, clock_hz)
    return ThermalState(board, board.module_power_w(law, clock_hz, temperature_c=temperature_c))


def steady_temperature_c(board: BoardModel, law: PhaseLaw, frequency_hz: float) -> float:
    """Where the die's temperature comes to rest in a phase that goes on and on."""
    c = board.constants
    temperature_c = c.reference_c
    for _ in range(6):  # leakage feeds back by a tenth of a degree per degree: this has converged
        power_w = board.module_power_w(law, frequency_hz, temperature_c=temperature_c)
        temperature_c = c.ambient_c + (c.sink_k_per_w + c.junction_k_per_w) * power_w
    return temperature_c
