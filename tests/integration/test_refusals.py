"""Where nothing may be written, or a run is refused: one line says so, and nothing is touched."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from conftest import command, side_by_side, without_rights
from governed import governed
from trees import (
    AGX_JP6,
    build_tree,
    content,
    eventually,
    gpu_folder,
)

from orin_gov.board.lock import exclusive
from orin_gov.board.probe import open_board


def test_a_dry_run_decides_and_writes_nothing(job: Path, root: Path) -> None:
    before = content(root)
    with governed(job, "--root", root, "--dry-run") as run:
        assert eventually(lambda: "-> advise" in run.told)
        assert run.ends() == 7
    assert "measuring only, nothing is written" in run.told
    assert content(root) == before


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
