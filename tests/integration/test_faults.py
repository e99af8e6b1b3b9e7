"""A world that fails a run: it is told, no figure is made of it, and the script never notices."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import command
from shims import Clocks, Faults
from test_leaving_as_found import AT_REST, Run, governed, write_job
from trees import build_tree, eventually, following, gpu_folder, has_ended, is_pinned, limits

from orin_gov.record.live import read_live
from orin_gov.running import started_s

S = 1_000_000_000
MODULE_W = 12.0
"""What the three rails of a tree of plain files add up to, for ever."""

ERRNOS = (errno.EAGAIN, errno.EIO, errno.ENODATA, errno.ENODEV, errno.ETIMEDOUT, errno.EBUSY)

IMPATIENT = """
import sys, orin_gov.governed_run
orin_gov.governed_run.STALLED_NS = 3_000_000_000
from orin_gov.commands import main
sys.exit(main())
"""


def impatient(words: list[str], env: dict[str, str]) -> list[str]:
    """Have a run started within an environment, and its engine given up once it hangs for 3 s."""
    within = ["env", *(f"{name}={value}" for name, value in env.items())]
    return [*within, sys.executable, "-c", IMPATIENT, *words[3:]]


def windows(board: "Board") -> list[dict[str, Any]]:
    """Return what each decision epoch of the run has measured so far."""
    lines = (board.folder / "run/decisions.jsonl").read_text().split("\n")[:-1]
    return [json.loads(line)["measured"] for line in lines]


def are_right_or_unknown(measured: list[dict[str, Any]]) -> bool:
    """Tell whether no window has a figure that is wrong."""
    watts = [
        each["energy_j"] / each["duration_s"] for each in measured if each["energy_j"] is not None
    ]
    return watts == pytest.approx([MODULE_W] * len(watts), rel=0.02)


def is_well_under_way(board: "Board") -> bool:
    """Tell whether a window is: neither its end nor a change of the clock is near."""
    age_ns = time.monotonic_ns() - windows(board)[-1]["end_ns"]
    return 0.3 * S < age_ns < 0.8 * S


def stood_still_s(board: "Board") -> float:
    """Return for how long the governor stood still, by what the view warns of now."""
    found = re.search(r"the governor stood still for ([0-9.]+) s", board.alarms)
    return float(found[1]) if found else 0.0


class Board:
    """A tree of plain files, a script beside it, and what the world may do to its run."""

    def __init__(self, folder: Path, wrap: Callable[[list[str]], list[str]] = list) -> None:
        folder.mkdir()
        self.folder, self.wrap = folder, wrap
        self.root = build_tree(folder / "board")
        self.gpu = gpu_folder(self.root)
        self.job = write_job(folder)

    @property
    def moment(self) -> dict[str, Any]:
        """The present moment of the run."""
        found: dict[str, Any] = read_live(self.folder / "run")
        return found

    @property
    def alarms(self) -> str:
        """What the view warns of now."""
        return "; ".join(self.moment["alarms"])

    @contextmanager
    def governed(self) -> Iterator[Run]:
        """Run the script, governed; the clock follows."""
        with following(self.gpu), governed(self.job, "--root", self.root, wrap=self.wrap) as run:
            yield run


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Clocks:
    made = Clocks(tmp_path_factory.mktemp("clocks"))
    made.set_wall(-1.7e9)  # a board without a battery begins in 1970
    return made


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def under_way(
    tmp_path_factory: pytest.TempPathFactory, clocks: Clocks, faults: Faults
) -> Iterator[tuple[Board, Run]]:
    """A run to which one fault after another happens: each run takes seconds to be pinned."""
    preloaded = f"{clocks.env['LD_PRELOAD']} {faults.env['LD_PRELOAD']}"
    env = {**clocks.env, **faults.env, "LD_PRELOAD": preloaded}
    board = Board(tmp_path_factory.mktemp("world") / "one", lambda words: impatient(words, env))
    with board.governed() as run:
        yield board, run


def is_stopped(run: Run) -> bool:
    return psutil.Process(run.process.pid).status() == psutil.STATUS_STOPPED


def test_without_a_processor_figures_are_right_or_unknown_and_the_board_is_put_back(
    tmp_path: Path,
) -> None:
    board = Board(tmp_path / "starved")
    busy = [sys.executable, "-c", "while True: pass"]
    with board.governed() as run:
        assert eventually(lambda: is_pinned(board.gpu))
        for thread in psutil.Process(run.process.pid).threads():
            os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
        loops = [subprocess.Popen(busy) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            seen = len(windows(board))
            eventually(lambda: len(windows(board)) > seen + 1, within_s=3)  # or not: no fault
            (board.folder / "go").touch()
            assert eventually(lambda: limits(board.gpu) == AT_REST)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert run.process.wait(60) == 7
    assert are_right_or_unknown(windows(board))
    assert "Traceback" not in run.told


def can_mount() -> bool:
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="only root can mount")


@needs_mounts
def test_on_a_read_only_sysfs_it_measures_and_says_what_would_mend_it(tmp_path: Path) -> None:
    def read_only(words: list[str]) -> list[str]:
        sysfs = f"'{board.root}/sys'"
        mount = f"mount --bind {sysfs} {sysfs} && mount -o remount,ro,bind {sysfs}"
        return ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$@"', *words]

    board = Board(tmp_path / "container", read_only)
    strict = command("run", "--strict", "--root", board.root, "-o", "strict", "--", "touch", "ran")
    refused = subprocess.run(read_only(strict), cwd=tmp_path, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert not {"ran", "strict"} & {*os.listdir(tmp_path)}
    with board.governed() as run:
        assert eventually(lambda: len(windows(board)) > 1)
        assert run.ends() == 7
    for told in (refused.stderr, run.told):
        assert "lie on a read-only file system, as in a container" in told
        assert "docker run --privileged, or -v " in told
    assert "the script runs on, measured but not governed" in run.told
    assert are_right_or_unknown(windows(board))
    assert any(each["energy_j"] is not None for each in windows(board))
    assert limits(board.gpu) == AT_REST


@needs_mounts
def test_a_run_is_known_by_when_it_began_though_the_clock_was_set_since() -> None:
    """A step of the wall clock moves the boot's time in /proc/stat, and all that is told by it."""
    ask = """
import os, sys
sys.path.insert(0, sys.argv[1])
from dataclasses import replace
from orin_gov.record.live import read_live
from orin_gov.running import started_s
from orin_gov.view.watching import is_alive
from snapshots import MOMENT
child = os.getppid()
snapshot = replace(MOMENT, pid=child, started_s=float(sys.argv[2]), t_ns=1)
print(is_alive(snapshot), is_alive(replace(snapshot, started_s=snapshot.started_s + 5)))
"""
    began_s = started_s(os.getpid())
    words = [sys.executable, "-c", ask, str(Path(__file__).parents[1]), str(began_s)]
    later = "sed 's/^btime .*/btime 86400/' /proc/stat > stat && mount --bind stat /proc/stat"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'cd "$(mktemp -d)" && {later} && exec "$0" "$@"', *words],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True False\n", done.stderr


