"""A disk that runs full costs the record of a run, never the script, its exit code or the board."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import command
from test_leaving_as_found import AT_REST, SLOWLY, governed, write_job
from trees import build_tree, eventually, following, gpu_folder, is_pinned, limits

from orin_gov.record.run import read_run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], capture_output=True
    )
    if done.returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield place
    subprocess.run(["umount", place], check=True)


def fill(place: Path) -> None:
    """Leave no room for a single byte."""
    with (place / "filling").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert os.statvfs(place).f_bavail == 0


@pytest.mark.parametrize("journal", ["on the full disk", "elsewhere"])
def test_on_a_full_disk_the_script_ends_as_ever_and_the_board_is_put_back(
    tmp_path: Path, small_disk: Path, journal: str
) -> None:
    root = build_tree(tmp_path / "board")
    if journal == "on the full disk":
        (root / "run").rmdir()
        (root / "run").symlink_to(small_disk)
    gpu = gpu_folder(root)
    job = write_job(tmp_path)
    words = ("--root", root, "--output", small_disk / "run", *SLOWLY)
    with following(gpu), governed(job, *words) as run:
        assert eventually(lambda: is_pinned(gpu))
        fill(small_disk)
        before = run.told.count("epoch ")
        assert eventually(lambda: run.told.count("epoch ") >= before + 2)  # it goes on
        if journal == "elsewhere":
            assert "governs itself" not in run.told
            assert eventually(lambda: is_pinned(gpu))  # after at most a window of the baseline
        assert run.ends() == 7
    assert limits(gpu) == AT_REST
    assert "No space left on device; the record of this run ends here" in run.told
    assert "Traceback" not in run.told
    assert not [*tmp_path.glob("**/journal.*")]
    record = read_run(small_disk / "run")
    assert record.summary is None
    epochs = [each["epoch"] for each in record.decisions]
    assert epochs == [*range(len(epochs))] != []
    assert not [note for note in record.notes if "decisions.jsonl" in note]


@pytest.mark.parametrize("moment", ["at once", "pinned"])
def test_what_cannot_be_written_any_more_costs_no_exit_code(tmp_path: Path, moment: str) -> None:
    """Where no disk can be mounted: a limit on the size of files says EFBIG in ENOSPC's place."""
    root = build_tree(tmp_path / "board")
    gpu = gpu_folder(root)
    with following(gpu), governed(write_job(tmp_path), "--root", root) as run:
        if moment == "pinned":
            assert eventually(lambda: is_pinned(gpu))
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (64, 64))
        assert run.ends() == 7
    assert limits(gpu) == AT_REST
    assert not (tmp_path / "run/summary.json").exists() or not (
        tmp_path / "run/summary.json"
    ).read_text().endswith("}\n")


@pytest.mark.parametrize("stderr", ["full", "closed pipe"])
def test_what_cannot_be_said_costs_neither_the_script_nor_its_exit_code(
    tmp_path: Path, stderr: str
) -> None:
    root = build_tree(tmp_path / "board")
    if stderr == "full":
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, target = os.pipe()
        os.close(reader)
    words = ["run", "--root", root, "--epoch", "0.2s", "--", "sh", "-c", "sleep 2.5; exit 7"]
    done = subprocess.run(command(*words), cwd=tmp_path, stderr=target, timeout=60)
    os.close(target)
    assert done.returncode == 7
    assert limits(gpu_folder(root)) == AT_REST
    (summary,) = tmp_path.glob("orin_gov_runs/*/summary.json")
    assert summary.read_text().endswith("}\n")


@pytest.mark.parametrize("moment", ["at once", "written"])
def test_a_present_moment_that_cannot_be_written_or_removed_costs_nothing(
    tmp_path: Path, moment: str
) -> None:
    root = build_tree(tmp_path / "board")
    wait = "until [ -s run/live.json ]; do sleep 0.05; done; " if moment == "written" else ""
    body = f"{wait}rm -f run/live.json; mkdir run/live.json; sleep 1; exit 7"
    words = command("run", "--root", root, "--output", "run", "--", "sh", "-c", body)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7
    assert "Traceback" not in done.stderr
    assert read_run(tmp_path / "run").summary is not None
