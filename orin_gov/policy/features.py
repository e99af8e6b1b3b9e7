"""Features: the named numbers a window is reduced to. They are what the tree looks at.

Where it can be, a feature means the same at every clock: cycles rather than seconds, shares rather
than watts, a rate against its peak at the clock of the window.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orin_gov.phases import BACKWARD, DATA, FORWARD, IDLE, OPTIMIZER, PHASES
from orin_gov.policy.window import Window

Features = Mapping[str, float | None]

STEP_PHASES = tuple(PHASES[code] for code in (DATA, FORWARD, BACKWARD, OPTIMIZER, IDLE))
KERNEL_PHASES = tuple(PHASES[code] for code in (FORWARD, BACKWARD, OPTIMIZER))
HOST_PHASES = (PHASES[DATA], PHASES[IDLE])

UNCOUNTED = frozenset({"step", "busy cycle"})
"""Units of a window's work that stand in for tokens or samples."""

_DOING = {
    "data": "on loading data",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer",
    "idle": "in none of its phases",
}


@dataclass(frozen=True)
class Setting:
    """What a window is looked at with: the highest clock, and the user's slowdown budget."""

    top_hz: int
    max_slowdown: float


Value = Callable[[Window, Setting], float | None]


@dataclass(frozen=True)
class Feature:
    """One feature's unit, its meaning, and how it follows from a window; FEATURES has its name."""

    unit: str
    meaning: str
    of: Value


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _phase_total_s(window: Window) -> float | None:
    """Seconds of all steps; None where there were no steps, or no phases were seen."""
    total_s = sum(window.phase_time_s.values())
    return total_s if window.steps > 0 and total_s > 0 else None


