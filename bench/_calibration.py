"""Fits the plant's constants to the published measurements: `python -m bench.plant --fit`.

Only batches that are multiples of 4 are looked at; the others are there to check. What these data
cannot tell apart (how much of a constant power leaks, what each rail carries) is held by anchors:
readings of single boards, each with the deviation that it may have.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import numpy as np

from bench._measured import CLOCKS_MHZ, Cell
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.published import FINETUNE_SHARPNESS, decode_laws_of
from orin_gov.virtual.thermal import steady_temperature_c

TWO_RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV")
"""What the fine-tuning energies count."""


def decode_time_and_power(
    board: BoardModel, laws: Sequence[PhaseLaw], cell: Cell
) -> tuple[float, float]:
    """What EnergyLLM would have measured: s, and W with VDDQ counted twice, as they did."""
    times_s = [board.time_s(law, cell.clock_hz) for law in laws]
    energy_j = 0.0
    for law, time_s in zip(laws, times_s, strict=True):
        rails_w = board.rail_power_w(law, cell.clock_hz, temperature_c=cell.temperature_c)
        energy_j += time_s * sum(rails_w.values())
    return sum(times_s), energy_j / sum(times_s)


def two_rail_energy(board: BoardModel, law: PhaseLaw, clock_hz: float) -> float:
    """Energy (J) of the two rails per unit of work at a pinned clock, once the die is warm."""
    temperature_c = steady_temperature_c(board, law, clock_hz)
    rails_w = board.rail_power_w(law, clock_hz, temperature_c=temperature_c)
    return board.time_s(law, clock_hz) * sum(rails_w[label] for label in TWO_RAILS)


# name: (start, lowest, highest). A number with a slope per sequence has a second one, "name'".
_DECODE_TIMES = {
    "layers_host_s": (4.0, 3.0, 5.0),
    "over_tile_host_s": (0.0, -0.3, 0.3),
    "layers_compute_s": (1.1, 0.5, 3.0),
    "layers_compute_s'": (0.025, 0.0, 0.1),
    "layers_memory_s": (0.1, 0.0, 2.0),
    "layers_memory_s'": (0.02, 0.0, 0.1),
    "choosing_host_s": (0.3, 0.1, 1.0),
    "choosing_compute_s": (0.2, 0.0, 1.0),
}
_DECODE_ENERGIES = {
    "core_j": (17.0, 2.0, 80.0),
    "core_j'": (0.45, 0.0, 3.0),
    "memory_j": (20.0, 2.0, 80.0),
    "memory_j'": (0.3, 0.0, 3.0),
}
_FLOOR_CLOCKS = 2
"""The lowest clocks of the table whose voltage is the floor, 1."""
# By how much the voltage rises from the clock before.
_VOLTAGE_STEPS = {
    f"voltage {clock_mhz}": (start, 0.0, 0.2)
    for clock_mhz, start in zip(
        CLOCKS_MHZ[_FLOOR_CLOCKS:],
        (0.005, 0.015, 0.03, 0.04, 0.045, 0.05, 0.055, 0.06, 0.04),
        strict=True,
    )
}
_CONSTANTS = {"leak_w": (1.6, 0.2, 4.0)}
_STATICS = {
    "VDD_GPU_SOC": (2.8, 0.5, 6.0),
    "VIN_SYS_5V0": (5.2, 3.0, 8.0),
    "VDDQ_VDD2_1V8AO": (1.8, 0.5, 4.0),
}
# A fine-tuning GPU switches with 3 W at least, or Gemma's five points would be fitted without any.
_BIG_MODEL = {
    "floor": (0.3, 0.0, 6.0),
    "dynamic_w": (14.0, 3.0, 60.0),
    "memory": (0.1, 0.0, 2.0),
    "memory_w": (3.0, 0.0, 60.0),
}
# The corners of these two curves are seen at 400 to 500 MHz.
_HOST_BOUND = _BIG_MODEL | {"floor": (3.0, 0.0, 6.0), "dynamic_w": (4.0, 3.0, 60.0)}
_STARTS = {"Gemma-2B/qnli": _HOST_BOUND, "Pythia-14M/qnli": _HOST_BOUND}

TIME_DEVIATION = POWER_DEVIATION = 0.006
"""How far a median of 11 replicates may be off, relative to it (their scatter is 0.6 %)."""
ENERGY_DEVIATION = 0.004
"""The same of their product, which decides where the optimum is."""
ORDER_DEVIATION = 0.001
"""The same of the gap between the optimum and another clock, where the model has it too small."""
_NEAR_OPTIMUM_HZ = (510e6, 612e6, 714e6, 816e6)
CURVE_DEVIATION = 0.01
"""The same of a fine-tuning energy, measured once."""
CURVE_LIMIT = 0.013
"""A curve that is off by more than this (rms) weighs in steeply, so that none is given up."""

Bounds = Mapping[str, tuple[float, float, float]]


def fit(
    board: BoardModel, cells: Sequence[Cell], curves: Mapping[str, Mapping[float, float]]
) -> tuple[BoardModel, dict[str, Any], dict[str, PhaseLaw]]:
    """Return the board, the numbers of decoding and the laws of fine-tuning that fit best.

    First the times of decoding, which nothing else has a part in, then all that is power.
    """
    cells = [cell for cell in cells if cell.batch % 4 == 0]

    def time_errors(values: Mapping[str, float]) -> list[float]:
        return [
            math.log(_decode(board, values | _NO_ENERGY, cell)[0] / cell.time_s)
            / TIME_DEVIATION
            * (2 if cell.clock_hz in _NEAR_OPTIMUM_HZ else 1)
            for cell in cells
        ]

    times = _least_squares(time_errors, _DECODE_TIMES)
    bounds = _CONSTANTS | _VOLTAGE_STEPS | _STATICS | _DECODE_ENERGIES
    for job in curves:
        start = _STARTS.get(job, _BIG_MODEL)
        bounds = bounds | {f"{job}.{name}": bound for name, bound in start.items()}

    def power_errors(values: Mapping[str, float]) -> list[float]:
        warm = _board_of(board, values)
        errors = _anchors(warm) + _roughness(warm)
        logs = defaultdict(list)
        for cell in cells:
            time_s, power_w = _decode(warm, times | values, cell)
            power = math.log(power_w / cell.power_w)
            energy = power + math.log(time_s / cell.time_s)
            errors += [power / POWER_DEVIATION, energy / ENERGY_DEVIATION]
            measured = math.log(cell.time_s * cell.power_w)
            logs[cell.batch].append((measured, measured + energy))
        for batch in logs.values():
            errors += _misplaced(batch)
        for job, curve in curves.items():
            law = _law_of(job, values)
            off = curve_errors(warm, law, curve)
            weight = math.sqrt(11 / len(curve))
            errors += [weight * error / CURVE_DEVIATION for error in off]
            errors.append(2.5 * (rms(off) / CURVE_LIMIT) ** 6)
            errors += [law.dynamic_w / 100, law.memory_w / 100]  # of equal fits, the modest one
        return errors

    values = _least_squares(power_errors, bounds)
    laws = {job: _law_of(job, values) for job in curves}
    return _board_of(board, values), _numbers(times | values), laws


def _misplaced(energies: Sequence[tuple[float, float]]) -> list[float]:
    """How much the model lacks of half the gap between the measured optimum and each other clock.

    `energies` are logarithms, measured and by the model.
    """
    best, best_model = min(energies)
    return [
        max(0.0, (measured - best) / 2 - (model - best_model)) / ORDER_DEVIATION
        for measured, model in energies
    ]


def _least_squares(
    errors: Callable[[Mapping[str, float]], Sequence[float]], bounds: Bounds
) -> dict[str, float]:
    """The values within their bounds that make the sum of the squared errors least."""
    from scipy.optimize import least_squares

    scale = np.array([max(abs(low), abs(high)) for _, low, high in bounds.values()])
    start, low, high = np.array(list(bounds.values())).T / scale

    def values(x: Any) -> dict[str, float]:
        return dict(zip(bounds, (x * scale).tolist(), strict=True))

    found = least_squares(
        lambda x: np.array(errors(values(x))), start, bounds=(low, high), x_scale=0.1, max_nfev=200
    )
    return values(found.x)


def fit_switches(switches: Mapping[tuple[float, float], Sequence[float]]) -> dict[str, Any]:
    """The constants of `BoardModel.switch_latency_s`: medians, and the mean quantiles about them.

    The shortest switches set the median; what longer ones add is told apart by direction.
    """
    octaves = {pair: math.log2(pair[1] / pair[0]) for pair in switches}
    medians = {pair: median(times_ms) for pair, times_ms in switches.items()}
    nearest = min(abs(value) for value in octaves.values())
    short = [pair for pair in switches if abs(octaves[pair]) < nearest + 0.01]
    base_ms = fmean(medians[pair] for pair in short)
    far = {octaves[pair] > 0: pair for pair in switches if pair not in short}
    per_octave = {
        up: (medians[pair] - base_ms) / (abs(octaves[pair]) - nearest) for up, pair in far.items()
    }
    relative = [np.array(times_ms) / medians[pair] for pair, times_ms in switches.items()]
    quantiles = np.mean([np.quantile(each, np.linspace(0, 1, 21)) for each in relative], axis=0)
    return {
        "switch_median_ms": base_ms,
        "switch_up_ms_per_octave": per_octave[True],
        "switch_down_ms_per_octave": per_octave[False],
        "switch_octaves": nearest,
        "switch_quantiles": quantiles.tolist(),
    }


_NO_ENERGY = dict.fromkeys(_DECODE_ENERGIES, 0.0)


def _numbers(values: Mapping[str, float]) -> dict[str, Any]:
    """The numbers of decoding as `decode_laws_of` takes them."""
    names = [name for name in _DECODE_TIMES | _DECODE_ENERGIES if not name.endswith("'")]
    return {
        name: [values[name], values[f"{name}'"]] if f"{name}'" in values else values[name]
        for name in names
    }


def _decode(board: BoardModel, values: Mapping[str, float], cell: Cell) -> tuple[float, float]:
    return decode_time_and_power(board, decode_laws_of(_numbers(values), cell.batch), cell)


def _board_of(board: BoardModel, values: Mapping[str, float]) -> BoardModel:
    statics = {rail.label: values.get(rail.label, rail.static_w) for rail in board.rails}
    rails = tuple(replace(rail, static_w=statics[rail.label]) for rail in board.rails)
    volts = [1.0] * _FLOOR_CLOCKS
    for name in _VOLTAGE_STEPS:
        volts.append(volts[-1] + values[name])
    clocks_hz = tuple(round(clock_mhz * 1e6) for clock_mhz in CLOCKS_MHZ)
    constants = replace(
        board.constants,
        voltage_hz=clocks_hz,
        voltage=tuple(volts),
        **{name: values[name] for name in _CONSTANTS},
    )
    return replace(board, rails=rails, constants=constants)


def _roughness(board: BoardModel) -> list[float]:
    """How unlike the voltage's slopes (per 102 MHz) between neighbouring clocks are."""
    clocks_hz, volts = board.constants.voltage_hz, board.constants.voltage
    slopes = np.diff(volts) / np.diff(clocks_hz) * 102e6
    return (np.diff(slopes[1:]) / 0.02).tolist()  # type: ignore[no-any-return]


