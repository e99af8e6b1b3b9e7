"""The journal of what a board was before the first write, and the restore that reads it.

It lies in a run-time folder: sysfs forgets at a reboot, so a journal of an earlier boot is void.
"""

import json
import logging
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orin_gov._actuator import write_range
from orin_gov.board.conditions import is_cooled
from orin_gov.board.files import read_text
from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.private import draft_path, read_private, write_private
from orin_gov.errors import BoardError

logger = logging.getLogger(__name__)

VERSION = 2

SETTING = "samples"
"""The one file of a sensor that is ever changed: how many conversions it averages."""


@dataclass(frozen=True)
class Setting:
    """A file of a sensor that was changed, with the integer it held and the one it was given."""

    file: Path
    original: int
    ours: int


@dataclass(frozen=True)
class Journal:
    """What the GPU's limits and the sensors were, and what we set since; for after a crash."""

    path: Path
    root: Path
    gpu: Gpu
    original: Range
    ours_hz: tuple[int, ...] = ()
    sensors: tuple[Setting, ...] = ()

    def note(self, target: Range) -> "Journal":
        """Record, before it is written, that `target` is about to be ours; return the new journal.

        The one before it is kept: a crash may fall between this note and the write.
        """
        return self._with(ours_hz=(*self.ours_hz[-1:], target.max_hz))

    def note_sensors(self, settings: tuple[Setting, ...]) -> "Journal":
        """Record, before they are written, the sensors' settings; return the new journal."""
        return self._with(sensors=settings)

    def adopt(self, limits: Range) -> "Journal":
        """Record another writer's limits as what is to be put back; return the new journal."""
        return self._with(original=limits)

    def _with(self, **changes: Any) -> "Journal":
        updated = replace(self, **changes)
        _write(updated)
        return updated


def journal_path(root: Path) -> Path:
    """Return where the journal of the board under `root` is: /run where allowed, else per user."""
    run = root / "run"
    if os.access(run, os.W_OK):
        return run / "orin_gov" / "journal.json"
    user = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(user) if user else Path(tempfile.gettempdir())
    return base / f"orin_gov-{os.getuid()}" / "journal.json"


def begin_journal(root: Path, gpu: Gpu) -> Journal:
    """Write down the GPU's limits as they are now; call it before the first write.

    Raises:
        BoardError: the limits cannot be read, or the journal cannot be written.
    """
    journal = Journal(journal_path(root), root, gpu, gpu.read_range())
    _write(journal)
    return journal


def load_journal(root: Path) -> Journal | None:
    """Return the journal an earlier run left, or None; one of an earlier boot is removed.

    Raises:
        BoardError: there is one, but it cannot be understood or is not safely ours.
    """
    path = journal_path(root)
    try:
        content = read_private(path)
    except OSError as error:
        raise BoardError(f"cannot read the journal {path}: {error.strerror}") from error
    if content is None:
        return None
    try:
        record = json.loads(content)
        if record["version"] != VERSION:
            raise BoardError(f"{path} has version {record['version']!r}, expected {VERSION}")
        journal = Journal(
            path=path,
            root=root,
            gpu=Gpu(Path(record["directory"]), ()),
            original=Range(int(record["min_hz"]), int(record["max_hz"])),
            ours_hz=tuple(int(hz) for hz in record["ours_hz"]),
            sensors=tuple(_setting(*each) for each in record["sensors"]),
        )
        boot = record["boot_id"]
        if not 0 <= journal.original.min_hz <= journal.original.max_hz:
            raise ValueError(f"limits {journal.original}")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BoardError(f"{path} is no journal of orin_gov ({error!r}); remove it") from error
    if boot != _boot_id():
        path.unlink(missing_ok=True)
        return None
    return journal


def _setting(file: str, original: int, ours: int) -> Setting:
    path = Path(file)
    if path.name != SETTING:
        raise ValueError(f"{file} is no setting of a sensor")
    return Setting(path, int(original), int(ours))


def restore(journal: Journal, for_good: bool = True) -> Range:
    """Put limits and sensors back as the journal says, remove it, and return the GPU's limits.

    Where we never set anything, nothing is written: what the limits are now is not our doing.
    Where it is not `for_good` the journal stays.

    Raises:
        BoardError: something cannot be written or read; the rest is restored, the journal stays.
    """
    sensor_fault = _restore_sensors(journal.sensors)
    if not journal.ours_hz:
        limits = journal.gpu.read_range()
    else:
        cooled = is_cooled(journal.root, journal.gpu)
        limits = _limits_to_restore_now(journal, cooled)
        try:
            write_range(str(journal.gpu.directory), limits.min_hz, limits.max_hz)
        except OSError as error:
            raise BoardError(_cannot_restore(error)) from error
    if sensor_fault:
        raise BoardError(_cannot_restore(sensor_fault)) from sensor_fault
    if for_good:
        forget_journal(journal.path)
    return limits


def _limits_to_restore_now(journal: Journal, cooled: bool) -> Range:
    try:
        now = journal.gpu.read_range()
    except BoardError:
        # A file that a killed writer left empty, say: no sign of anybody else's.
        return journal.original
    return limits_to_restore(journal.original, journal.ours_hz, now, cooled)


def forget_journal(path: Path) -> None:
    """Remove the journal, and the draft of one where a run was killed while it wrote."""
    draft_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _restore_sensors(settings: tuple[Setting, ...]) -> OSError | None:
    """Restore each setting that is still ours; return what went wrong first."""
    fault = None
    for setting in settings:
        # Empty is what a writer leaves that was killed between cutting the file and writing.
        if read_text(setting.file) not in ("", str(setting.ours)):
            continue  # another writer's, or a sensor that is gone: its next driver resets it
        try:
            setting.file.write_text(f"{setting.original}\n")
        except OSError as error:
            fault = fault or OSError(error.errno, error.strerror, str(setting.file))
    return fault


def _cannot_restore(error: OSError) -> str:
    return (
        f"cannot restore {error.filename}: {error.strerror}; "
        "make it writable again, then: orin-gov restore"
    )


def limits_to_restore(
    original: Range, ours_hz: tuple[int, ...], now: Range, cooled: bool = False
) -> Range:
    """Return the limits to write: the original ones, except where another writer set a new cap.

    `ours_hz` are the maxima we set. A maximum that is neither ours nor the original one belongs to
    another writer (nvpmodel, say) and stays; the minimum is ours to lower again in any case. While
    the GPU is `cooled`, the maximum shows the thermal cap: written, it would stay for good.
    """
    foreign = not cooled and now.max_hz != original.max_hz and now.max_hz not in ours_hz
    max_hz = now.max_hz if foreign else original.max_hz
    return Range(min(original.min_hz, max_hz), max_hz)


def _boot_id() -> str | None:
    # The running kernel's, whatever the root: a virtual board dies with the machine that plays it.
    return read_text(Path("/proc/sys/kernel/random/boot_id"))


def _write(journal: Journal) -> None:
    record = {
        "version": VERSION,
        "boot_id": _boot_id(),
        "pid": os.getpid(),
        "directory": str(journal.gpu.directory),
        "min_hz": journal.original.min_hz,
        "max_hz": journal.original.max_hz,
        "ours_hz": journal.ours_hz,
        "sensors": [(str(each.file), each.original, each.ours) for each in journal.sensors],
    }
    try:
        write_private(journal.path, json.dumps(record).encode())
    except OSError as error:
        raise BoardError(f"cannot write the journal {journal.path}: {error.strerror}") from error
