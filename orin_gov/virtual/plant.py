"""The plant: what a virtual board's clocks do to the time and the power of each phase.

Time. A phase has a part that the host takes (Python, launches) and a part that the GPU takes, some
of it waiting for memory. Host and GPU overlap, so the phase lasts their p-norm:

    t(f) = (host^p + gpu(f)^p)^(1/p)        gpu(f) = memory * EMC_top / EMC + compute * f_top / f
    host = floor * CPU_top / CPU            stretch(f) = t(f) / t(f_top)

Power. Each rail has a static part and its shares of four others:

    core     dynamic_w * v(f)^2 / stretch(f)         the GPU's switching
    memory   memory_w / stretch(f)                   DRAM, its controller and the fabric
    leakage  leak_w * v(f)^2 * exp(k (T - T_ref))    the GPU's
    cpu      cores * cpu_core_w * (CPU / CPU_top)^g

with v the GPU's core voltage relative to its lowest and T the die's temperature. A power mode caps
the clocks and switches off a part of the GPU. The constants and where each of them comes from are
in the board's JSON file beside this module. Nothing here does I/O but `load_board`.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log2
from typing import Any

from orin_gov.errors import UsageError
from orin_gov.phases import PHASES
from orin_gov.virtual.board_file import Constants, PowerMode, Rail, read_board_file
from orin_gov.virtual.phase_law import PhaseLaw, overlap

BOARDS = ("agx-orin-64gb", "agx-orin-32gb", "orin-nx-16gb", "orin-nx-8gb", "orin-nano-8gb")
"""The names of the virtual boards; the first one is the measured one."""


@dataclass(frozen=True)
class BoardModel:
    """One virtual board in one power mode: identity, frequency table (Hz, ascending), rails, laws.

    Every method takes the GPU's clock in Hz. The CPU's and the memory's clock are the power mode's
    caps and the temperature (deg C) is `constants.reference_c`, unless they are given.
    """

    name: str
    model: str
    compatible: tuple[str, ...]
    nv_tegra_release: str
    devfreq: str
    frequencies_hz: tuple[int, ...]
    shunt_uohm: int
    rails: tuple[Rail, ...]
    constants: Constants
    laws: Mapping[str, PhaseLaw]
    sources: Mapping[str, str]
    mode: PowerMode
    modes: tuple[PowerMode, ...]

    @property
    def top_hz(self) -> int:
        """The highest clock of the table, to which phase times are relative."""
        return self.frequencies_hz[-1]

    @property
    def current_quantum_ma(self) -> int:
        """One step of the INA3221's current: 40 uV over the shunt."""
        return 40_000 // self.shunt_uohm

    @property
    def voltage_quantum_mv(self) -> int:
        """One step of the INA3221's bus voltage."""
        return 8

    @property
    def cap_hz(self) -> int:
        """The highest clock of the table that the power mode allows."""
        cap_hz = self.mode.gpu_max_hz or self.top_hz
        return self.frequencies_hz[max(0, bisect_right(self.frequencies_hz, cap_hz) - 1)]

    @property
    def cpu_hz(self) -> int:
        """The highest CPU clock that the power mode allows."""
        return self.mode.cpu_max_hz or self.constants.cpu_top_hz

    @property
    def emc_hz(self) -> int:
        """The highest memory clock that the power mode allows."""
        return self.mode.emc_max_hz or self.constants.emc_top_hz

    @property
    def tpc_share(self) -> float:
        """The share of the GPU's TPCs that is on: those of `tpc_pg_mask` are gated."""
        gated = bin(self.mode.tpc_pg_mask & ((1 << self.constants.tpcs) - 1)).count("1")
        return 1.0 - gated / self.constants.tpcs

    @property
    def module_rails(self) -> tuple[Rail, ...]:
        """The rails whose sum is the module's power: those inside no other."""
        return tuple(rail for rail in self.rails if rail.inside is None)

    def voltage(self, frequency_hz: float) -> float:
        """Core voltage at a clock, relative to the lowest voltage (>= 1)."""
        clocks_hz, volts = self.constants.voltage_hz, self.constants.voltage
        above = bisect_right(clocks_hz, frequency_hz)
        if above in (0, len(clocks_hz)):
            return volts[max(0, above - 1)]
        low_hz, high_hz = clocks_hz[above - 1 : above + 1]
        low, high = volts[above - 1 : above + 1]
        return low + (high - low) * (frequency_hz - low_hz) / (high_hz - low_hz)

    def leakage_w(self, frequency_hz: float, temperature_c: float | None = None) -> float:
        """The GPU's leakage (W) at a clock's voltage."""
        c = self.constants
        above_c = 0.0 if temperature_c is None else temperature_c - c.reference_c
        leak_w = c.leak_w * self.voltage(frequency_hz) ** 2
        return leak_w * exp(c.leak_per_c * above_c) * self.tpc_share

    def time_s(
        self,
        law: PhaseLaw,
        frequency_hz: float,
        cpu_hz: float | None = None,
        emc_hz: float | None = None,
    ) -> float:
        """t(f) of the module's docstring, in the unit of the law."""
        c = self.constants
        host = law.floor * c.cpu_top_hz / (cpu_hz or self.cpu_hz)
        return overlap(host, self._gpu_s(law, frequency_hz, emc_hz), law.sharpness)

    def stretch(
        self,
        law: PhaseLaw,
        frequency_hz: float,
        cpu_hz: float | None = None,
        emc_hz: float | None = None,
    ) -> float:
        """How many times longer a phase lasts than at the top clocks with all on (>= 1)."""
        top = overlap(law.floor, law.compute + law.memory, law.sharpness)
        return self.time_s(law, frequency_hz, cpu_hz, emc_hz) / top

    def load(
        self,
        law: PhaseLaw,
        frequency_hz: float,
        cpu_hz: float | None = None,
        emc_hz: float | None = None,
    ) -> float:
        """The GPU's busy share in a phase, 0 to 1: its own time over the time that passes."""
        busy = self._gpu_s(law, frequency_hz, emc_hz)
        return min(1.0, busy / self.time_s(law, frequency_hz, cpu_hz, emc_hz))

    def rail_power_w(
        self,
        law: PhaseLaw,
        frequency_hz: float,
        cpu_hz: float | None = None,
        emc_hz: float | None = None,
        temperature_c: float | None = None,
    ) -> dict[str, float]:
        """Watts of every rail, by label, in a phase at a clock."""
        c = self.constants
        rate = 1.0 / self.stretch(law, frequency_hz, cpu_hz, emc_hz)
        cpu_w = c.cpu_core_w * ((cpu_hz or self.cpu_hz) / c.cpu_top_hz) ** c.cpu_exponent
        parts_w = {
            "core": law.dynamic_w * self.voltage(frequency_hz) ** 2 * rate,
            "memory": law.memory_w * rate,
            "leakage": self.leakage_w(frequency_hz, temperature_c),
            "cpu": cpu_w * min(law.cores, self.mode.cpu_cores),
        }
        return {
            rail.label: rail.static_w
            + sum(share * parts_w[part] for part, share in rail.shares.items())
            for rail in self.rails
        }

    def module_power_w(
        self,
        law: PhaseLaw,
        frequency_hz: float,
        cpu_hz: float | None = None,
        emc_hz: float | None = None,
        temperature_c: float | None = None,
    ) -> float:
        """Watts of the module: the sum of the rails that are inside no other."""
        power_w = self.rail_power_w(law, frequency_hz, cpu_hz, emc_hz, temperature_c)
        return sum(power_w[rail.label] for rail in self.module_rails)

    def switch_latency_s(self, from_hz: float, to_hz: float, u: float) -> float:
        """How long a switch keeps the old clock, and its writer blocked.

        `u`, uniform in [0, 1), picks the quantile. The median grows with how far the switch goes.
        """
        c = self.constants
        octaves = log2(to_hz / from_hz)
        per_octave = c.switch_up_ms_per_octave if octaves > 0 else c.switch_down_ms_per_octave
        beyond = max(0.0, abs(octaves) - c.switch_octaves)
        median_ms = c.switch_median_ms + per_octave * beyond
        position = u * (len(c.switch_quantiles) - 1)
        index = min(int(position), len(c.switch_quantiles) - 2)
        low, high = c.switch_quantiles[index : index + 2]
        return median_ms * (low + (high - low) * (position - index)) * 1e-3

    def _gpu_s(self, law: PhaseLaw, frequency_hz: float, emc_hz: float | None) -> float:
        """gpu(f) of the module's docstring, in the unit of the law."""
        memory = law.memory * self.constants.emc_top_hz / (emc_hz or self.emc_hz)
        return memory + law.compute * self.top_hz / frequency_hz / self.tpc_share


