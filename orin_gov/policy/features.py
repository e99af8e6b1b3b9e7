"""Features: the named numbers a window is reduced to. They are what the tree looks at.

Where it can be, a feature means the same at every clock: cycles rather than seconds, shares rather
than watts, a rate against its peak at the clock of the window.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from orin_gov.phases import BACKWARD, DATA, FORWARD, IDLE, OPTIMIZER, PHASES
from orin_gov.policy import measures
from orin_gov.policy.measures import Setting, Value
from orin_gov.policy.window import Window

Features = Mapping[str, float | None]

STEP_PHASES = tuple(PHASES[code] for code in (DATA, FORWARD, BACKWARD, OPTIMIZER, IDLE))
KERNEL_PHASES = tuple(PHASES[code] for code in (FORWARD, BACKWARD, OPTIMIZER))
HOST_PHASES = (PHASES[DATA], PHASES[IDLE])

_DOING = {
    "data": "on loading data",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer",
    "idle": "in none of its phases",
}


@dataclass(frozen=True)
class Feature:
    """One feature's unit, its meaning, and how it follows from a window; FEATURES has its name."""

    unit: str
    meaning: str
    of: Value


FEATURES: Mapping[str, Feature] = {
    "load": Feature("1", "share of the time the GPU was busy", lambda w, s: w.load),
    "clock_share": Feature(
        "1",
        "mean GPU clock as a share of the highest to choose",
        lambda w, s: measures.ratio(w.frequency_hz, s.top_hz),
    ),
    **{
        f"{phase}_share": Feature(
            "1", f"share of a step spent {_DOING[phase]}", measures.time_share(phase)
        )
        for phase in STEP_PHASES
    },
    "power_w": Feature("W", "mean module power", lambda w, s: w.power_w),
    "step_s": Feature("s", "mean time of a step", measures.step_s),
    "max_slowdown": Feature("1", "the slowdown budget the user chose", lambda w, s: s.max_slowdown),
    **{
        f"{phase}_energy_share": Feature(
            "1",
            f"share of a step's energy that is taken {_DOING[phase]}",
            measures.energy_share(phase),
        )
        for phase in STEP_PHASES
    },
    "host_gap_share": Feature(
        "1",
        "share of a step in which nothing is launched: data and idle",
        measures.time_share(*HOST_PHASES),
    ),
    "step_cycles": Feature(
        "cycle",
        "GPU cycles that a step takes",
        lambda w, s: measures.cycles(measures.step_s(w, s), w),
    ),
    "tokens_per_step": Feature(
        "token", "tokens of a step, or its samples", measures.tokens_per_step
    ),
    "operations_per_step": Feature(
        "FLOP", "operations of a step's phases", measures.of_all(lambda w: w.operations_per_step)
    ),
    "bytes_per_step": Feature(
        "B",
        "bytes that a step's kernels read and write",
        measures.of_all(lambda w: w.bytes_per_step),
    ),
    "launches_per_step": Feature(
        "1", "kernels that a step launches", measures.of_all(lambda w: w.launches_per_step)
    ),
    "intensity": Feature(
        "FLOP/B", "operations of a step for each byte it moves", measures.intensity
    ),
    **{
        f"{phase}_{name}": Feature(unit, meaning.format(phase), of(phase))
        for name, unit, meaning, of in (
            (
                "operations_of_peak",
                "1",
                "operations a cycle in {}, as a share of the GPU's fp32 peak",
                measures.operations_of_peak,
            ),
            (
                "bytes_of_peak",
                "1",
                "bytes a second in {}, as a share of the memory's peak",
                measures.bytes_of_peak,
            ),
            ("launches_per_s", "1/s", "kernels launched a second in {}", measures.launches_per_s),
            (
                "cycles_per_launch",
                "cycle",
                "GPU cycles for each kernel of {}",
                measures.cycles_per_launch,
            ),
        )
        for phase in KERNEL_PHASES
    },
    "gpu_rail_w": Feature("W", "mean power of the rail that feeds the GPU", measures.gpu_rail_w),
    "other_rails_w": Feature("W", "mean module power without that rail", measures.other_rails_w),
    "gpu_rail_share": Feature(
        "1", "share of the GPU's rail in the module's power", measures.gpu_rail_share
    ),
    "power_p99_w": Feature(
        "W",
        "99th percentile of the module power as sampled",
        lambda w, s: w.power_range_w[1] if w.power_range_w else None,
    ),
    "power_range": Feature(
        "1", "99th less 1st percentile of that power, as a share of its mean", measures.power_range
    ),
    "sensitivity": Feature(
        "1",
        "how time followed the clock since another operating point: 1 in proportion, 0 not at all",
        lambda w, s: w.sensitivity,
    ),
    "temperature_c": Feature("deg C", "temperature of the GPU", measures.told("temperature_c")),
    "floor_hz": Feature("Hz", "lowest clock there is to choose", measures.told("floor_hz")),
    "ceiling_hz": Feature(
        "Hz", "highest clock there is to choose: the cap", measures.told("ceiling_hz")
    ),
    "emc_hz": Feature("Hz", "memory clock, or its cap", measures.told("emc_hz")),
    "power_mode": Feature("1", "number of the board's power mode", measures.told("power_mode")),
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
