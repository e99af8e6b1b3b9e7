"""Writing the run directory, so that it can be read to the last complete record after a crash.

manifest.json    what was run, on which board, under which settings
samples.arrows   power of each rail and the clock, one row each 50 ms   (orin_gov.record.stream)
steps.arrows     time, work and energy by phase of each step            (orin_gov.record.stream)
decisions.jsonl  one decision a line: state, target, path, reason, outcome
summary.json     the figures the run ended with
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orin_gov._sampler import Samples
from orin_gov.counts import Counts
from orin_gov.energy import LONGEST_HOLE, Floats
from orin_gov.errors import RunDirectoryError
from orin_gov.measured import MeasuredStep, known
from orin_gov.phases import PHASES
from orin_gov.record.stream import Stream

VERSION = 1
GRID_NS = 50_000_000
"""Samples are recorded as mean power over this grid: the energy integral's own differences."""


def create_run_directory(path: Path) -> None:
    """Make the run directory.

    Raises:
        RunDirectoryError: it exists already, or cannot be made.
    """
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise RunDirectoryError(
            f"{path} exists already and is left alone; name another with --output"
        ) from None
    except OSError as error:
        raise RunDirectoryError(
            f"cannot make {path}: {error.strerror}; name another place with --output"
        ) from error


class RunWriter:
    """Writes one run directory; a context manager. Not thread-safe.

    A disk that is full ends the record, not the run: from then on nothing is written, and `fault`
    says why.
    """

    def __init__(self, path: Path, rails: Sequence[str]) -> None:
        self.path = path
        self.fault: str | None = None
        self._ended = False
        self._manifest: Mapping[str, Any] = {}
        self._rails = tuple(rails)
        self._last: tuple[int, Floats, Floats] | None = None  # time, energy, missing time
        rail_columns = [(f"power_{rail}_w", pa.float32()) for rail in rails]
        self._samples = Stream(
            path / "samples.arrows",
            pa.schema([("t_ns", pa.int64()), ("clock_hz", pa.int64()), *rail_columns]),
        )
        self._steps = Stream(path / "steps.arrows", _step_schema(rails))
        self._decisions: TextIO = (path / "decisions.jsonl").open("w", encoding="utf-8")

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in (self._samples, self._steps, self._decisions):
            with suppress(OSError):  # a fault has been told of, or is of no more interest
                each.close()
        self._ended = True

    def _attempt(self, write: Callable[..., object], *content: Any) -> None:
        """Write, unless the record has ended; what cannot be written ends it."""
        if self._ended or self.fault:
            return
        try:
            write(*content)
        except OSError as error:
            why = error.strerror or error
            self.fault = f"{self.path} cannot be written: {why}; the record of this run ends here"

    def manifest(self, content: Mapping[str, Any]) -> None:
        """Write what was run."""
        self._manifest = {"version": VERSION, **content}
        self._attempt(_write_json, self.path / "manifest.json", self._manifest)

    def amend(self, content: Mapping[str, Any]) -> None:
        """Write what has turned out otherwise since the manifest was written."""
        self.manifest({**self._manifest, **content})

    def summary(self, content: Mapping[str, Any]) -> None:
        """Write what the run ended with."""
        path = self.path / "summary.json"
        self._attempt(_write_json, path, {"version": VERSION, **content})

    def samples(self, samples: Samples, clock_hz: int | None) -> None:
        """Record mean power by rail, about every 50 ms, from the energy integral."""
        t_ns = samples.t_ns
        index = self._due(t_ns)
        while index < len(t_ns):
            # A rail's sum is up to date only where it was read.
            read = ~np.isnan(samples.power_w[index])
            energy_j = np.where(read, samples.energy_j[index], np.nan)
            at = (int(t_ns[index]), energy_j, samples.missing_ns[index])
            if self._last:
                columns = zip(self._rails, _mean_power_w(self._last, at).tolist(), strict=True)
                row = {f"power_{rail}_w": known(mean_w) for rail, mean_w in columns}
                self._attempt(self._samples.append, {"t_ns": at[0], "clock_hz": clock_hz, **row})
            self._last = at
            index = self._due(t_ns)

    def _due(self, t_ns: npt.NDArray[np.int64]) -> int:
        """Return the index of the next sweep that is recorded, or beyond the last one."""
        return int(np.searchsorted(t_ns, self._last[0] + GRID_NS)) if self._last else 0

    def reading(self, t_ns: int, clock_hz: int | None, power_w: Mapping[str, float]) -> None:
        """Record one reading of another tool's as it stands; a rail that it lacks is missing."""
        row = {f"power_{rail}_w": power_w.get(rail) for rail in self._rails}
        self._attempt(self._samples.append, {"t_ns": t_ns, "clock_hz": clock_hz, **row})

    def step(self, measured: MeasuredStep, target_hz: int | None, epoch: int) -> None:
        """Record one step; `target_hz` is None under the board's own governor."""
        row: dict[str, Any] = {
            "step": measured.step.number,
            "epoch": epoch,
            "begin_ns": measured.step.begin_ns,
            "end_ns": measured.step.end_ns,
            "duration_s": measured.step.duration_s,
            "work": measured.step.work,
            "counted": _is_slowed(measured.step.counts),
            "target_hz": target_hz,
            "energy_j": measured.energy_j,
        }
        for phase in PHASES:
            row[f"time_{phase}_s"] = measured.phase_time_s.get(phase, 0.0)
            row[f"energy_{phase}_j"] = measured.phase_energy_j.get(phase, 0.0)
        for rail in self._rails:
            row[f"energy_{rail}_j"] = measured.rail_energy_j.get(rail)
        self._attempt(self._steps.append, row)

    def decision(self, content: Mapping[str, Any]) -> None:
        """Record one decision, and flush all tables: a decision epoch is what a crash may cost."""
        line = json.dumps(_short(content), separators=(",", ":"))
        self._attempt(self._decisions.write, line + "\n")
        for each in (self._decisions, self._steps, self._samples):
            self._attempt(each.flush)


def _is_slowed(counts: Counts | None) -> int:
    """Tell, as 1 or 0, whether the step took longer because its operations were counted."""
    return int(counts is not None and not counts.by_shapes)


def _mean_power_w(begin: tuple[int, Floats, Floats], end: tuple[int, Floats, Floats]) -> Floats:
    """Return each rail's mean power between two moments, NaN where it was not measured."""
    length_ns = end[0] - begin[0]
    hole = end[2] - begin[2] > LONGEST_HOLE * length_ns
    return np.where(hole, np.nan, (end[1] - begin[1]) / (length_ns * 1e-9))


def _step_schema(rails: Sequence[str]) -> pa.Schema:
    integers = ("step", "epoch", "begin_ns", "end_ns", "target_hz", "counted")
    phase_columns = [
        f"{kind}_{phase}_{unit}"
        for phase in PHASES
        for kind, unit in (("time", "s"), ("energy", "j"))
    ]
    # What adds up over a run keeps its digits; the parts of a step are no better than the sensors.
    whole = ("duration_s", "work", "energy_j")
    parts = [*phase_columns, *(f"energy_{rail}_j" for rail in rails)]
    return pa.schema(
        [
            *((name, pa.int64()) for name in integers),
            *((name, pa.float64()) for name in whole),
            *((name, pa.float32()) for name in parts),
        ]
    )


def _short(value: Any) -> Any:
    """Return plain values with floats of seven digits: no sensor has more, and a day has many."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    return value


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