def _law_of(job: str, values: Mapping[str, float]) -> PhaseLaw:
    numbers = {name: values[f"{job}.{name}"] for name in _BIG_MODEL}
    return PhaseLaw(compute=1.0, sharpness=FINETUNE_SHARPNESS, **numbers)


def curve_errors(board: BoardModel, law: PhaseLaw, curve: Mapping[float, float]) -> list[float]:
    """How far E(f) / E(highest f) is off at each clock of a published curve, relative to it."""
    top_hz = max(curve)
    model_j = {hz: two_rail_energy(board, law, hz) for hz in curve}
    return [
        model_j[hz] / model_j[top_hz] / (energy_j / curve[top_hz]) - 1
        for hz, energy_j in curve.items()
    ]


def rms(errors: Sequence[float]) -> float:
    """The root of their mean square."""
    return math.sqrt(fmean(error * error for error in errors))


def _anchors(board: BoardModel) -> list[float]:
    """How far the plant is from single readings, each in units of the deviation it may have."""
    top_hz = board.top_hz
    rails = {rail.label: rail.static_w for rail in board.rails}
    # Fans off, decoding at batch 32 and 1300.5 MHz: 0.13 W per deg C between 66 and 92 deg C.
    hot_w = (board.leakage_w(top_hz, 92) - board.leakage_w(top_hz, 66)) / 26
    # A resting board at 1300.5 MHz, 50 deg C (test fixture of rbonghi/jetson_stats).
    idle_w = rails["VDD_GPU_SOC"] + board.leakage_w(top_hz, 50)
    return [
        (hot_w - 0.13) / 0.01,
        (idle_w - 5.14) / 0.8,
        (rails["VIN_SYS_5V0"] - 5.50) / 0.5,
    ]


