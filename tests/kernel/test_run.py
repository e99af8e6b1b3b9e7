"""Whole runs of `orin-gov run` on the rig: a small job whose speed and power follow the clock."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rig import DEVICE, LOW_HZ, NODE, PARAMETERS, TOP_HZ, limits

# The job plays the GPU's user: each step asks the plant for work and takes as long as the clock
# makes it. A part of a step is the host's.
JOB = f"""
import sys, time
node, device = {str(NODE)!r}, {str(DEVICE)!r}
for step in range(int(sys.argv[1])):
    with open(device + "/sim_demand", "w") as demand:
        demand.write("1000")
    left = 0.050
    while left > 0:
        with open(node + "/cur_freq") as clock:
            speed = int(clock.read()) / {TOP_HZ}
        slice_s = min(0.010, left / speed)
        time.sleep(slice_s)
        left -= slice_s * speed
    with open(device + "/sim_demand", "w") as demand:
        demand.write("0")
    time.sleep(0.050)
sys.exit(7)
"""


def run(folder: Path, steps: int, *options: str) -> tuple[int, dict[str, object], list[dict]]:
    """Run the job; return its exit code, the summary and the decisions."""
    (folder / "job.py").write_text(JOB)
    output = folder / "run"
    words = ["run", "--epoch", "2s", "-o", str(output), *options, "--", "/bin/sh", "-c"]
    shell = f"exec {sys.executable} {folder / 'job.py'} {steps}"
    done = subprocess.run(
        [sys.executable, "-m", "orin_gov", *words, shell], timeout=900, stderr=subprocess.PIPE
    )
    summary = json.loads((output / "summary.json").read_text())
    lines = (output / "decisions.jsonl").read_text().splitlines()
    assert done.returncode == summary["exit_code"], done.stderr.decode()
    return done.returncode, summary, [json.loads(line) for line in lines]


@pytest.mark.timeout(3600)
def test_a_job_is_governed_and_the_board_left_as_it_was(tmp_path: Path) -> None:
    code, summary, decisions = run(tmp_path, 900, "--max-slowdown", "50%")
    assert code == 7
    assert limits() == (LOW_HZ, TOP_HZ)
    targets = {each["measured"]["target_hz"] for each in decisions} - {None}
    assert targets, "something was decided"
    assert all(LOW_HZ <= target <= TOP_HZ for target in targets)
    for each in decisions:
        measured = each["measured"]
        if measured["target_hz"]:
            assert measured["clock_hz"] == measured["target_hz"], "what was asked for ran"
    assert summary["frequency_changes"] >= 2
    assert summary["warnings"] == []
    rails = summary["sampler"]["rails"]
    assert all(rail["errors"] == 0 and rail["reads"] > 1000 for rail in rails.values())


@pytest.mark.timeout(3600)
def test_a_sensor_that_hangs_for_good_stops_neither_the_job_nor_its_end(tmp_path: Path) -> None:
    (tmp_path / "hang.sh").write_text(
        f"sleep 5; echo 1 > {PARAMETERS}/i2c_hang; exec {sys.executable} -c 'print(42)'"
    )
    words = ["run", "-o", str(tmp_path / "run"), "--", "/bin/sh", str(tmp_path / "hang.sh")]
    done = subprocess.run(
        [sys.executable, "-m", "orin_gov", *words],
        timeout=600,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "42\n"
    assert limits() == (LOW_HZ, TOP_HZ)
