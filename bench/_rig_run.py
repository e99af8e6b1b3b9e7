"""A whole governed run on the kernel rig (tests/kernel), its loops slower so that a day is short.

`python -m bench._rig_run DIRECTORY SECONDS` is the supervisor; `... RING SECONDS job` its job,
which marks phases as the hooks do, asks the rig's plant for work and takes as long as the clock
makes it. Nothing is left out of the run but torch and the live view.
"""

import subprocess
import sys
import time
from pathlib import Path

from orin_gov import engine, governed_run, observer, signals, supervisor
from orin_gov._phases import PhaseRing
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from orin_gov.settings import Settings
from orin_gov.workload.ring import make_ring

NODE = Path("/sys/class/devfreq/17000000.gpu")
DEMAND = Path("/sys/devices/platform/17000000.gpu/sim_demand")
TOP_HZ = 1_300_500_000
SAMPLE_PERIOD_NS = 500_000_000
STEP = ((DATA, 0.2, 0), (FORWARD, 0.6, 1000), (BACKWARD, 1.2, 1000), (OPTIMIZER, 0.4, 600))
"""Phases of a step: their seconds at the top clock, and what they ask of the GPU in permille."""


def govern(path: Path, seconds: str) -> int:
    """Run the job under a supervisor whose clocks tick slowly; return the exit code."""
    governed_run.SAMPLE_PERIOD_NS, governed_run.GAP_NS = SAMPLE_PERIOD_NS, 5 * SAMPLE_PERIOD_NS
    engine.TICK_S, observer.FILE_PERIOD_S, signals.LOOK_S = 1.0, 10.0, 5.0
    ring = make_ring()
    return supervisor.supervise(
        Settings(output=path),
        "a job of the rig",
        True,
        lambda ring: subprocess.Popen(
            [sys.executable, "-m", "bench._rig_run", str(ring), seconds, "job"], pass_fds=[ring]
        ),
        ring,
    )


def work(ring: PhaseRing, seconds: float) -> None:
    """Take steps until so many seconds are over."""
    ring.claim()
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for phase, length_s, demand in STEP:
            ring.mark(phase)
            DEMAND.write_text(f"{demand}\n")
            speed = int((NODE / "cur_freq").read_text()) / TOP_HZ if demand else 1.0
            time.sleep(length_s / speed)
        ring.step(8.0)
    DEMAND.write_text("0\n")


if __name__ == "__main__":
    if sys.argv[3:] == ["job"]:
        work(PhaseRing(int(sys.argv[1])), float(sys.argv[2]))
    else:
        sys.exit(govern(Path(sys.argv[1]), sys.argv[2]))
