"""Whether anything grows while a run goes on for long: memory, descriptors, threads, the disk.

A small training loop under `orin-gov run` on the virtual board, with the live view on a terminal
that is played, sampled at 1 kHz. With --rig, inside the kernel rig (tests/kernel), a run of so many
simulated minutes in virtual time. Every few seconds each process is looked at; the first quarter,
in which libraries load and buffers fill, is not judged.
"""

import json
import os
import pty
import select
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import psutil

from bench._figures import Figure, parser, publish
from bench._footprint import Footprint, growth, read_footprint
from orin_gov.view.terminal import set_size

MINUTES = 60.0
RATE_HZ = 1000
LOOK_EVERY_S, RIG_LOOK_EVERY_S = 10.0, 120.0
COLUMNS, ROWS = 100, 40
MOST_GROWTH = "<= 512"
"""Kilobytes an hour: a day costs 12 MB at most."""

BOARD = "virtual:agx-orin-64gb"
START = """
import sys
from orin_gov import governed_run
from orin_gov.commands import main
governed_run.SAMPLE_PERIOD_NS = int(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""
JOB = "_soak_job.py"

Looks = dict[str, list[tuple[float, Footprint]]]


def command(folder: Path, minutes: float, rate_hz: int, rig: bool) -> list[str]:
    """Return the supervisor's command line; its run directory is `folder`/run."""
    seconds = str(minutes * 60)
    if rig:
        return [sys.executable, "-m", "bench._rig_run", str(folder / "run"), seconds]
    words = ["run", "--board", BOARD, "--live", "-o", str(folder / "run")]
    job = [str(Path(__file__).with_name(JOB)), seconds]
    return [sys.executable, "-c", START, str(10**9 // rate_hz), *words, *job]


def soak(words: list[str], every_s: float, log: Path | None) -> tuple[int, Looks]:
    """Play the run; return its exit code and what each process held, by its name, over time."""
    pid, terminal = pty.fork()  # one of its own: a view is drawn in the foreground alone
    if pid == 0:
        set_size(1, COLUMNS, ROWS)
        os.execve(words[0], words, {**os.environ, "TERM": "xterm-256color", "CI": ""})
    looks: Looks = {}
    began_s = next_s = time.monotonic()
    while read_for(terminal, next_s - time.monotonic()):
        if time.monotonic() >= next_s:
            take(looks, pid, time.monotonic() - began_s)
            if log:
                log.write_text(json.dumps(looks, default=vars))
            next_s += every_s
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), looks


def read_for(terminal: int, seconds: float) -> bool:
    """Read what comes from the terminal within the time; False once nobody is on it any more."""
    if not select.select([terminal], [], [], max(0.0, seconds))[0]:
        return True
    try:
        return bool(os.read(terminal, 65536))
    except OSError:  # how Linux ends a terminal
        return False


def take(looks: Looks, supervisor: int, now_s: float) -> None:
    """Look at every process of the run, as long as the script lives: what comes then is the end."""
    found = processes(supervisor)
    if "script" in found:
        for name, pid in found.items():
            if footprint := read_footprint(pid):
                looks.setdefault(name, []).append((now_s, footprint))


def processes(supervisor: int) -> Mapping[str, int]:
    """Return the processes of a run by their names."""
    found = {"supervisor": supervisor}
    try:
        own = psutil.Process(supervisor)
        for child in own.children():
            words = child.cmdline()
            if words == own.cmdline():
                on_terminal = any("/dev/pt" in where for where in open_files(child.pid))
                found["view" if on_terminal else "warden"] = child.pid
            else:
                found["script" if {"job", JOB} & {Path(w).name for w in words} else "board"] = (
                    child.pid
                )
    except psutil.Error:
        pass  # it ends just now
    return found


def open_files(pid: int) -> list[str]:
    """Return what the descriptors of a process beyond the standard three stand for."""
    folder = Path("/proc") / str(pid) / "fd"
    try:
        return [os.readlink(each) for each in folder.iterdir() if int(each.name) > 2]
    except OSError:
        return []


def figures(looks: Looks) -> list[Figure]:
    """Return what grew, by process, after the first quarter."""
    end_s = max(when for each in looks.values() for when, _ in each)
    made = []
    for name, each in sorted(looks.items()):
        late = [(when, found) for when, found in each if when >= end_s / 4]
        times_s = [when for when, _ in late]
        memory = [found.anonymous_kb for _, found in late]
        grown, low, high = growth(times_s, memory)
        count = len(late)
        made += [
            Figure(f"{name}_memory", late[-1][1].resident_kb / 1024, "MiB", 1),
            Figure(f"{name}_memory_growth", grown, "kB/h", count, (low, high), MOST_GROWTH),
            Figure(
                f"{name}_descriptors_gained",
                _gain([f.descriptors for _, f in late]),
                "",
                count,
                bar="<= 0",
            ),
            Figure(
                f"{name}_threads_gained", _gain([f.threads for _, f in late]), "", count, bar="<= 0"
            ),
        ]
    return made


def _gain(counts: list[int]) -> float:
    """Return by how much the median of the later half exceeds that of the earlier half.

    Not the largest count: a file of the board that is open at the very moment is no leak.
    """
    half = len(counts) // 2
    return median(counts[half:]) - median(counts[:half])


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=MINUTES, help="of the run")
    arguments.add_argument("--rate", type=int, default=RATE_HZ, help="of sampling, in Hz")
    arguments.add_argument("--rig", action="store_true", help="on the kernel rig that we are in")
    arguments.add_argument("--log", type=Path, help="a file for every single look, as JSON")
    options = arguments.parse_args()
    every_s = RIG_LOOK_EVERY_S if options.rig else LOOK_EVERY_S
    with tempfile.TemporaryDirectory() as folder:
        words = command(Path(folder), options.minutes, options.rate, options.rig)
        code, looks = soak(words, every_s, options.log)
        summary = json.loads((Path(folder) / "run/summary.json").read_text())
        size = sum(file.stat().st_size for file in (Path(folder) / "run").iterdir())
    sampler = summary["sampler"]
    made = [
        Figure("exit_code", code, "", 1, bar="<= 0"),
        Figure("sampling_rate", sampler["rate_hz"], "Hz", sampler["sweeps"]),
        Figure("steps", summary["steps"], "", summary["steps"]),
        Figure("run_directory", size / 1e6 / (options.minutes / 60), "MB/h", 1),
        *figures(looks),
    ]
    board = "the kernel rig, in virtual time" if options.rig else BOARD
    return publish("soak", f"{board}, {options.minutes:g} minutes", made, options.json)


if __name__ == "__main__":
    sys.exit(main())
