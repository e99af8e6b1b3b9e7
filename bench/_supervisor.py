"""What the supervisor and the live view take of a processor, from a real run on a virtual board.

The run is started as a user starts it, on a terminal of its own, and looked at from outside, long
after the start. At 1 kHz a good part of it is the sampler's sleeping and waking (bench.sampler).
"""

import contextlib
import os
import pty
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from bench._figures import Figure, median_figure
from orin_gov.view.terminal import set_size

SIZE = (100, 30)
SETTLE_S = 20.0
"""Imports, the first windows: what only the beginning costs."""

RUN = """
import sys
from orin_gov import commands, governed_run
governed_run.SAMPLE_PERIOD_NS = int(sys.argv.pop(1))
governed_run.VOLTAGE_EVERY = max(2, round(6_000_000 / governed_run.SAMPLE_PERIOD_NS))
sys.exit(commands.main())
"""
"""The command line, at another sampling rate: no user has a use for that, so there is no option."""


def measure(
    rate_hz: int, live: bool, windows: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Run the steady steps, sampled at `rate_hz`; weigh their supervisor and its live view.

    Returns percent of one core in each of so many windows of so many seconds; without a view
    nothing for that.
    """
    script = Path(__file__).with_name("_steady_steps.py")
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", RUN, str(1_000_000_000 // rate_hz), "run"]
        words += ["--output", f"{folder}/run", "--live" if live else "--no-live"]
        words += ["--board", "virtual:agx-orin-64gb", str(script)]
        with _on_terminal(words) as pid:
            _await_decision(Path(folder) / "run", pid)
            time.sleep(SETTLE_S)
            pids = [pid, *([_view_of(pid)] if live else [])]
            shares = [_shares(pids, seconds) for _ in range(windows)]
    supervisor = [share for share, *_ in shares]
    return supervisor, [share for _, *view in shares for share in view]


def _shares(pids: Sequence[int], seconds: float) -> list[float]:
    """Return how many percent of one core each process takes in the next seconds."""
    before_s, began_s = [_used_s(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    after_s, elapsed_s = [_used_s(pid) for pid in pids], time.monotonic() - began_s
    return [100 * (b - a) / elapsed_s for a, b in zip(before_s, after_s, strict=True)]


@contextlib.contextmanager
def _on_terminal(words: list[str]) -> Iterator[int]:
    """Run a command on a terminal that is read all the while; its process is ended at the end."""
    pid, terminal = pty.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            set_size(1, *SIZE)
            os.environ.update(TERM="xterm-256color", CI="", NO_COLOR="")
            os.execv(words[0], words)
        os._exit(99)
    reader = threading.Thread(target=_read_on, args=(terminal,), daemon=True)
    reader.start()
    try:
        yield pid
    finally:
        _end(pid)
        os.close(terminal)


def _end(pid: int) -> None:
    """End the run as a user does, and by force where that takes too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, number)
        until_s = time.monotonic() + 10
        while time.monotonic() < until_s:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.1)


def _read_on(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


def _await_decision(folder: Path, pid: int) -> None:
    """Wait for the first decision: from then on the run is under way."""
    decisions = folder / "decisions.jsonl"
    until_s = time.monotonic() + 120
    while not (decisions.exists() and decisions.stat().st_size):
        if time.monotonic() > until_s or not psutil.pid_exists(pid):
            sys.exit("the run whose supervisor is to be weighed did not get under way")
        time.sleep(0.1)


def _view_of(pid: int) -> int:
    """Return the process of the live view: the child that holds the script's pseudo-terminal."""
    for child in psutil.Process(pid).children():
        folder = Path(f"/proc/{child.pid}/fd")
        if any(os.readlink(each) == "/dev/ptmx" for each in folder.iterdir()):
            return child.pid
    sys.exit("the run has no live view to be weighed")


def _used_s(pid: int) -> float:
    """Return the processor seconds of a process, its ended threads included."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def figures(windows: int, seconds: float) -> list[Figure]:
    """Return percent of one core at 1 kHz with the view, and at the default rate without it."""
    fast, view = measure(1000, True, windows, seconds)
    usual, _ = measure(200, False, windows, seconds)
    return [
        median_figure("supervisor_cpu_percent_1khz", fast, "%", "<= 5"),
        median_figure("supervisor_cpu_percent_default", usual, "%"),
        median_figure("view_cpu_percent", view, "%", "<= 2"),
    ]
