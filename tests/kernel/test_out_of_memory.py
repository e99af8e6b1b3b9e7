"""Where memory runs out, the kernel kills whom it likes; the board is put back whoever that is."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rig import DEVICE, LOW_HZ, TOP_HZ, eventually, limits, write
from trees import has_ended

SIGKILLED = -9
SCRIPT = f"echo 1000 > {DEVICE}/sim_demand; exec sleep 30"
"""Demand for as long as the run lasts: it is governed by its load."""


def kill_for_memory(victim: psutil.Process) -> None:
    """Have the kernel's own out-of-memory killer run once, and prefer this process."""
    write(Path(f"/proc/{victim.pid}/oom_score_adj"), 1000)
    write(Path("/proc/sysrq-trigger"), "f")


@pytest.mark.parametrize(
    ("victim", "code"), [("supervisor", SIGKILLED), ("warden", 0), ("script", 128 + 9)]
)
def test_after_an_out_of_memory_kill_the_board_is_as_it_was(
    tmp_path: Path, victim: str, code: int
) -> None:
    words = ["run", "--epoch", "1s", "-o", str(tmp_path / "run"), "--", "/bin/sh", "-c", SCRIPT]
    with subprocess.Popen([sys.executable, "-m", "orin_gov", *words]) as run:
        assert eventually(lambda: limits() != (LOW_HZ, TOP_HZ)), "nothing was set"
        supervisor = psutil.Process(run.pid)
        children = {each.name(): each for each in supervisor.children()}
        processes = {"supervisor": supervisor, "script": children.pop("sleep")}
        (processes["warden"],) = children.values()
        kill_for_memory(processes[victim])
        assert eventually(lambda: has_ended(processes[victim])), "it was not killed"
        assert run.wait(timeout=120) == code
        assert eventually(lambda: limits() == (LOW_HZ, TOP_HZ)), limits()
