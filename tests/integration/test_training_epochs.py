"""A decision epoch ends with the training epoch at the latest, through the whole of a run."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, VIRTUAL

STEPS, EPOCHS = 12, 3

LOOP = f"""
import time, orin_gov
with orin_gov.Governor(board={VIRTUAL!r}, epoch="1000", output="run") as governor:
    for epoch in range({EPOCHS}):
        for batch in governor.steps(range({STEPS})):
            for phase in ("forward", "backward", "optimizer"):
                with governor.phase(phase):
                    time.sleep(0.05)
        with governor.phase("eval"):
            time.sleep(0.2)
"""


def test_a_decision_epoch_ends_with_a_training_epoch(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=120,
    )
    lines = (tmp_path / "run" / "decisions.jsonl").read_text().splitlines()
    steps = [json.loads(line)["measured"]["steps"] for line in lines]
    # Where the clock changes, the step under way is in no window.
    assert len(steps) == EPOCHS
    assert all(STEPS - 2 <= each <= STEPS for each in steps), steps