def as_board_file(
    board: BoardModel,
    decode: Mapping[str, Any],
    laws: Mapping[str, PhaseLaw],
    switches: Mapping[str, Any],
) -> dict[str, Any]:
    """What was fitted, to four digits, under the names that it has in the board's file."""
    constants = {name: getattr(board.constants, name) for name in _CONSTANTS}
    constants["voltage"] = list(board.constants.voltage)
    statics = {rail.label: rail.static_w for rail in board.rails if rail.label in _STATICS}
    finetune = {job: {name: getattr(law, name) for name in _BIG_MODEL} for job, law in laws.items()}
    found: dict[str, Any] = _rounded(
        {
            "constants": constants | dict(switches),
            "rails": statics,
            "published": {"decode": dict(decode), "finetune": finetune},
        }
    )
    return found


def differences(found: Mapping[str, Any], file: Mapping[str, Any]) -> list[str]:
    """A line for each number of a fit that the board's file has otherwise (by over 1 %)."""
    statics = {rail["label"]: rail["static_w"] for rail in file["rails"]}
    there = dict(_numbers_of({**file, "rails": statics}))
    return [
        f"{name}: the fit says {value}, the board's file {there.get(name)}"
        for name, value in _numbers_of(found)
        if name not in there or not math.isclose(value, there[name], rel_tol=0.01, abs_tol=1e-4)
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}")


def _numbers_of(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number inside nested objects and lists, with its path."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers_of(each, f"{name}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _numbers_of(each, f"{name}.{index}")
    elif isinstance(value, (int, float)):
        yield name, value
