"""The run directory of a characterization: what was planned, each measurement, and the curves.

manifest.json        what is swept, on which board; a second start must want the same
measurements.jsonl   one window a line: workload, operating point, round, and what was measured
summary.json         the curves: means by operating point, with the spread over the rounds
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from orin_gov.errors import RunDirectoryError
from orin_gov.policy.compared import two_rails_j
from orin_gov.policy.sweep import Stop
from orin_gov.policy.window import Window

VERSION = 1
KIND = "characterization"


@dataclass(frozen=True)
class Measurement:
    """One window of one workload at one stop, as in orin_gov.policy.window.Window.

    The fields with a default are not in records of earlier versions.
    """

    workload: str
    target_hz: int | None
    round: int
    clock_hz: float | None
    steps: int
    work: float
    unit: str
    duration_s: float
    energy_j: float | None
    rail_energy_j: Mapping[str, float | None]
    phase_time_s: Mapping[str, float]
    phase_energy_j: Mapping[str, float | None]
    load: float | None
    temperature_c: float | None
    operations_per_step: Mapping[str, float] = field(default_factory=dict)
    bytes_per_step: Mapping[str, float] = field(default_factory=dict)
    launches_per_step: Mapping[str, float] = field(default_factory=dict)
    power_range_w: Sequence[float] | None = None
    surroundings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stop(self) -> Stop:
        """Where in the plan it belongs."""
        return Stop(self.target_hz, self.round)


def measurement_of(
    workload: str, stop: Stop, window: Window, temperature_c: float | None
) -> Measurement:
    """What is kept of a window; without a count of work, a step is the unit, or a second."""
    return Measurement(
        workload=workload,
        target_hz=stop.target_hz,
        round=stop.round,
        clock_hz=window.frequency_hz,
        steps=window.steps,
        work=window.work or float(window.steps) or window.duration_s,
        unit=window.unit,
        duration_s=window.duration_s,
        energy_j=window.energy_j,
        rail_energy_j=dict(window.rail_energy_j),
        phase_time_s=dict(window.phase_time_s),
        phase_energy_j=dict(window.phase_energy_j),
        load=window.load,
        temperature_c=temperature_c,
        operations_per_step=dict(window.operations_per_step),
        bytes_per_step=dict(window.bytes_per_step),
        launches_per_step=dict(window.launches_per_step),
        power_range_w=window.power_range_w and list(window.power_range_w),
        surroundings=dict(vars(window.surroundings)),
    )


@dataclass(frozen=True)
class Point:
    """One operating point of a curve: means over the rounds; `*_sd` is their standard deviation."""

    target_hz: int | None
    clock_hz: float
    rounds: int
    time_s: float
    time_sd: float
    energy_j: float | None
    energy_sd: float | None
    two_rail_energy_j: float | None
    power_w: float | None
    power_sd: float | None
    load: float | None


def open_directory(path: Path, manifest: Mapping[str, Any]) -> None:
    """Make the run directory, or go on in it.

    Raises:
        RunDirectoryError: it holds something else, or a sweep of other things.
    """
    wanted = json.loads(json.dumps({"version": VERSION, "kind": KIND, **manifest}))
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not any(path.iterdir()):
            (path / "manifest.json").write_text(json.dumps(wanted, indent=1) + "\n", "utf-8")
        found = dict(json.loads((path / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise RunDirectoryError(
            f"{path} is no characterization to go on with: {error}; name another with --output"
        ) from error
    for key, value in wanted.items():
        if found.get(key, value) != value:  # earlier versions wrote less
            raise RunDirectoryError(
                f"{path} holds a run whose {key} is {found.get(key)!r}, not {value!r}; "
                "ask for the same again, or name another with --output"
            )
    _drop_half_line(path / "measurements.jsonl")


def _drop_half_line(file: Path) -> None:
    """Remove a last line that a crash cut off: what comes next must not be joined to it."""
    if file.exists():
        content = file.read_bytes()
        os.truncate(file, content.rfind(b"\n") + 1)


def read_manifest(path: Path) -> dict[str, Any]:
    """What was swept, and on which board.

    Raises:
        RunDirectoryError: this is no characterization.
    """
    try:
        found = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} is no characterization: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise RunDirectoryError(f"{path} is no run directory of orin-gov characterize")
    return found


def append(path: Path, measurement: Measurement) -> None:
    """Add one measurement, so that it survives whatever comes next."""
    with (path / "measurements.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(measurement)) + "\n")


def read_measurements(path: Path) -> list[Measurement]:
    """All complete measurements in a run directory; a line cut off by a crash is left out.

    Raises:
        RunDirectoryError: the list is damaged, or may not be read.
    """
    file = path / "measurements.jsonl"
    try:
        text = file.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        return [Measurement(**json.loads(line)) for line in complete.splitlines()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunDirectoryError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise RunDirectoryError(f"{file} is damaged: {error}") from error


def curves(measurements: Iterable[Measurement]) -> dict[str, list[Point]]:
    """A curve by workload: the board's own governor first, then the points by clock."""
    grouped: dict[str, dict[int, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for each in measurements:
        grouped[each.workload][each.target_hz or 0].append(each)
    return {
        workload: [_point(points[hz]) for hz in sorted(points)]
        for workload, points in grouped.items()
    }


def _point(rounds: Sequence[Measurement]) -> Point:
    times = [each.duration_s / each.work for each in rounds]
    joules = [(each, each.energy_j) for each in rounds]
    energies = [energy_j / each.work for each, energy_j in joules if energy_j is not None]
    powers = [energy_j / each.duration_s for each, energy_j in joules if energy_j is not None]
    two_rails = [
        two_j / each.work
        for each in rounds
        if (two_j := two_rails_j(each.rail_energy_j)) is not None
    ]
    clocks = [each.clock_hz for each in rounds if each.clock_hz is not None]
    return Point(
        target_hz=rounds[0].target_hz,
        clock_hz=fmean(clocks) if clocks else float(rounds[0].target_hz or math.nan),
        rounds=len(rounds),
        time_s=fmean(times),
        time_sd=_spread(times) or 0.0,
        energy_j=_mean(energies),
        energy_sd=_spread(energies),
        two_rail_energy_j=_mean(two_rails),
        power_w=_mean(powers),
        power_sd=_spread(powers),
        load=_mean([each.load for each in rounds if each.load is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _spread(values: Sequence[float]) -> float | None:
    return (stdev(values) if len(values) > 1 else 0.0) if values else None


def best(points: Sequence[Point]) -> Point | None:
    """The pinned operating point of least energy, or None where no energy was measured."""
    known = [point for point in points if point.target_hz and point.energy_j is not None]
    return min(known, key=lambda point: point.energy_j or 0.0, default=None)


def write_summary(
    path: Path, board: str, found: Mapping[str, Sequence[Point]], ended: str, left: int
) -> None:
    """Write the curves, how the sweep ended, and how many measurements are still to be taken."""
    content = {
        "version": VERSION,
        "kind": KIND,
        "board": board,
        "ended": ended,
        "left": left,
        "curves": {name: [asdict(point) for point in points] for name, points in found.items()},
    }
    (path / "summary.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def finished_board(path: Path) -> str | None:
    """The board of a characterization that has nothing left to measure, or None."""
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(summary, dict) or summary.get("kind") != KIND or summary.get("left") != 0:
        return None
    return str(summary.get("board"))
