"""Sound windows: what cannot be true in one is taken as missing, before anything rests on it."""

from collections.abc import Mapping
from dataclasses import replace

from orin_gov.policy.window import StepSample, Window

MOST = 1e15
"""No window has so many seconds, joules or busy cycles: a clock or a counter has jumped."""


def sound(window: Window) -> Window:
    """Return the window without numbers that are negative, huge or no numbers.

    Without a sound duration or sound work there is nothing to compare: then the work is missing.
    """
    timed = _positive(window.duration_s) is not None and window.end_ns >= window.start_ns
    return replace(
        window,
        duration_s=window.duration_s if timed else 1.0,
        steps=max(0, window.steps),
        work=_positive(window.work) if timed else None,
        energy_j=_positive(window.energy_j) if timed else None,
        phase_time_s=_phases(window.phase_time_s),
        frequency_hz=_positive(window.frequency_hz),
        load=_not_negative(window.load),
        noise=_not_negative(window.noise),
        coarseness=_not_negative(window.coarseness),
        samples=_samples(window) if timed else (),
    )


def _samples(window: Window) -> tuple[StepSample, ...]:
    """The window's steps, or none where one of them is not sound: the whole counts then."""
    found = []
    for each in window.samples:
        if _positive(each.time_s) is None or _not_negative(each.work) is None:
            return ()
        found.append(StepSample(each.work, each.time_s, _positive(each.energy_j)))
    return tuple(found)


def _phases(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """The phases' seconds, or none where one of them is not sound: their shares mean nothing."""
    return {} if any(_not_negative(each) is None for each in seconds.values()) else seconds


def _positive(value: float | None) -> float | None:
    return value if value is not None and 1 / MOST < value < MOST else None


def _not_negative(value: float | None) -> float | None:
    return value if value is not None and 0 <= value < MOST else None
