"""What a live window is measured under: temperature, caps, memory clock, power mode, peaks."""

from collections.abc import Mapping

from orin_gov.board.conditions import Conditions, read_conditions
from orin_gov.board.peaks import find_peaks
from orin_gov.board.probe import Board
from orin_gov.policy.window import Surroundings

ZONES = ("gpu", "tj")
"""The thermal zones that tell the GPU's temperature, best first; else the hottest zone does."""


LOOK_NS = 10_000_000_000
"""How often the board is looked at: it takes some twenty files, and a decision must not wait."""


class Lookaround:
    """Keeps what the board was last found like. Thread-safety: none, the engine's thread owns it."""

    def __init__(self) -> None:
        self._conditions: Conditions | None = None
        self._looked_ns = 0

    def look(self, board: Board, now_ns: int) -> None:
        """Look at the board where the last look is old; nothing is raised."""
        if self._conditions is None or now_ns - self._looked_ns >= LOOK_NS:
            self._conditions = read_conditions(board.root, board.gpu)
            self._looked_ns = now_ns

    def surroundings(self, board: Board, limits_hz: tuple[int, int] | None) -> Surroundings:
        """Return what was found; `limits_hz` are the clocks there are to choose."""
        if self._conditions is None:
            return Surroundings()
        return surroundings_under(self._conditions, board, limits_hz)


def surroundings_under(
    conditions: Conditions, board: Board, limits_hz: tuple[int, int] | None
) -> Surroundings:
    """Return the surroundings of a window that is measured under such conditions."""
    mode, peaks = conditions.power_mode, find_peaks(board.identity.module)
    emc_hz = conditions.emc_rate_hz or conditions.emc_cap_hz
    floor_hz, ceiling_hz = limits_hz or (None, None)
    return Surroundings(
        temperature_c=gpu_temperature_c(conditions.temperature_c),
        floor_hz=floor_hz,
        ceiling_hz=ceiling_hz,
        emc_hz=emc_hz,
        power_mode=mode.number if mode else None,
        gpu_rail=board.gpu_rail,
        peak_operations_per_cycle=peaks.operations_per_cycle if peaks else None,
        peak_bytes_per_s=peaks.bytes_per_s(emc_hz) if peaks else None,
    )


def gpu_temperature_c(zones: Mapping[str, float | None]) -> float | None:
    """Return the GPU's temperature, or the hottest there is; None where no zone can be read."""
    named = (zones.get(name) for name in ZONES)
    found = next((value for value in named if value is not None), None)
    if found is not None:
        return found
    return max((value for value in zones.values() if value is not None), default=None)
