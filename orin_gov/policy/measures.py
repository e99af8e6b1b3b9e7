"""How features are measured: what each of them makes of a window. Missing is None."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orin_gov.policy.window import Window

UNCOUNTED = frozenset({"step", "busy cycle"})
"""Units of a window's work that stand in for tokens or samples."""


@dataclass(frozen=True)
class Setting:
    """What a window is looked at with: the highest clock, and the user's slowdown budget."""

    top_hz: int
    max_slowdown: float


Value = Callable[[Window, Setting], float | None]


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, or None where either is missing or there is nothing to divide by."""
    return None if above is None or not below else above / below


def _phase_total_s(window: Window) -> float | None:
    """Seconds of all steps; None where there were no steps, or no phases were seen."""
    total_s = sum(window.phase_time_s.values())
    return total_s if window.steps > 0 and total_s > 0 else None


def time_share(*phases: str) -> Value:
    """The share of the steps' time that phases take together."""

    def of(window: Window, setting: Setting) -> float | None:
        return ratio(
            sum(window.phase_time_s.get(each, 0.0) for each in phases), _phase_total_s(window)
        )

    return of


def energy_share(phase: str) -> Value:
    """The share of the energy that a phase takes."""

    def of(window: Window, setting: Setting) -> float | None:
        # A phase that was not there took nothing; one that was, but was not measured, is missing.
        taken_j = window.phase_energy_j.get(phase, 0.0) if window.phase_energy_j else None
        return ratio(taken_j, window.energy_j)

    return of


def step_s(window: Window, setting: Setting) -> float | None:
    """Mean seconds of a step."""
    total_s = _phase_total_s(window)
    return None if total_s is None else total_s / window.steps


def cycles(seconds: float | None, window: Window) -> float | None:
    """So many seconds in cycles of the window's mean clock."""
    if seconds is None or window.frequency_hz is None:
        return None
    return seconds * window.frequency_hz


def _phase_s(window: Window, phase: str) -> float | None:
    """Mean seconds of a phase in a step; None where it took none."""
    seconds = window.phase_time_s.get(phase)
    return seconds / window.steps if seconds and window.steps else None


def of_all(counts: Callable[[Window], Mapping[str, float]]) -> Value:
    """A count by phase, over all of them."""

    def of(window: Window, setting: Setting) -> float | None:
        return total(counts(window).values())

    return of


def total(values: Iterable[float]) -> float | None:
    """The sum, or None of nothing."""
    found = list(values)
    return sum(found) if found else None


def intensity(window: Window, setting: Setting) -> float | None:
    """Operations for each byte."""
    return ratio(total(window.operations_per_step.values()), total(window.bytes_per_step.values()))


def operations_of_peak(phase: str) -> Value:
    """A phase's operations a cycle, against the peak."""

    def of(window: Window, setting: Setting) -> float | None:
        taken = cycles(_phase_s(window, phase), window)
        rate = ratio(window.operations_per_step.get(phase), taken)
        return ratio(rate, window.surroundings.peak_operations_per_cycle)

    return of


def bytes_of_peak(phase: str) -> Value:
    """A phase's bytes a second, against the peak."""

    def of(window: Window, setting: Setting) -> float | None:
        rate = ratio(window.bytes_per_step.get(phase), _phase_s(window, phase))
        return ratio(rate, window.surroundings.peak_bytes_per_s)

    return of


def launches_per_s(phase: str) -> Value:
    """A phase's launches a second."""

    def of(window: Window, setting: Setting) -> float | None:
        return ratio(window.launches_per_step.get(phase), _phase_s(window, phase))

    return of


def cycles_per_launch(phase: str) -> Value:
    """A phase's cycles for each launch."""

    def of(window: Window, setting: Setting) -> float | None:
        taken = cycles(_phase_s(window, phase), window)
        return ratio(taken, window.launches_per_step.get(phase))

    return of


def gpu_rail_w(window: Window, setting: Setting) -> float | None:
    """Mean power of the rail that feeds the GPU."""
    return ratio(window.rail_energy_j.get(window.surroundings.gpu_rail or ""), window.duration_s)


def other_rails_w(window: Window, setting: Setting) -> float | None:
    """Mean power of the module without it."""
    gpu_w = gpu_rail_w(window, setting)
    return None if gpu_w is None or window.power_w is None else window.power_w - gpu_w


def gpu_rail_share(window: Window, setting: Setting) -> float | None:
    """That rail's share of the module's power."""
    return ratio(gpu_rail_w(window, setting), window.power_w)


def power_range(window: Window, setting: Setting) -> float | None:
    """The range of the power against its mean."""
    if window.power_range_w is None:
        return None
    low_w, high_w = window.power_range_w
    return ratio(high_w - low_w, window.power_w)


def tokens_per_step(window: Window, setting: Setting) -> float | None:
    """Work of a step, where it is counted."""
    return None if window.unit in UNCOUNTED else ratio(window.work, window.steps)


def told(name: str) -> Value:
    """What the window's surroundings tell."""

    def of(window: Window, setting: Setting) -> float | None:
        value: float | None = getattr(window.surroundings, name)
        return value

    return of
