"""Windows as rows of a table, with what the saving compares of them.

Numbers side by side: as an object a window takes ten times as much, and a run has thousands.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orin_gov.policy.line import NO_STEPS
from orin_gov.policy.reference import step_sums
from orin_gov.policy.window import Window

Rows = npt.NDArray[np.void]

TWO_RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV")
"""What published fine-tuning energies count; on an AGX Orin these two rails exist."""

BY_ITSELF = -1
"""A row's target_hz under the board's own governor."""

ROW = np.dtype(
    [
        ("start_ns", "i8"),
        ("end_ns", "i8"),
        ("target_hz", "i8"),
        ("steps", "i8"),
        ("work", "f8"),
        ("duration_s", "f8"),
        ("energy_j", "f8"),
        ("two_rails_j", "f8"),
        ("time", "f8", len(NO_STEPS)),
        ("energy", "f8", len(NO_STEPS)),
    ]
)
"""`time` and `energy` are the sums over the steps (orin_gov.policy.line); NaN is what is missing."""

SUMMED = ("steps", "work", "duration_s", "energy_j", "two_rails_j", "time", "energy")


def rows_of(windows: Sequence[Window]) -> Rows:
    """Return windows as rows."""
    return np.array([_row(window) for window in windows], ROW)


def joined(rows: Rows, others: Rows) -> Rows:
    """Return each row as one with the other that follows it; what one of them lacks is missing."""
    found = rows.copy()
    found["end_ns"] = others["end_ns"]
    for name in SUMMED:
        found[name] += others[name]
    return found


def two_rails_j(rail_energy_j: Mapping[str, float | None]) -> float | None:
    """Return the energy of the two rails together, None where the board has not both."""
    joules = [rail_energy_j.get(rail) for rail in TWO_RAILS]
    return None if None in joules else float(sum(filter(None, joules)))


def _row(window: Window) -> tuple[Any, ...]:
    sums = step_sums(window)
    return (
        window.start_ns,
        window.end_ns,
        BY_ITSELF if window.target_hz is None else window.target_hz,
        window.steps,
        _number(window.work),
        window.duration_s,
        _number(window.energy_j),
        _number(two_rails_j(window.rail_energy_j)),
        sums.time,
        sums.energy or [math.nan] * len(NO_STEPS),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
