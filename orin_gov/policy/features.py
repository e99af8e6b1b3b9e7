"""Features: the named numbers a window is reduced to. They are what the tree looks at."""

from collections.abc import Mapping
from dataclasses import dataclass

from orin_gov.policy.window import Window

Features = Mapping[str, float | None]


@dataclass(frozen=True)
class Feature:
    """One feature's unit and meaning; the name is its key in FEATURES."""

    unit: str
    meaning: str


FEATURES = {
    "load": Feature("1", "share of the time the GPU was busy"),
    "clock_share": Feature("1", "mean GPU clock as a share of the top of the table"),
    "data_share": Feature("1", "share of a step spent on loading data"),
    "forward_share": Feature("1", "share of a step spent in the forward pass"),
    "backward_share": Feature("1", "share of a step spent in the backward pass"),
    "optimizer_share": Feature("1", "share of a step spent in the optimizer"),
    "idle_share": Feature("1", "share of a step spent in none of its phases"),
    "power_w": Feature("W", "mean module power"),
    "step_s": Feature("s", "mean time of a step"),
    "max_slowdown": Feature("1", "the slowdown budget the user chose"),
}
"""Every feature a policy may use. A feature that cannot be measured is None, never 0."""


def features_of(window: Window, top_hz: int, max_slowdown: float) -> dict[str, float | None]:
    """Reduce `window` to its features; `top_hz` is the highest clock of the board's table."""
    stepped = window.steps > 0 and bool(window.phase_time_s)
    phase_total_s = sum(window.phase_time_s.values())

    def share(phase: str) -> float | None:
        if not stepped or phase_total_s <= 0:
            return None
        return window.phase_time_s.get(phase, 0.0) / phase_total_s

    known_clock = window.frequency_hz
    return {
        "load": window.load,
        "clock_share": None if known_clock is None else known_clock / top_hz,
        "data_share": share("data"),
        "forward_share": share("forward"),
        "backward_share": share("backward"),
        "optimizer_share": share("optimizer"),
        "idle_share": share("idle"),
        "power_w": window.power_w,
        "step_s": phase_total_s / window.steps if stepped else None,
        "max_slowdown": max_slowdown,
    }
