"""Sensors that average: switched off for a run where that is asked for, and put back."""

import json
from pathlib import Path

from conftest import without_rights
from governed import AT_REST, governed
from trees import (
    content,
    eventually,
    following,
    gpu_folder,
    is_pinned,
    limits,
    plant,
)


def samples(root: Path) -> set[str]:
    return {file.read_text().strip() for file in root.glob("sys/devices/**/samples")}


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