def test_a_stopped_supervisor_goes_on_and_counts_no_window_of_the_stop(
    under_way: tuple[Board, Run],
) -> None:
    board, run = under_way
    assert eventually(lambda: is_pinned(board.gpu) and is_well_under_way(board))
    begin_ns = time.monotonic_ns()
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(3.5)  # what is tested is that time passes
    assert is_pinned(board.gpu)
    assert run.script.status() != psutil.STATUS_STOPPED
    end_ns = time.monotonic_ns()
    run.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: stood_still_s(board) >= 3.4), (board.alarms, run.told)
    seen = len(windows(board))
    assert eventually(lambda: len(windows(board)) > seen)
    assert "hangs" not in run.told
    assert all(
        each["end_ns"] < begin_ns + S or each["begin_ns"] >= end_ns for each in windows(board)
    )
    assert are_right_or_unknown(windows(board))


def test_the_wall_clock_is_nothing_to_a_run(under_way: tuple[Board, Run], clocks: Clocks) -> None:
    board, run = under_way
    assert eventually(lambda: is_pinned(board.gpu))
    for ahead_s in (0.0, -3600.0, 86400.0):
        clocks.set_wall(ahead_s)
        moment = board.moment
        assert eventually(lambda moment=moment: board.moment != moment)
    seen = len(windows(board))
    assert eventually(lambda: len(windows(board)) > seen)
    assert are_right_or_unknown(windows(board))
    assert all(0 < each["duration_s"] < 60 for each in windows(board))
    assert "hangs" not in run.told
    assert "suspended" not in board.alarms


