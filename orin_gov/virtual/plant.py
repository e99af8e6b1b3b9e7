"""The plant: what a virtual board's clock does to the time and the power of each phase.

Time. A phase has a part that does not scale with the GPU clock (host, launches, memory) and one
that does; they overlap, so the phase lasts their p-norm:

    t(f) = (floor^p + (compute * f_max / f)^p)^(1/p)          stretch(f) = t(f) / t(f_max)

Power. Each rail has a static part, leakage and its split of the phase's dynamic power:

    P(f) = static + leak * v(f)^2 + split * dynamic * v(f)^2 / stretch(f)

with v the core voltage relative to its lowest. The constants and where each of them comes from are
in the board's JSON file beside this module. Nothing here does I/O but `load_board`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orin_gov.errors import UsageError
from orin_gov.phases import PHASES

_BOARD_DIRECTORY = Path(__file__).parent

BOARDS: tuple[str, ...] = tuple(sorted(path.stem for path in _BOARD_DIRECTORY.glob("*.json")))
"""The names of the virtual boards."""


@dataclass(frozen=True)
class PhaseLaw:
    """How one phase answers to the clock.

    `floor` and `compute` are relative times at the top clock: what no clock shortens and what
    scales with it. `dynamic_w` is the module's dynamic power (W) at the top clock's rate of work
    and the lowest voltage.
    """

    floor: float
    compute: float
    dynamic_w: float


@dataclass(frozen=True)
class Rail:
    """One measured supply; `inside` names the rail whose reading already includes this one."""

    label: str
    chip: str
    channel: int
    voltage_v: float
    static_w: float
    leak_w: float
    dynamic_split: float
    inside: str | None


@dataclass(frozen=True)
class Constants:
    """The plant's numbers; their evidence is under "sources" in the board's file."""

    voltage_floor_hz: float
    voltage_linear_per_ghz: float
    voltage_quadratic_per_ghz2: float
    sharpness: float
    conversion_ms: float
    switch_latency_ms: float
    switch_latency_sd_ms: float
    current_noise_ma: float
    voltage_noise_mv: float


@dataclass(frozen=True)
class BoardModel:
    """One virtual board: identity, frequency table (Hz, ascending), rails and phase laws."""

    name: str
    model: str
    compatible: tuple[str, ...]
    nv_tegra_release: str
    devfreq: str
    frequencies_hz: tuple[int, ...]
    current_quantum_ma: int
    voltage_quantum_mv: int
    rails: tuple[Rail, ...]
    constants: Constants
    laws: Mapping[str, PhaseLaw]
    sources: Mapping[str, str]

    @property
    def top_hz(self) -> int:
        """The highest clock of the table, to which phase times are relative."""
        return self.frequencies_hz[-1]

    @property
    def module_rails(self) -> tuple[Rail, ...]:
        """The rails whose sum is the module's power: those inside no other."""
        return tuple(rail for rail in self.rails if rail.inside is None)

    def voltage(self, frequency_hz: float) -> float:
        """Core voltage at a clock, relative to the lowest voltage (>= 1)."""
        c = self.constants
        x = max(0.0, frequency_hz - c.voltage_floor_hz) * 1e-9
        return 1.0 + c.voltage_linear_per_ghz * x + c.voltage_quadratic_per_ghz2 * x * x

    def relative_time(self, law: PhaseLaw, frequency_hz: float) -> float:
        """t(f) of the module's docstring."""
        p = self.constants.sharpness
        compute = law.compute * self.top_hz / frequency_hz
        return float((law.floor**p + compute**p) ** (1.0 / p))

    def stretch(self, law: PhaseLaw, frequency_hz: float) -> float:
        """How many times longer a phase lasts at a clock than at the top clock (>= 1)."""
        return self.relative_time(law, frequency_hz) / self.relative_time(law, self.top_hz)

    def load(self, law: PhaseLaw, frequency_hz: float) -> float:
        """The GPU's busy fraction in a phase, 0 to 1: compute time over elapsed time."""
        busy = law.compute * self.top_hz / frequency_hz
        return min(1.0, busy / self.relative_time(law, frequency_hz))

    def rail_power_w(self, law: PhaseLaw, frequency_hz: float) -> dict[str, float]:
        """Watts of every rail, by label, in a phase at a clock."""
        v2 = self.voltage(frequency_hz) ** 2
        dynamic_w = law.dynamic_w * v2 / self.stretch(law, frequency_hz)
        return {
            rail.label: rail.static_w + rail.leak_w * v2 + rail.dynamic_split * dynamic_w
            for rail in self.rails
        }

    def module_power_w(self, law: PhaseLaw, frequency_hz: float) -> float:
        """Watts of the module: the sum of the rails that are inside no other."""
        power_w = self.rail_power_w(law, frequency_hz)
        return sum(power_w[rail.label] for rail in self.module_rails)


def quantised(value: float, quantum: int) -> int:
    """A sensor's reading of `value`: the nearest multiple of its `quantum`."""
    return round(value / quantum) * quantum


def load_board(name: str) -> BoardModel:
    """The virtual board of that name.

    Raises:
        UsageError: there is no virtual board of that name.
    """
    if name not in BOARDS:
        raise UsageError(f"no virtual board {name!r}; known: {', '.join(BOARDS)}")
    data = json.loads((_BOARD_DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    return BoardModel(
        name=data["name"],
        model=data["model"],
        compatible=tuple(data["compatible"]),
        nv_tegra_release=data["nv_tegra_release"],
        devfreq=data["devfreq"],
        frequencies_hz=tuple(data["frequencies_hz"]),
        current_quantum_ma=data["current_quantum_ma"],
        voltage_quantum_mv=data["voltage_quantum_mv"],
        rails=tuple(Rail(**rail) for rail in data["rails"]),
        constants=Constants(**data["constants"]),
        laws={phase: PhaseLaw(**data["laws"][phase]) for phase in PHASES},
        sources=data["sources"],
    )