def quantised(value: float, quantum: int) -> int:
    """A sensor's reading of `value`: the nearest multiple of its `quantum`."""
    return round(value / quantum) * quantum


def load_board(name: str) -> BoardModel:
    """The virtual board of that name: "agx-orin-64gb", or "agx-orin-64gb:30w" in a power mode.

    Without a mode it is in MAXN, which has no caps.

    Raises:
        UsageError: there is no virtual board, or no power mode of it, of that name.
    """
    base, _, wanted = name.partition(":")
    if base not in BOARDS:
        raise UsageError(f"no virtual board {base!r}; known: {', '.join(BOARDS)}")
    board = _parse(read_board_file(base))
    modes = {mode.name.removeprefix("MODE_").lower(): mode for mode in board.modes}
    if wanted and wanted not in modes:
        raise UsageError(f"{base} has no power mode {wanted!r}; known: {', '.join(modes)}")
    return replace(board, name=name, mode=modes[wanted]) if wanted else board


def _parse(data: Mapping[str, Any]) -> BoardModel:
    modes = tuple(PowerMode(**mode) for mode in data["modes"])
    lists = {name: tuple(v) for name, v in data["constants"].items() if isinstance(v, list)}
    return BoardModel(
        name=data["name"],
        model=data["model"],
        compatible=tuple(data["compatible"]),
        nv_tegra_release=data["nv_tegra_release"],
        devfreq=data["devfreq"],
        frequencies_hz=tuple(data["frequencies_hz"]),
        shunt_uohm=data["shunt_uohm"],
        rails=tuple(Rail(**rail) for rail in data["rails"]),
        constants=Constants(**{**data["constants"], **lists}),
        laws={phase: PhaseLaw(**data["laws"][phase]) for phase in PHASES},
        sources=data["sources"],
        mode=next(mode for mode in modes if mode.name.startswith("MAXN")),
        modes=modes,
    )