def test_after_a_suspend_the_limits_are_written_again(
    under_way: tuple[Board, Run], clocks: Clocks
) -> None:
    board, run = under_way
    assert eventually(lambda: is_pinned(board.gpu))
    pinned = limits(board.gpu)

    def suspended(forgetful: bool) -> int:
        """Suspend the machine for 100 s; return when it was."""
        assert eventually(lambda: is_well_under_way(board))
        run.process.send_signal(signal.SIGSTOP)
        assert eventually(lambda: is_stopped(run))
        at_ns = time.monotonic_ns()
        clocks.suspend(100.0)
        if forgetful:  # as a driver may be that comes back
            for name, hz in zip(("max_freq", "min_freq"), reversed(AT_REST), strict=True):
                (board.gpu / name).write_text(hz)
        run.process.send_signal(signal.SIGCONT)
        return at_ns

    moments_ns = [suspended(forgetful=True)]
    assert eventually(lambda: limits(board.gpu) == pinned, within_s=8)
    told = re.compile("the GPU had forgotten its limits while|the machine was suspended for 100 s")
    assert eventually(lambda: told.search(board.alarms), within_s=8)  # the later one is shown
    seen = len(windows(board))
    assert eventually(lambda: len(windows(board)) > seen)
    moments_ns.append(suspended(forgetful=False))
    seen = len(windows(board))
    assert eventually(lambda: len(windows(board)) > seen)
    for at_ns in moments_ns:
        assert not [each for each in windows(board) if each["begin_ns"] < at_ns < each["end_ns"]]


def test_files_that_fail_at_any_moment_stop_nothing(
    under_way: tuple[Board, Run], faults: Faults
) -> None:
    """Every file of the board in turn, seeded: as a driver fails, missing, empty, or garbage."""
    board, run = under_way
    chance = random.Random(0)
    ours = board.root / "run"  # the journal is no file of the board's, and written all the time
    paths = (path for path in board.root.rglob("*") if ours not in path.parents)
    every = sorted(path for path in paths if path.is_file() and not path.is_symlink())
    every = [path for path in every if path.name != "next"]  # of `following`
    looked_at = board.gpu / "governor"  # once in two seconds
    assert eventually(lambda: is_pinned(board.gpu))
    for path in chance.sample(every, len(every)):
        if path.name in ("min_freq", "max_freq"):
            continue  # where these cannot be read, the board is let go: unit/test_helm.py
        # A descriptor stays dead after ENODEV: that of one rail has to be opened again.
        gone = path.name == "curr1_input"
        faults.set(path, errno.ENODEV if gone else chance.choice(ERRNOS))
        time.sleep(0.03)  # long enough for some sweeps
        assert path != looked_at or eventually(lambda: board.moment["governor"] is None)
    faults.set(board.gpu, 0)
    for path in chance.sample(every, len(every)):
        if path.name in ("min_freq", "max_freq", "cur_freq"):
            continue  # written while the run lasts: what stands there is not ours to put back
        before = path.read_bytes()
        content = chance.choice((None, b"", b"\n", b"\x00\xffgarbage", b"9" * 400, b"-"))
        path.unlink() if content is None else path.write_bytes(content)
        time.sleep(0.03)
        path.write_bytes(before)
    seen = len(windows(board))
    assert eventually(lambda: len(windows(board)) > seen + 1)
    assert windows(board)[-1]["energy_j"] is not None
    assert are_right_or_unknown(windows(board))
    assert eventually(lambda: board.moment["governor"] == "nvhost_podgov")
    assert "Traceback" not in run.told


def test_a_supervisor_that_is_killed_while_stopped_leaves_the_board_as_it_was(
    under_way: tuple[Board, Run],
) -> None:
    board, run = under_way
    assert eventually(lambda: is_pinned(board.gpu))
    run.process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: is_stopped(run))
    assert is_pinned(board.gpu)
    run.process.kill()
    assert eventually(lambda: limits(board.gpu) == AT_REST)
    assert not has_ended(run.script)
    (board.folder / "go").touch()
    assert eventually(lambda: has_ended(run.script))
    assert (board.folder / "marker").read_text() == "finished"
