"""Watching a run through its run directory: nothing is written, and no right but to read is needed.

The state of a run is that of its files: live.json while it runs, summary.json once it has ended,
and live.json alone, its supervisor gone, where it was cut off.
"""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from orin_gov.record.live import read_live
from orin_gov.record.reader import read_manifest, read_summary
from orin_gov.running import started_s
from orin_gov.view.lines import print_end
from orin_gov.view.panels import clock_time, rows
from orin_gov.view.state import Snapshot, from_json

PERIOD_S = 0.5
FRESH_S = 1.5
SILENT_S = 5.0
"""A living supervisor that has written nothing for so long is told to be silent."""


@dataclass(frozen=True)
class Ended:
    """A run that is not under way: why, and its summary where it wrote one."""

    told: str
    summary: dict[str, Any] | None


def moment(folder: Path) -> Snapshot | Ended:
    """Return the present moment of the run in `folder`, or how it has ended.

    Raises:
        RunDirectoryError: it is no run directory, of another version, damaged or not readable.
    """
    manifest = read_manifest(folder)
    try:
        snapshot = from_json(read_live(folder), str(folder / "live.json"))
    except FileNotFoundError:
        return _without_live(folder, manifest)
    if is_alive(snapshot):
        return snapshot
    return Ended(
        f"it was cut off after {clock_time(snapshot.elapsed_s)}: its supervisor is gone", None
    )


def _without_live(folder: Path, manifest: dict[str, Any]) -> Ended:
    if (folder / "summary.json").exists():
        return Ended("it has ended", read_summary(folder))
    if "clock_ns" in manifest and (folder / "decisions.jsonl").exists():
        return Ended("it has not begun to measure, or ended without a summary", None)
    return Ended("it has no summary", None)


def is_alive(snapshot: Snapshot) -> bool:
    """Tell whether the supervisor that wrote the snapshot still is.

    From within a container its process is not seen: there, only a snapshot that is new counts.
    """
    if 0 <= silence_s(snapshot) < FRESH_S:
        return True
    # A process id comes round again; the time it was started with does not.
    began_s = started_s(snapshot.pid)
    return began_s is not None and abs(began_s - snapshot.started_s) < 1.0


def silence_s(snapshot: Snapshot) -> float:
    """Return how old a snapshot is; less than 0 where it is from before a restart."""
    return (time.monotonic_ns() - snapshot.t_ns) * 1e-9


def in_a_line(now: Snapshot | Ended) -> str:
    """Return what a run is doing, in a line."""
    if isinstance(now, Ended):
        return now.told
    return f"{now.name}  {clock_time(now.elapsed_s)}  {now.mode}  {now.decision}"


def show_once(now: Snapshot | Ended, folder: Path) -> None:
    """Print the present moment, or how the run has ended and its summary."""
    if isinstance(now, Snapshot):
        console = Console(highlight=False)
        width = console.width - 1 if console.is_terminal else 200
        for text in rows(now, width, 100):
            print(text.plain)
        return
    print(f"{folder}: {now.told}")
    if now.summary is not None:
        print_end(now.summary, folder, read_manifest(folder)["name"])


def follow(folder: Path) -> None:
    """Draw the run until it has ended, or q is pressed; then say which."""
    console = Console(highlight=False)
    now: Snapshot | Ended = moment(folder)
    with _keys() as pressed, Live(console=console, auto_refresh=False, screen=True) as live:
        while isinstance(now, Snapshot):
            live.update(_screen(now, folder, console), refresh=True)
            if pressed(PERIOD_S):
                return
            now = moment(folder)
    show_once(now, folder)


def _screen(now: Snapshot, folder: Path, console: Console) -> Text:
    texts = rows(now, console.width - 1, console.height - 2)
    old_s = silence_s(now)
    if old_s > SILENT_S:
        texts.append(Text(f"no news for {old_s:.0f} s: the supervisor stands still", "bold red"))
    texts.append(Text(f"q ends this, not the run {folder.name}", "dim"))
    for text in texts:
        text.truncate(console.width - 1, overflow="ellipsis")
    return Text("\n", no_wrap=True, end="").join(texts[: console.height])


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Take single keys from stdin for the block; what is yielded waits and tells whether it was q."""
    modes = termios.tcgetattr(0)

    def pressed(wait_s: float) -> bool:
        if not select.select([sys.stdin], [], [], wait_s)[0]:
            return False
        return os.read(0, 64)[:1] in (b"q", b"Q", b"")

    tty.setcbreak(0)
    try:
        yield pressed
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, modes)
