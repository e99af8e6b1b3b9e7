"""How long a frequency change takes, from the decision on.

On the kernel rig (`make test-kernel` builds it): the devfreq core of a real kernel, and a plant
that takes 5 ms for a change, as an Orin Nano does. Without the rig it is a virtual board's server,
which sees a write at its next tick of 2 ms. `issue` is from the decision to the first write,
`written` to the return of both writes, `achieved` to the first reading of the new clock.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench._figures import Figure, parser, publish
from orin_gov._actuator import Actuator, Transition
from orin_gov.board.gpu import Gpu, find_gpu
from orin_gov.virtual.launch import VirtualBoard
from orin_gov.workload.ring import make_ring

ROOT = Path(__file__).parents[1]
RIG = ROOT / ".kernel"
IN_RIG = Path("/sys/module/orin_sim")
SEED = 20260707
PAUSE_S = 0.02
"""Between two decisions: at least as long as a governor's epoch keeps the actuator asleep."""


def transitions(gpu: Gpu, count: int) -> list[Transition]:
    """Change to another clock of the table `count` times, and put the limits back."""
    rng = random.Random(SEED)
    found = gpu.read_range()
    actuator = Actuator(str(gpu.directory), gpu.table_hz)
    actuator.start()
    current_hz = 0
    for _ in range(count):
        current_hz = rng.choice([hz for hz in gpu.table_hz if hz != current_hz])
        actuator.request(current_hz, current_hz)
        while actuator.pending:
            time.sleep(0.002)
        time.sleep(PAUSE_S)
    actuator.request(found.min_hz, found.max_hz)
    actuator.stop()
    return actuator.drain()[:count]


def figures(changes: Sequence[Transition]) -> list[Figure]:
    """Return the quantiles of each part's time."""
    begun_us = [(each.begun_ns - each.requested_ns) / 1e3 for each in changes]
    written_ms = [(each.issued_ns - each.requested_ns) / 1e6 for each in changes]
    achieved_ms = [
        (each.achieved_ns - each.requested_ns) / 1e6
        for each in changes
        if each.achieved_ns is not None
    ]
    return [
        *_quantiles("issue", begun_us, "us"),
        *_quantiles("written", written_ms, "ms"),
        *_quantiles("achieved", achieved_ms, "ms"),
        Figure("achieved_percent", 100 * len(achieved_ms) / len(changes), "%", len(changes)),
    ]


def _quantiles(name: str, values: Sequence[float], unit: str) -> list[Figure]:
    return [
        Figure(
            f"{name}_p{percent}_{unit}", float(np.percentile(values, percent)), unit, len(values)
        )
        for percent in (50, 99)
    ]


def measure_here(root: Path, count: int) -> list[Figure]:
    """Measure on the board under `root`."""
    gpu = find_gpu(root)
    assert gpu is not None
    return figures(transitions(gpu, count))


def measure_in_rig(count: int) -> list[Figure]:
    """Run this bench inside the rig and return its figures."""
    words = [sys.executable, "-m", "bench.actuator", "--json", "--count", str(count)]
    rig = [str(ROOT / "tests/kernel/run.sh"), str(RIG), "--", *words]
    done = subprocess.run(rig, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])["figures"]
    return [Figure(**{key: row[key] for key in row if key != "ok"}) for row in rows]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--count", type=int, default=300, help="of changes")
    options = arguments.parse_args()
    if IN_RIG.exists():
        return publish("actuator", "rig", measure_here(Path("/"), options.count), options.json)
    if (RIG / "orin_sim.ko").exists():
        board = "the rig: devfreq of Linux 6.1, a change takes 5 ms"
        return publish("actuator", board, measure_in_rig(options.count), options.json)
    with VirtualBoard.start("agx-orin-64gb", make_ring()) as virtual:
        made = measure_here(virtual.root, options.count)
    return publish("actuator", "virtual board agx-orin-64gb", made, options.json)


if __name__ == "__main__":
    sys.exit(main())
