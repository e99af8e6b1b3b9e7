"""From characterizations to the examples of a fit: one of each workload, with what is missing told.

Only operating points count that were measured, energy included, for each workload of the fit.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from orin_gov.errors import PolicyError
from orin_gov.policy.examples import Example, example_of
from orin_gov.policy.window import Surroundings, Window
from orin_gov.record.characterization import Measurement, read_manifest, read_measurements
from orin_gov.record.run import strange_records

LEAST_POINTS = 3
"""Fewer operating points than this make no curve."""

LEAST_SHARE = 0.5
"""A workload with fewer of the points than this share is left out, rather than the points."""

Curve = Mapping[int | None, Sequence[Measurement]]


@dataclass(frozen=True)
class Gathered:
    """What a fit takes, and what of the characterizations had to be left out, in words.

    `workloads` names the workload of each example; `fingerprint` is that of the board.
    """

    examples: Sequence[Example]
    workloads: Sequence[str]
    points_hz: Sequence[int]
    top_hz: int
    board: str
    fingerprint: Mapping[str, Any]
    rounds: int
    holes: Sequence[str]


def gather(paths: Sequence[Path]) -> Gathered:
    """Read the run directories of characterizations and make examples of them.

    Raises:
        RunDirectoryError: one is no characterization, or is damaged.
        PolicyError: they are of different boards, or too little was measured.
    """
    manifests = [read_manifest(path) for path in paths]
    fingerprint = _same_board(paths, manifests)
    curves: dict[tuple[str, str], Curve] = {}
    holes: list[str] = []
    for path in paths:
        with strange_records(path):
            curves.update(_curves(path, holes))
    points = _common_points(curves, holes)
    table = fingerprint.get("table_hz")
    top_hz = max([*points, *(table if isinstance(table, list) else ())])
    examples = [
        example_of(window_of(curve[None]), [window_of(curve[hz]) for hz in points], top_hz)
        for curve in curves.values()
    ]
    return Gathered(
        examples,
        [workload for _, workload in curves],
        points,
        top_hz,
        str(manifests[0].get("board")),
        fingerprint,
        min(len(curve[hz]) for curve in curves.values() for hz in (None, *points)),
        holes,
    )


def _same_board(paths: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fingerprint that all have in common; the title counts where one has none."""
    states = [each.get("fingerprint") or {"board": each.get("board")} for each in manifests]
    if not all(each.get("fingerprint") for each in manifests):
        states = [{"board": each.get("board")} for each in manifests]
    for path, state in zip(paths, states, strict=True):
        for key, value in state.items():
            if value != states[0].get(key):
                raise PolicyError(
                    f"{paths[0]} has {key} {_short(states[0].get(key))} and {path} has "
                    f"{_short(value)}: a policy is fitted on one board in one state; "
                    "fit one policy for each"
                )
    known = [each["fingerprint"] for each in manifests if each.get("fingerprint")]
    return dict(known[0]) if known else {}


def _short(value: object) -> str:
    return f"up to {max(value, default=None)}" if isinstance(value, list) else str(value)


def _curves(path: Path, holes: list[str]) -> dict[tuple[str, str], Curve]:
    """Return the measurements with energy by workload and operating point (None: the board's own)."""
    found: dict[str, dict[int | None, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    without = 0
    for each in read_measurements(path):
        if each.energy_j is None or not (each.energy_j > 0 and each.duration_s > 0):
            without += 1
            continue
        found[each.workload][each.target_hz].append(each)
    if without:
        holes.append(f"{path.name}: {without} measurements without energy do not count")
    if not found:
        holes.append(f"{path.name}: no measurement that counts")
    return {(str(path), workload): dict(curve) for workload, curve in found.items()}


def _common_points(curves: dict[tuple[str, str], Curve], holes: list[str]) -> list[int]:
    """Return the points that all workloads have; those with too little are taken out of `curves`."""
    all_points = {hz for curve in curves.values() for hz in curve if hz is not None}
    for key, curve in list(curves.items()):
        measured = len(set(curve) - {None})
        told = None
        if None not in curve:
            told = "the board's own governor was not measured"
        elif measured < LEAST_SHARE * len(all_points):
            told = f"{measured} of {len(all_points)} operating points measured"
        if told:
            holes.append(f"{Path(key[0]).name}, {key[1]}: left out, {told}")
            del curves[key]
    common = {hz for hz in all_points if all(hz in curve for curve in curves.values())}
    if not curves or len(common) < LEAST_POINTS:
        raise PolicyError(
            f"a fit takes {LEAST_POINTS} operating points and the board's own governor, measured "
            f"with energy for each workload; there are {len(common) if curves else 0}"
            f"{''.join(f'; {hole}' for hole in holes)}; "
            "orin-gov characterize with the same --output goes on where it stopped"
        )
    if missing := sorted(all_points - common):
        names = ", ".join(f"{hz / 1e6:.0f}" for hz in missing)
        holes.append(f"{names} MHz not measured for every workload: not used")
    return sorted(common)


def window_of(rounds: Sequence[Measurement]) -> Window:
    """Return the window that the rounds at one operating point make together."""
    first = rounds[0]
    told = first.surroundings
    powers = [each.power_range_w for each in rounds if each.power_range_w]
    gpu_rail = next((rail for rail in first.rail_energy_j if "GPU" in rail), None)
    known = {key: told[key] for key in told if key in Surroundings.__dataclass_fields__}
    return Window(
        start_ns=0,
        end_ns=round(sum(each.duration_s for each in rounds) * 1e9),
        duration_s=sum(each.duration_s for each in rounds),
        target_hz=first.target_hz,
        steps=sum(each.steps for each in rounds),
        work=sum(each.work for each in rounds),
        unit=first.unit,
        energy_j=_sum([each.energy_j for each in rounds]),
        rail_energy_j=_sums([each.rail_energy_j for each in rounds]),
        phase_time_s={
            phase: joules or 0.0
            for phase, joules in _sums([each.phase_time_s for each in rounds]).items()
        },
        phase_energy_j=_sums([each.phase_energy_j for each in rounds]),
        frequency_hz=_mean([each.clock_hz for each in rounds]),
        load=_mean([each.load for each in rounds]),
        operations_per_step=first.operations_per_step,
        bytes_per_step=first.bytes_per_step,
        launches_per_step=first.launches_per_step,
        power_range_w=(fmean(a for a, _ in powers), fmean(b for _, b in powers))
        if powers
        else None,
        surroundings=Surroundings(
            **{"temperature_c": first.temperature_c, "gpu_rail": gpu_rail, **known}
        ),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _sums(parts: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    return {key: _sum([part.get(key) for part in parts]) for key in parts[0]}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