def _time_share(*phases: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        return _ratio(
            sum(window.phase_time_s.get(each, 0.0) for each in phases), _phase_total_s(window)
        )

    return of


def _energy_share(phase: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        # A phase that was not there took nothing; one that was, but was not measured, is missing.
        taken_j = window.phase_energy_j.get(phase, 0.0) if window.phase_energy_j else None
        return _ratio(taken_j, window.energy_j)

    return of


def _step_s(window: Window, setting: Setting) -> float | None:
    total_s = _phase_total_s(window)
    return None if total_s is None else total_s / window.steps


def _cycles(seconds: float | None, window: Window) -> float | None:
    if seconds is None or window.frequency_hz is None:
        return None
    return seconds * window.frequency_hz


def _phase_s(window: Window, phase: str) -> float | None:
    """Mean seconds of a phase in a step; None where it took none."""
    seconds = window.phase_time_s.get(phase)
    return seconds / window.steps if seconds and window.steps else None


def _of_all(counts: Callable[[Window], Mapping[str, float]]) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        return _sum(counts(window).values())

    return of


def _sum(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) if found else None


def _intensity(window: Window, setting: Setting) -> float | None:
    return _ratio(_sum(window.operations_per_step.values()), _sum(window.bytes_per_step.values()))


def _operations_of_peak(phase: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        cycles = _cycles(_phase_s(window, phase), window)
        rate = _ratio(window.operations_per_step.get(phase), cycles)
        return _ratio(rate, window.surroundings.peak_operations_per_cycle)

    return of


def _bytes_of_peak(phase: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        rate = _ratio(window.bytes_per_step.get(phase), _phase_s(window, phase))
        return _ratio(rate, window.surroundings.peak_bytes_per_s)

    return of


def _launches_per_s(phase: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        return _ratio(window.launches_per_step.get(phase), _phase_s(window, phase))

    return of


def _cycles_per_launch(phase: str) -> Value:
    def of(window: Window, setting: Setting) -> float | None:
        cycles = _cycles(_phase_s(window, phase), window)
        return _ratio(cycles, window.launches_per_step.get(phase))

    return of


def _gpu_rail_w(window: Window, setting: Setting) -> float | None:
    return _ratio(window.rail_energy_j.get(window.surroundings.gpu_rail or ""), window.duration_s)


def _other_rails_w(window: Window, setting: Setting) -> float | None:
    gpu_w = _gpu_rail_w(window, setting)
    return None if gpu_w is None or window.power_w is None else window.power_w - gpu_w


def _gpu_rail_share(window: Window, setting: Setting) -> float | None:
    return _ratio(_gpu_rail_w(window, setting), window.power_w)


def _power_range(window: Window, setting: Setting) -> float | None:
    if window.power_range_w is None:
        return None
    low_w, high_w = window.power_range_w
    return _ratio(high_w - low_w, window.power_w)


def _tokens_per_step(window: Window, setting: Setting) -> float | None:
    return None if window.unit in UNCOUNTED else _ratio(window.work, window.steps)


def _told(name: str) -> Value:
    """What the window's surroundings tell."""

    def of(window: Window, setting: Setting) -> float | None:
        value: float | None = getattr(window.surroundings, name)
        return value

    return of


FEATURES: Mapping[str, Feature] = {
    "load": Feature("1", "share of the time the GPU was busy", lambda w, s: w.load),
    "clock_share": Feature(
        "1",
        "mean GPU clock as a share of the highest to choose",
        lambda w, s: _ratio(w.frequency_hz, s.top_hz),
    ),
    **{
        f"{phase}_share": Feature("1", f"share of a step spent {_DOING[phase]}", _time_share(phase))
        for phase in STEP_PHASES
    },
    "power_w": Feature("W", "mean module power", lambda w, s: w.power_w),
    "step_s": Feature("s", "mean time of a step", _step_s),
    "max_slowdown": Feature("1", "the slowdown budget the user chose", lambda w, s: s.max_slowdown),
    **{
        f"{phase}_energy_share": Feature(
            "1", f"share of a step's energy that is taken {_DOING[phase]}", _energy_share(phase)
        )
        for phase in STEP_PHASES
    },
    "host_gap_share": Feature(
        "1",
        "share of a step in which nothing is launched: data and idle",
        _time_share(*HOST_PHASES),
    ),
    "step_cycles": Feature(
        "cycle", "GPU cycles that a step takes", lambda w, s: _cycles(_step_s(w, s), w)
    ),
    "tokens_per_step": Feature("token", "tokens of a step, or its samples", _tokens_per_step),
    "operations_per_step": Feature(
        "FLOP", "operations of a step's phases", _of_all(lambda w: w.operations_per_step)
    ),
    "bytes_per_step": Feature(
        "B", "bytes that a step's kernels read and write", _of_all(lambda w: w.bytes_per_step)
    ),
    "launches_per_step": Feature(
        "1", "kernels that a step launches", _of_all(lambda w: w.launches_per_step)
    ),
    "intensity": Feature("FLOP/B", "operations of a step for each byte it moves", _intensity),
    **{
        f"{phase}_{name}": Feature(unit, meaning.format(phase), of(phase))
        for name, unit, meaning, of in (
            (
                "operations_of_peak",
                "1",
                "operations a cycle in {}, as a share of the GPU's fp32 peak",
                _operations_of_peak,
            ),
            (
                "bytes_of_peak",
                "1",
                "bytes a second in {}, as a share of the memory's peak",
                _bytes_of_peak,
            ),
            ("launches_per_s", "1/s", "kernels launched a second in {}", _launches_per_s),
            ("cycles_per_launch", "cycle", "GPU cycles for each kernel of {}", _cycles_per_launch),
        )
        for phase in KERNEL_PHASES
    },
    "gpu_rail_w": Feature("W", "mean power of the rail that feeds the GPU", _gpu_rail_w),
    "other_rails_w": Feature("W", "mean module power without that rail", _other_rails_w),
    "gpu_rail_share": Feature(
        "1", "share of the GPU's rail in the module's power", _gpu_rail_share
    ),
    "power_p99_w": Feature(
        "W",
        "99th percentile of the module power as sampled",
        lambda w, s: w.power_range_w[1] if w.power_range_w else None,
    ),
    "power_range": Feature(
        "1", "99th less 1st percentile of that power, as a share of its mean", _power_range
    ),
    "sensitivity": Feature(
        "1",
        "how time followed the clock since another operating point: 1 in proportion, 0 not at all",
        lambda w, s: w.sensitivity,
    ),
    "temperature_c": Feature("deg C", "temperature of the GPU", _told("temperature_c")),
    "floor_hz": Feature("Hz", "lowest clock there is to choose", _told("floor_hz")),
    "ceiling_hz": Feature("Hz", "highest clock there is to choose: the cap", _told("ceiling_hz")),
    "emc_hz": Feature("Hz", "memory clock, or its cap", _told("emc_hz")),
    "power_mode": Feature("1", "number of the board's power mode", _told("power_mode")),
}
"""Every feature a policy may use. A feature that cannot be measured is None, never 0."""


def features_of(window: Window, top_hz: int, max_slowdown: float) -> dict[str, float | None]:
    """Reduce `window` to its features; `top_hz` is the highest clock there is to choose."""
    setting = Setting(top_hz, max_slowdown)
    return {name: feature.of(window, setting) for name, feature in FEATURES.items()}


def feature_table() -> str:
    """Return FEATURES as the Markdown table of docs/features.md."""
    rows = [f"| `{name}` | {each.unit} | {each.meaning} |" for name, each in FEATURES.items()]
    return "\n".join(["| feature | unit | what it is |", "|---|---|---|", *rows]) + "\n"
