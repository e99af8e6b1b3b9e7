"""The board is left as it was found, however a run ends: real runs, real signals, real files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from conftest import VIRTUAL, command, hasty, our_processes, side_by_side, without_rights
from trees import (
    AGX_CLOCKS,
    AGX_JP6,
    build_tree,
    content,
    eventually,
    following,
    gpu_folder,
    has_ended,
    is_pinned,
    limits,
    plant,
)

from orin_gov.board.lock import exclusive
from orin_gov.board.probe import open_board

AT_REST = (str(AGX_CLOCKS[0]), str(AGX_CLOCKS[-1]))

# For what must not pass before it is seen, on a machine that may be busy.
SLOWLY = ("--epoch", "1s")
IMPATIENT = "import orin_gov.governed_run as it; it.STALLED_NS //= 3\n"

# A command that is no Python is judged by time alone: three windows, then a decision.
JOB = f"""#!{sys.executable}
import os, pathlib, sys, time
print(os.getpid(), flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
if pathlib.Path("go").read_text():
    raise RuntimeError("theirs")
pathlib.Path("marker").write_text("finished")
sys.exit(7)
"""


def write_job(folder: Path) -> Path:
    """Write a script that prints its pid, waits for the file "go", leaves "marker", ends with 7.

    With something in "go" it raises instead.
    """
    path = folder / "job"
    path.write_text(JOB)
    path.chmod(0o755)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write_job(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "board")


class Run:
    """A run under way: its supervisor, its warden where it governs, and the file it tells in."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path) -> None:
        self.process = process
        self._told = told
        assert process.stdout is not None
        self.script = psutil.Process(int(process.stdout.readline()))

    @property
    def told(self) -> str:
        return self._told.read_text()

    @property
    def warden(self) -> psutil.Process:
        """The one child that is neither the script nor a virtual board: it has our own words."""
        us = psutil.Process(self.process.pid)
        (warden,) = (child for child in us.children() if child.cmdline() == us.cmdline())
        return warden

    @property
    def virtual_tree(self) -> Path:
        """Where the virtual board's server, a child of the supervisor, serves its files."""
        words = [child.cmdline() for child in psutil.Process(self.process.pid).children()]
        (server,) = (each for each in words if "orin_gov.virtual.server" in each)
        return Path(server[server.index("--root") + 1])

    def ends(self, go: str = "") -> int:
        """Let the script end; return the run's exit code."""
        folder = self._told.parent
        (folder / "whither").write_text(go)
        (folder / "whither").rename(folder / "go")  # never seen half written
        return self.process.wait(20)


@contextmanager
def governed(
    job: Path, *options: object, wrap: Callable[[list[str]], list[str]] = list
) -> Iterator[Run]:
    """Run the script with short epochs; whatever is left at the end of the block is ended."""
    words = hasty("run", "--epoch", "0.3s", "--output", "run", *options, "--", job)
    folder = job.parent
    with (
        (folder / "told").open("w") as stderr,
        subprocess.Popen(wrap(words), cwd=folder, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            yield Run(process, folder / "told")
        finally:
            (folder / "go").write_text("")
    assert eventually(lambda: not our_processes())


# On the virtual board


def test_a_killed_supervisor_costs_the_script_nothing_and_the_board_is_put_back(job: Path) -> None:
    with governed(job, "--board", VIRTUAL) as run:
        tree = run.virtual_tree
        gpu = gpu_folder(tree)
        assert limits(gpu) == AT_REST
        assert eventually(lambda: is_pinned(gpu))
        run.process.kill()
        assert eventually(lambda: limits(gpu) == AT_REST, within_s=1)
        assert not has_ended(run.script)
        (job.parent / "go").write_text("")
        assert eventually(lambda: has_ended(run.script))
        assert (job.parent / "marker").read_text() == "finished"
    assert not tree.exists()


def test_after_a_kill_of_everything_the_board_can_still_be_put_back(job: Path, orin_gov) -> None:
    with governed(job, "--board", VIRTUAL, *SLOWLY) as run:
        tree = run.virtual_tree
        gpu = gpu_folder(tree)
        assert eventually(lambda: is_pinned(gpu))
        pinned = limits(gpu)
        run.warden.kill()
        run.process.kill()
        run.process.wait(20)
        assert limits(gpu) == pinned
        done = orin_gov("restore", "--root", tree)
        assert (done.returncode, done.stdout) == (0, "restored: GPU 306-1300 MHz\n")
        assert limits(gpu) == AT_REST
        assert not has_ended(run.script)


# On plain files: they outlive the run, and can be looked at when it is over


def left_pinned(root: Path, hz: int) -> None:
    """Leave a board pinned, as a run does all of whose processes were killed at once."""
    body = """
import os, signal, sys
from pathlib import Path
from orin_gov._actuator import write_range
from orin_gov.board.gpu import Range, find_gpu
from orin_gov.board.journal import begin_journal
root, hz = Path(sys.argv[1]), int(sys.argv[2])
gpu = find_gpu(root)
begin_journal(root, gpu).note(Range(hz, hz))
write_range(str(gpu.directory), hz, hz)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", body, str(root), str(hz)])
    assert done.returncode == -signal.SIGKILL
    assert limits(gpu_folder(root)) == (str(hz), str(hz))


@pytest.mark.parametrize("hz", [306_000_000, 816_000_000])
def test_what_an_earlier_run_left_is_no_cap_for_the_next(orin_gov, root: Path, hz: int) -> None:
    left_pinned(root, hz)
    done = orin_gov("run", "--root", root, "--", "true")
    assert done.returncode == 0
    assert "an earlier run was killed; the GPU is back at 306-1300 MHz" in done.stderr
    assert "governing for energy" in done.stderr
    assert limits(gpu_folder(root)) == AT_REST


def test_restore_puts_back_what_was_left_and_then_finds_nothing(orin_gov, root: Path) -> None:
    left_pinned(root, 816_000_000)
    done = orin_gov("restore", "--root", root)
    assert (done.returncode, done.stdout) == (0, "restored: GPU 306-1300 MHz\n")
    assert limits(gpu_folder(root)) == AT_REST
    before = content(root)
    done = orin_gov("restore", "--root", root)
    assert (done.returncode, done.stdout) == (0, "nothing to restore: no run was cut off\n")
    assert content(root) == before


def end_by_signal(number: signal.Signals) -> Callable[[Run], int]:
    def end(run: Run) -> int:
        run.process.send_signal(number)
        return run.process.wait(20)

    return end


ENDS: dict[str, tuple[Callable[[Run], int], int]] = {
    "end": (lambda run: run.ends(), 7),
    "exception": (lambda run: run.ends("raise"), 1),
    "SIGTERM": (end_by_signal(signal.SIGTERM), 143),
    "SIGHUP": (end_by_signal(signal.SIGHUP), 129),
    "SIGINT": (end_by_signal(signal.SIGINT), 130),
}


def test_the_board_is_as_before_after_every_end(tmp_path: Path) -> None:
    with ExitStack() as stack:
        runs = {}
        for name in ENDS:  # side by side: each takes seconds of waiting until the GPU is pinned
            root = build_tree(tmp_path / name / "board")
            stack.enter_context(following(gpu_folder(root)))
            run = governed(write_job(root.parent), "--root", root, *SLOWLY)
            runs[name] = stack.enter_context(run)
        for name, (end, code) in ENDS.items():
            gpu = gpu_folder(tmp_path / name / "board")
            assert eventually(lambda gpu=gpu: is_pinned(gpu)), name
            assert end(runs[name]) == code, name
            assert limits(gpu) == AT_REST, name
            assert not (tmp_path / name / "board/run/orin_gov/journal.json").exists()
            assert runs[name].told.count("Traceback") <= (name in ("exception", "SIGINT")), name
            summary = json.loads((tmp_path / name / "run/summary.json").read_text())
            assert summary["exit_code"] == code


def test_a_clock_that_does_not_follow_makes_us_give_the_board_back(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    with governed(job, "--root", root, *SLOWLY) as run:
        assert eventually(lambda: is_pinned(gpu))
        # One clock that does not come is closed; at a second one the board is left to itself.
        assert eventually(lambda: "-> fallback" in run.told, within_s=40)
        assert limits(gpu) == AT_REST
        assert run.ends() == 7
    assert "but the clock stays at 306 MHz; planned anew" in run.told
    assert "but the clock stays at 306 MHz; the board governs itself from here on" in run.told


def test_a_foreign_cap_is_adopted_planned_anew_within_and_kept(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    foreign = AGX_CLOCKS[3]
    with following(gpu), governed(job, "--root", root) as run:
        assert eventually(lambda: is_pinned(gpu))
        (gpu / "max_freq").write_text(str(foreign))
        assert eventually(lambda: limits(gpu) == (AT_REST[0], str(foreign)))
        # A cap that moves at run time closes points without a restart: what is asked for from now
        # on lies under it, or is the board's own governor, where none of them is better.
        seen = len(run.told.splitlines())
        assert eventually(lambda: len(run.told.splitlines()) > seen + 2)
        assert int(limits(gpu)[1]) <= foreign
        assert run.ends() == 7
    assert "another writer set" in run.told
    assert "planned anew within 306-612 MHz" in run.told
    assert limits(gpu) == (AT_REST[0], str(foreign))


def test_a_writer_that_writes_against_us_may_have_the_board(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    with following(gpu), governed(job, "--root", root) as run:
        for _ in range(4):
            assert eventually(lambda: is_pinned(gpu))
            (gpu / "max_freq").write_text(AT_REST[1])
            (gpu / "min_freq").write_text(AT_REST[0])
            assert eventually(lambda: limits(gpu) == AT_REST and not is_pinned(gpu))
        assert eventually(lambda: "-> fallback" in run.told)
        assert run.ends() == 7
    assert "again and again; the board governs itself from here on" in run.told
    assert limits(gpu) == AT_REST


def test_a_gpu_that_appears_late_is_governed_from_then_on(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    node = root / "sys/class/devfreq/17000000.gpu"
    target = node.readlink()
    node.unlink()
    with governed(job, "--root", root) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        node.symlink_to(target)
        with following(gpu):
            assert eventually(lambda: is_pinned(gpu))
            assert run.ends() == 7
    assert "s after the start and is governed from then on" in run.told
    assert limits(gpu) == AT_REST
    assert not (root / "run/orin_gov/journal.json").exists()
    manifest = json.loads((job.parent / "run/manifest.json").read_text())
    assert manifest["governing"]
    assert manifest["table_hz"] == list(AGX_CLOCKS)


def test_a_late_gpu_whose_clock_hangs_is_put_back_while_the_script_runs(
    job: Path, root: Path
) -> None:
    gpu = gpu_folder(root)
    node = root / "sys/class/devfreq/17000000.gpu"
    target = node.readlink()
    node.unlink()
    with governed(job, "--root", root, *SLOWLY, wrap=impatient) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        node.symlink_to(target)
        assert eventually(lambda: is_pinned(gpu))
        (gpu / "cur_freq").unlink()
        os.mkfifo(gpu / "cur_freq")
        assert eventually(lambda: "hangs in a file of the board" in run.told)
        assert eventually(lambda: limits(gpu) == AT_REST, within_s=20)
        assert run.ends() == 7


def test_a_killed_run_that_governs_a_late_gpu_leaves_it_as_found(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    node = root / "sys/class/devfreq/17000000.gpu"
    target = node.readlink()
    node.unlink()
    with governed(job, "--root", root) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        node.symlink_to(target)
        with following(gpu):
            assert eventually(lambda: is_pinned(gpu))
            run.process.kill()
            assert eventually(lambda: limits(gpu) == AT_REST)


def samples(root: Path) -> set[str]:
    return {file.read_text().strip() for file in root.glob("sys/devices/**/samples")}


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "board", replace(AGX_JP6, samples=512))


def test_fast_sensors_average_nothing_during_the_run_and_as_before_after_it(
    job: Path, slow: Path
) -> None:
    with following(gpu_folder(slow)), governed(job, "--root", slow, "--fast-sensors") as run:
        assert eventually(lambda: samples(slow) == {"1"})
        assert eventually(lambda: is_pinned(gpu_folder(slow)))
        assert run.ends() == 7
    assert samples(slow) == {"512"}
    assert "phases cannot be told apart" not in run.told
    manifest = json.loads((job.parent / "run/manifest.json").read_text())
    assert manifest["fast_sensors"] is True
    assert manifest["time_constant_s"] < 0.01


def test_without_fast_sensors_slow_ones_widen_the_epoch_and_it_is_said(
    job: Path, slow: Path
) -> None:
    before = content(slow)
    with governed(job, "--root", slow) as run:
        assert eventually(lambda: "phases cannot be told apart" in run.told)
        assert run.ends() == 7
    assert (
        "a decision epoch lasts 10 s or more; to change that for a run: --fast-sensors" in run.told
    )
    assert content(slow) == before
    summary = json.loads((job.parent / "run/summary.json").read_text())
    assert summary["sampler"]["resolves_phases"] is False
    assert summary["sampler"]["averaging"] == 512


def test_after_a_kill_of_everything_fast_sensors_are_put_back_too(
    job: Path, slow: Path, orin_gov
) -> None:
    with following(gpu_folder(slow)), governed(job, "--root", slow, "--fast-sensors") as run:
        assert eventually(lambda: samples(slow) == {"1"})
        run.warden.kill()
        run.process.kill()
        run.process.wait(20)
        assert samples(slow) == {"1"}
        assert orin_gov("restore", "--root", slow).returncode == 0
        assert samples(slow) == {"512"}


def test_sensors_that_may_not_be_changed_are_left_and_the_run_goes_on(
    job: Path, slow: Path
) -> None:
    for file in slow.glob("sys/devices/**/samples"):
        file.chmod(0o444)
    gpu = gpu_folder(slow)
    with governed(job, "--root", slow, "--fast-sensors", wrap=without_rights) as run:
        assert eventually(lambda: "--fast-sensors: cannot write" in run.told)
        assert run.ends() == 7
    assert samples(slow) == {"512"}
    assert limits(gpu) == AT_REST


def test_a_board_without_a_total_is_measured_by_rail(job: Path, tmp_path: Path) -> None:
    root = plant(tmp_path / "unknown", "unknown-jp7")
    before = content(root)
    with governed(job, "--root", root) as run:
        assert eventually(lambda: "epoch 1 " in run.told)
        assert run.ends() == 7
    assert "module's power is not known" in run.told
    assert content(root) == before
    decisions = (job.parent / "run/decisions.jsonl").read_text().splitlines()
    measured = json.loads(decisions[1])["measured"]
    assert measured["energy_j"] is None
    assert measured["rail_energy_j"]["VDD_IN"] > 0
    manifest = json.loads((job.parent / "run/manifest.json").read_text())
    assert manifest["total_rails"] is None


def impatient(words: list[str]) -> list[str]:
    """Have the engine given up once it has hung for a third as long."""
    return [*words[:2], IMPATIENT + words[2], *words[3:]]


def test_a_clock_that_hangs_stops_neither_the_script_nor_its_end(job: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    with governed(job, "--root", root, *SLOWLY, wrap=impatient) as run:
        assert eventually(lambda: is_pinned(gpu))
        (gpu / "cur_freq").unlink()
        os.mkfifo(gpu / "cur_freq")
        assert eventually(lambda: "hangs in a file of the board" in run.told, within_s=40)
        assert eventually(lambda: limits(gpu) == AT_REST)
        assert run.ends() == 7
    assert not (root / "run/orin_gov/journal.json").exists()


def test_a_board_that_cannot_be_put_back_does_not_cost_the_exit_code(
    job: Path, root: Path, orin_gov
) -> None:
    gpu = gpu_folder(root)
    with following(gpu), governed(job, "--root", root, *SLOWLY, wrap=without_rights) as run:
        assert eventually(lambda: is_pinned(gpu))
        for name in ("min_freq", "max_freq"):
            (gpu / name).chmod(0o444)
        assert run.ends() == 7
    assert "make it writable again, then: orin-gov restore" in run.told
    assert is_pinned(gpu)
    for name in ("min_freq", "max_freq"):
        (gpu / name).chmod(0o644)
    assert orin_gov("restore", "--root", root).returncode == 0
    assert limits(gpu) == AT_REST


def test_a_dry_run_decides_and_writes_nothing(job: Path, root: Path) -> None:
    before = content(root)
    with governed(job, "--root", root, "--dry-run") as run:
        assert eventually(lambda: "-> advise" in run.told)
        assert run.ends() == 7
    assert "measuring only, nothing is written" in run.told
    assert content(root) == before


def test_a_second_governor_is_refused_and_the_first_runs_on(
    job: Path, root: Path, orin_gov
) -> None:
    with following(gpu_folder(root)), governed(job, "--root", root) as run:
        for words in (
            ["run", "--root", root, "--output", "second", "--", "touch", "ran"],
            ["run", "--strict", "--root", root, "--output", "second", "--", "touch", "ran"],
        ):
            done = orin_gov(*words)
            assert done.returncode == 125
            assert done.stderr.splitlines() == [
                "orin-gov error: another orin-gov governs 17000000.gpu; wait for it or stop it"
            ]
        # One that writes nothing may watch.
        done = orin_gov("run", "--root", root, "--dry-run", "--output", "third", "--", "true")
        assert done.returncode == 0, done.stderr
        assert run.ends() == 7
    assert not (job.parent / "ran").exists()
    assert not (job.parent / "second").exists()


def test_a_run_that_is_refused_leaves_no_directory(root: Path, orin_gov, tmp_path: Path) -> None:
    gpu = open_board(root).gpu
    assert gpu is not None
    with exclusive(gpu):  # as one that ends: the board is back already, its lock is still held
        done = orin_gov("run", "--root", root, "--output", tmp_path / "run", "--", "true")
    assert done.returncode == 125
    assert "another orin-gov governs" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words", [("--policy", "bad.json", "--output", "run"), ("--output", "taken")]
)
def test_what_is_refused_has_not_touched_the_board(
    slow: Path, orin_gov, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Neither for a moment: `content` tells when each file was written last."""
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "taken").mkdir()
    before, files = content(slow), sorted(tmp_path.glob("*"))
    done = orin_gov("run", "--root", slow, "--fast-sensors", *words, "--", "touch", "ran")
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 1
    assert content(slow) == before
    assert sorted(tmp_path.glob("*")) == files
    assert not [*(tmp_path / "taken").iterdir()]


# Where there is nothing to govern with: the script runs on, unless --strict


def read_only(root: Path) -> None:
    for name in ("min_freq", "max_freq"):
        (gpu_folder(root) / name).chmod(0o444)


def one_clock(root: Path) -> None:
    (gpu_folder(root) / "available_frequencies").write_text("306000000\n")


def capped(root: Path) -> None:
    (gpu_folder(root) / "max_freq").write_text("306000000\n")


def no_gpu(root: Path) -> None:
    (root / "sys/class/devfreq" / AGX_JP6.gpu).unlink()


OBSTACLES = (
    (read_only, "sudo orin-gov setup --group video"),
    (one_clock, "available_frequencies holds '306000000', a governor needs at least 2"),
    (capped, "the board's cap of 306 MHz leaves no choice of GPU clocks"),
    (no_gpu, "no GPU under /sys/class/devfreq"),
)


def test_where_there_is_nothing_to_govern_with_one_line_says_so(tmp_path: Path) -> None:
    side_by_side(
        *(partial(check_told, tmp_path / spoil.__name__, spoil, says) for spoil, says in OBSTACLES)
    )


def check_told(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    """Run on a spoiled board, which is refused with --strict, and otherwise not governed."""
    root = build_tree(folder / "board")
    spoil(root)
    before = content(root)

    def run(*options: str) -> "subprocess.CompletedProcess[str]":
        words = command("run", *options, "--root", root, "-o", "run", "--", "sh", "-c")
        return subprocess.run(
            without_rights([*words, "touch ran; exit 7"]),
            cwd=folder,
            capture_output=True,
            text=True,
        )

    strict = run("--strict")
    assert strict.returncode == 125
    assert not (folder / "ran").exists()
    assert not (folder / "run").exists()
    assert len(strict.stderr.splitlines()) == 1
    assert strict.stderr.startswith("orin-gov error: ")
    assert says in strict.stderr

    done = run()
    assert done.returncode == 7
    assert (folder / "ran").exists()
    (warning,) = (line for line in done.stderr.splitlines() if "warning" in line)
    assert says in warning
    awaited = "governed once it appears" if spoil is no_gpu else "measured but not governed"
    assert warning.endswith(f"the script runs on, {awaited}")
    assert content(root) == before
