"""A script whose end a test decides on."""

import sys
from pathlib import Path

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
