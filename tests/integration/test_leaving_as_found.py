"""The board is left as it was found, however a run ends: real runs, real signals, real files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import VIRTUAL, without_rights
from governed import AT_REST, SLOWLY, Run, governed, impatient
from jobs import write_job
from trees import (
    build_tree,
    content,
    eventually,
    following,
    gpu_folder,
    has_ended,
    is_pinned,
    limits,
)


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
