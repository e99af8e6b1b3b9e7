"""What a step took: its energy by phase and rail. Missing is None, and what it is added to."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orin_gov.energy import EnergyTimeline, Floats
from orin_gov.phases import PHASES
from orin_gov.workload.tracker import Step


@dataclass(frozen=True)
class MeasuredStep:
    """A step with what it took; energy is None where a rail of the total was not measured."""

    step: Step
    phase_time_s: dict[str, float]
    phase_energy_j: dict[str, float | None]
    rail_energy_j: dict[str, float | None]
    energy_j: float | None


def measure_steps(
    steps: Sequence[Step],
    timeline: EnergyTimeline,
    total: Sequence[str] | None,
    resolved: bool = True,
) -> list[MeasuredStep]:
    """Split the energy of each step by phase and rail; for many together it takes less time.

    `total` names the rails of the module's power, None where they are not known. Where the sensors
    are too slow for a phase to be `resolved`, the energy of phases is missing.
    """
    edges = [(span.begin_ns, span.end_ns) for step in steps for span in step.spans]
    joules = timeline.between(np.array(edges, dtype=np.int64).reshape(len(edges), 2))
    module = module_energy(joules, timeline.rails, total)
    ends = np.cumsum([len(step.spans) for step in steps], dtype=np.int64)
    parts = zip(steps, np.split(joules, ends)[:-1], np.split(module, ends)[:-1], strict=True)
    return [
        _measured(step, timeline.rails, of_rails, of_all, resolved)
        for step, of_rails, of_all in parts
    ]


def _measured(
    step: Step, labels: Sequence[str], joules: Floats, module: Floats, resolved: bool
) -> MeasuredStep:
    """Add up joules by span and rail, [spans, rails], and those of the module, [spans]."""
    times: dict[str, float] = defaultdict(float)
    energies: dict[str, float] = defaultdict(float)
    for span, energy_j in zip(step.spans, module.tolist(), strict=True):
        times[PHASES[span.phase]] += (span.end_ns - span.begin_ns) * 1e-9
        energies[PHASES[span.phase]] += energy_j
    rails = dict(zip(labels, joules.sum(axis=0).tolist(), strict=True))
    return MeasuredStep(
        step=step,
        phase_time_s=dict(times),
        phase_energy_j={
            phase: known(value) if resolved else None for phase, value in energies.items()
        },
        rail_energy_j={rail: known(value) for rail, value in rails.items()},
        energy_j=known(float(module.sum())),
    )


def module_energy(joules: Floats, rails: Sequence[str], total: Sequence[str] | None) -> Floats:
    """Sum the rails of the module's total, [spans, rails] to [spans]; NaN where one is missing."""
    if not total or not set(total) <= set(rails):
        return np.full(len(joules), np.nan)
    columns = [rails.index(label) for label in total]
    return np.asarray(joules[:, columns].sum(axis=1))


def known(value: float) -> float | None:
    """Return the value, or None for NaN."""
    return None if math.isnan(value) else value


def add_known(a: float | None, b: float | None) -> float | None:
    """Add two values; None where either is missing."""
    return None if a is None or b is None else a + b


def sum_known(values: Sequence[float | None]) -> float | None:
    """Add values; None where one is missing."""
    total: float | None = 0.0
    for value in values:
        total = add_known(total, value)
    return total
