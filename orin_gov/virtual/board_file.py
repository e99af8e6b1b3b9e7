"""What a virtual board's file says: its rails, power modes and constants.

One JSON file in boards/ for each. A file that is "like" another holds only what differs. Beside
every constant stands, under "sources", where it comes from: measured, derived or assumed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "boards"


@dataclass(frozen=True)
class Rail:
    """One measured supply.

    `shares` says how much of each of the plant's parts it feeds; `inside` names the rail whose
    reading already includes this one.
    """

    label: str
    chip: str
    channel: int
    voltage_v: float
    static_w: float
    shares: Mapping[str, float]
    inside: str | None


@dataclass(frozen=True)
class PowerMode:
    """One nvpmodel mode: its caps (Hz; None is none), CPU cores, and the share of TPCs that is on.

    Source: NVIDIA's nvpmodel tables, as in the public device configurations of L4T 36.
    """

    id: int
    name: str
    gpu_max_hz: int | None
    cpu_max_hz: int | None
    emc_max_hz: int | None
    cpu_cores: int
    tpc_pg_mask: int


@dataclass(frozen=True)
class Constants:
    """The plant's numbers; their evidence is under "sources" in the board's file."""

    voltage_hz: tuple[int, ...]
    voltage: tuple[float, ...]
    leak_w: float
    leak_per_c: float
    reference_c: float
    cpu_top_hz: int
    cpu_core_w: float
    cpu_exponent: float
    emc_top_hz: int
    tpcs: int
    ambient_c: float
    sink_k_per_w: float
    sink_tau_s: float
    junction_k_per_w: float
    junction_tau_s: float
    conversion_us: int
    averaged_samples: int
    current_noise_ma: float
    voltage_noise_mv: float
    switch_median_ms: float
    switch_up_ms_per_octave: float
    switch_down_ms_per_octave: float
    switch_octaves: float
    switch_quantiles: tuple[float, ...]
    switch_stall_us: float


def read_board_file(name: str) -> dict[str, Any]:
    """A board's file, over the one that it says it is "like".

    Objects are merged key by key, anything else is replaced.

    Raises:
        OSError: there is no such file.
    """
    data: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    if "like" not in data:
        return data
    like = read_board_file(data.pop("like"))
    return like | {
        key: {**like[key], **value} if isinstance(value, dict) else value
        for key, value in data.items()
    }
