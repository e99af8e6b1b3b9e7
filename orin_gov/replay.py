"""What-if: a policy decides anew over what was recorded, and it is told what that would have saved.

Of a characterization every operating point is known: it is played as a job, from its measurements.
Of a run only those points are known that it measured; of the others the policy's belief is told,
corrected by all windows of the run, with its interval.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orin_gov.errors import RunDirectoryError
from orin_gov.fitting import window_of
from orin_gov.policy.choice import best_point
from orin_gov.policy.decision import State
from orin_gov.policy.evidence import Evidence
from orin_gov.policy.features import features_of
from orin_gov.policy.governor import BASELINE_WINDOWS, Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import Policy, walk
from orin_gov.policy.window import Surroundings, Window
from orin_gov.record.characterization import Measurement, Point, curves
from orin_gov.record.run import Run

PLAYED_WINDOWS = 200
"""Enough to settle, and to hold for a while."""

SURE = 1.96


@dataclass(frozen=True)
class Estimate:
    """A relative change against the board's own governor, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Replayed:
    """Where the policy settles (`chosen_hz` None: the board's own governor), and what of that.

    `measured` tells whether that operating point was measured; `best_hz` is the best of those
    measured within the budget, and `best_energy` its change, for a characterization.
    """

    workload: str
    chosen_hz: int | None
    measured: bool
    energy: Estimate
    time: Estimate
    best_hz: int | None = None
    best_energy: float | None = None


def replay_curve(
    workload: str, measurements: Sequence[Measurement], policy: Policy, objective: Objective
) -> Replayed:
    """Play one workload of a characterization as a job under `policy`.

    Raises:
        RunDirectoryError: the board's own governor, or an energy, was not measured.
    """
    found = {point.target_hz: point for point in curves(measurements)[workload]}
    points = sorted(hz for hz in found if hz is not None)
    if None not in found or not points or any(each.energy_j is None for each in found.values()):
        raise RunDirectoryError(
            f"{workload}: a replay takes the energy under the board's own governor and at one "
            "operating point or more; let the characterization go on to its end"
        )
    kept: dict[int | None, list[Window]] = defaultdict(list)
    for each in measurements:
        if each.workload == workload:
            kept[each.target_hz].append(window_of([each]))
    governor = Governor(policy, points, objective)
    decision, held = governor.first(), None
    for number in range(PLAYED_WINDOWS):
        windows = kept[decision.target_hz]
        decision = governor.decide(windows[number % len(windows)])
        held = decision.target_hz if decision.state is State.HOLD else held
    own = found[None]
    allowed = [hz for hz in points if found[hz].time_s <= own.time_s * (1 + objective.max_slowdown)]
    best = min(
        [None, *allowed],
        key=lambda hz: objective.combine(found[hz].time_s, found[hz].energy_j) or math.inf,
    )
    return Replayed(
        workload,
        held,
        True,
        _ratio(found[held], own, "energy"),
        _ratio(found[held], own, "time"),
        best,
        (found[best].energy_j or 0.0) / (own.energy_j or 1.0) - 1,
    )


def replay_run(run: Run, policy: Policy, objective: Objective) -> Replayed:
    """Decide anew over a run, knowing all of its windows.

    Raises:
        RunDirectoryError: it has no two windows of a baseline with energy, or no table of clocks.
    """
    measured = [each["measured"] for each in run.decisions if not each["measured"].get("disturbed")]
    windows = [
        _window_of_record(each) for each in measured if each.get("state") != State.WARMUP.value
    ]
    windows = [each for each in windows if each.work and each.energy_j]
    baseline = [each for each in windows if each.target_hz is None][:BASELINE_WINDOWS]
    points = sorted({hz for hz in run.manifest.get("table_hz", ()) if isinstance(hz, int)})
    if len(baseline) < BASELINE_WINDOWS or not points:
        raise RunDirectoryError(
            f"{run.path} has {len(baseline)} windows of the board's own governor with energy, and "
            f"a table of {len(points)} clocks: a replay takes {BASELINE_WINDOWS} and 1"
        )
    evidence = Evidence()
    for window in baseline:
        evidence.add_baseline(window)
    features = features_of(baseline[-1], points[-1], objective.max_slowdown)
    leaf = walk(policy.nodes, features).leaf
    evidence.believe(policy, leaf, [hz / points[-1] for hz in points])
    for window in windows:
        known = window.target_hz is None or window.target_hz in points
        if known and not any(window is each for each in baseline):
            at = None if window.target_hz is None else points.index(window.target_hz)
            evidence.observe(window, at)
    assert evidence.belief is not None
    chosen = best_point(evidence.belief, objective, evidence.baseline_power_w())
    if chosen is None:
        return Replayed(run.name, None, True, Estimate(0, 0, 0), Estimate(0, 0, 0))
    believed = evidence.belief.expected(chosen, points[chosen])
    return Replayed(
        run.name,
        points[chosen],
        chosen in evidence.measured,
        _estimate(believed.energy, believed.energy_error),
        _estimate(believed.time, believed.time_error),
    )


def _ratio(point: Point, own: Point, of: str) -> Estimate:
    if point is own:
        return Estimate(0.0, 0.0, 0.0)
    sides = [
        (each.energy_j or 0.0, each.energy_sd or 0.0) if of == "energy"
        else (each.time_s, each.time_sd)
        for each in (point, own)
    ]  # fmt: skip
    rounds = (point.rounds, own.rounds)
    error = math.hypot(*(sd / mean / n**0.5 for (mean, sd), n in zip(sides, rounds, strict=True)))
    return _estimate(math.log(sides[0][0] / sides[1][0]), error)


def _estimate(log: float, error: float) -> Estimate:
    return Estimate(*(math.expm1(log + sign * SURE * error) for sign in (0, -1, 1)))


def _window_of_record(measured: Mapping[str, Any]) -> Window:
    told = measured.get("surroundings") or {}
    known = Surroundings.__dataclass_fields__
    powers = measured.get("power_range_w")
    return Window(
        start_ns=measured.get("begin_ns", 0),
        end_ns=measured.get("end_ns", 0),
        duration_s=measured["duration_s"],
        target_hz=measured.get("target_hz"),
        steps=measured["steps"],
        work=measured.get("work"),
        unit=measured.get("unit") or "step",
        energy_j=measured.get("energy_j"),
        rail_energy_j=measured.get("rail_energy_j") or {},
        phase_time_s=measured.get("phase_time_s") or {},
        phase_energy_j=measured.get("phase_energy_j") or {},
        frequency_hz=measured.get("clock_hz"),
        load=measured.get("load"),
        coarseness=measured.get("coarseness"),
        operations_per_step=measured.get("operations_per_step") or {},
        bytes_per_step=measured.get("bytes_per_step") or {},
        launches_per_step=measured.get("launches_per_step") or {},
        power_range_w=tuple(powers) if powers else None,
        surroundings=Surroundings(**{key: told[key] for key in told if key in known}),
    )
