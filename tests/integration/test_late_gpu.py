"""A GPU that is not there at the start: it is governed once it appears, and left as found."""

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from governed import AT_REST, SLOWLY, governed, impatient
from trees import AGX_CLOCKS, eventually, following, gpu_folder, is_pinned, limits

Late = tuple[Path, Callable[[], None]]


@pytest.fixture
def late(root: Path) -> Late:
    """Take the GPU away; return its folder, and what has it appear."""
    gpu, node = gpu_folder(root), root / "sys/class/devfreq/17000000.gpu"
    target = node.readlink()
    node.unlink()
    return gpu, functools.partial(node.symlink_to, target)


def test_a_gpu_that_appears_late_is_governed_from_then_on(
    job: Path, root: Path, late: Late
) -> None:
    gpu, appear = late
    with governed(job, "--root", root) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        appear()
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
    job: Path, root: Path, late: Late
) -> None:
    gpu, appear = late
    with governed(job, "--root", root, *SLOWLY, wrap=impatient) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        appear()
        assert eventually(lambda: is_pinned(gpu))
        (gpu / "cur_freq").unlink()
        os.mkfifo(gpu / "cur_freq")
        assert eventually(lambda: "hangs in a file of the board" in run.told)
        assert eventually(lambda: limits(gpu) == AT_REST, within_s=20)
        assert run.ends() == 7


def test_a_killed_run_that_governs_a_late_gpu_leaves_it_as_found(
    job: Path, root: Path, late: Late
) -> None:
    gpu, appear = late
    with governed(job, "--root", root) as run:
        assert eventually(lambda: "governed once it appears" in run.told)
        appear()
        with following(gpu):
            assert eventually(lambda: is_pinned(gpu))
            run.process.kill()
            assert eventually(lambda: limits(gpu) == AT_REST)
