"""A run as it lies on disk: whatever can be read of it, and a line on each thing that cannot."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from orin_gov.errors import RunDirectoryError
from orin_gov.record.tables import read_table
from orin_gov.record.writer import VERSION

FILES = ("manifest.json", "samples.arrows", "steps.arrows", "decisions.jsonl", "summary.json")
CHARACTERIZATION = "measurements.jsonl"
"""The measurements of a characterization: its directory has these in place of samples and steps."""

NEEDED = {"samples": ("t_ns", "clock_hz"), "steps": ("step", "begin_ns", "end_ns", "duration_s")}
"""Columns without which a table, of another version say, tells nothing; the first one grows."""


@dataclass(frozen=True)
class Run:
    """A run directory's content; what is missing is empty, and `notes` says why.

    `samples` has t_ns, clock_hz and power_RAIL_w; `steps` one row a step, as the writer has them.
    `summary` is None where the run goes on still or was cut off.
    """

    path: Path
    manifest: dict[str, Any]
    summary: dict[str, Any] | None
    decisions: list[dict[str, Any]]
    samples: pa.Table
    steps: pa.Table
    notes: tuple[str, ...]

    @property
    def identity(self) -> str:
        """The name that tells this run from others: its directory's."""
        return self.path.resolve().name

    @property
    def name(self) -> str:
        """The script's name, or the directory's where it is not known."""
        return str(self.manifest.get("name") or self.identity)

    @property
    def rails(self) -> list[str]:
        """The labels of the rails, in the order of the board."""
        columns = self.samples.column_names
        return [name[len("power_") : -len("_w")] for name in columns if name.startswith("power_")]

    @property
    def total_rails(self) -> list[str] | None:
        """The rails that make up the module's power, or None where that is not known."""
        total = self.manifest.get("total_rails")
        return list(total) if total and set(total) <= set(self.rails) else None

    @property
    def origin_ns(self) -> int:
        """When the run began, on the clock of its records: its start, or its first record."""
        known = self.manifest.get("clock_ns")
        if isinstance(known, int):
            return known
        firsts = [
            table[column][0].as_py()
            for table, column in ((self.samples, "t_ns"), (self.steps, "begin_ns"))
            if table.num_rows and column in table.column_names
        ]
        return min(firsts, default=0)

    @property
    def started(self) -> datetime | None:
        """When the run began, by the calendar."""
        try:
            return datetime.strptime(str(self.manifest.get("started")), "%Y-%m-%dT%H:%M:%S%z")
        except ValueError:
            return _iso(self.manifest.get("started"))


def _iso(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (TypeError, ValueError):
        return None


@contextmanager
def strange_records(path: Path) -> Iterator[None]:
    """Tell of records whose values are not of the kinds that ours are: they were made elsewhere.

    Raises:
        RunDirectoryError: something in the block stumbled over such a value.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunDirectoryError(f"{path} is no record of orin_gov's: {error!r}") from error


def is_characterization(path: Path) -> bool:
    """Tell whether the directory is that of a characterization: its measurements are its own."""
    return os.path.isfile(path / CHARACTERIZATION)  # pathlib raises where it may not look


def read_run(path: Path) -> Run:
    """Read a run directory as far as it goes.

    Raises:
        RunDirectoryError: there is nothing of a run in it, or it may not be looked into.
    """
    try:
        found = {file.name for file in path.iterdir()}
    except OSError as error:
        raise RunDirectoryError(f"{path} is no run directory: {error.strerror}") from error
    if not found & set(FILES):
        raise RunDirectoryError(f"{path} is no run directory: it has none of {', '.join(FILES)}")
    notes: list[str] = []
    manifest = _read_object(path / "manifest.json", notes) or {}
    if "summary.json" in found:
        summary = _read_object(path / "summary.json", notes)
    else:
        summary = None
        notes.append(_unfinished_words(path))
    if is_characterization(path):
        return Run(path, manifest, summary, [], pa.table({}), pa.table({}), (*notes,))
    samples, steps = (_read_table(path, name, notes) for name in NEEDED)
    decisions = _read_lines(path / "decisions.jsonl", notes)
    return Run(path, manifest, summary, decisions, samples, steps, (*notes,))


def _read_table(path: Path, name: str, notes: list[str]) -> pa.Table:
    """Return the rows of a table, or none at all, and note what is wrong with it."""
    table, note = read_table(path / f"{name}.arrows", NEEDED[name][0])
    if note:
        notes.append(note)
    if table is None:
        return pa.table({})
    if lacking := [column for column in NEEDED[name] if column not in table.column_names]:
        notes.append(f"{name}.arrows has no {', '.join(lacking)}: it is not shown")
        return pa.table({})
    return table


def _unfinished_words(path: Path) -> str:
    """Say that the run has no end; the age of its last record tells which of both it is."""
    try:
        age_s = max(0.0, time.time() - max(file.stat().st_mtime for file in path.iterdir()))
    except OSError:
        return "summary.json is missing: the run goes on, or was cut off"
    ago = f"{age_s:.0f} s" if age_s < 120 else f"{age_s / 3600:.1f} h"
    return f"summary.json is missing: the run goes on, or was cut off; last written {ago} ago"


def _read_object(file: Path, notes: list[str]) -> dict[str, Any] | None:
    text = _read_text(file, notes)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        notes.append(f"{file.name} is damaged: {error}")
        return None
    if not isinstance(content, dict):
        notes.append(f"{file.name} is damaged: it holds no object")
        return None
    version = content.get("version")
    if version != VERSION:
        notes.append(_version_words(file.name, version))
    return content


def _version_words(name: str, version: Any) -> str:
    if not isinstance(version, int):
        return f"{name} does not say its version, expected {VERSION}; read as that"
    age = "a newer" if version > VERSION else "an older"
    return (
        f"{name} is of version {version}, by {age} orin-gov than this, which has version "
        f"{VERSION}; shown as far as it is understood"
    )


def _read_text(file: Path, notes: list[str]) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        notes.append(f"{file.name} is missing")
    except PermissionError:
        notes.append(f"{file.name} may not be read: ask its owner, or use sudo")
    except OSError as error:
        notes.append(f"{file.name} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        notes.append(f"{file.name} is damaged: it is no text")
    return None


def _read_lines(file: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return the decisions up to the first damaged one; a half-written last line is left out."""
    text = _read_text(file, notes) or ""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].split("\n")[:-1], start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not _is_decision(row):
            notes.append(
                f"{file.name} is damaged in line {number}, or of another version; "
                "the lines before it are shown"
            )
            break
        rows.append(row)
    return rows


def _is_decision(row: Any) -> bool:
    """Tell whether the row has what every decision has; what else it lacks is missing."""
    measured, decision = (
        (row.get("measured"), row.get("decision")) if isinstance(row, dict) else (None, None)
    )
    return (
        isinstance(measured, dict)
        and isinstance(decision, dict)
        and isinstance(row.get("epoch"), int)
        and isinstance(measured.get("duration_s"), int | float)
        and isinstance(measured.get("steps"), int)
        and isinstance(measured.get("state"), str)
        and isinstance(decision.get("state"), str)
        and isinstance(decision.get("reason"), str)
    )
