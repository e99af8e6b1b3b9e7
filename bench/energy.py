"""How true the measured energy is, against the plant's own: in all, and phase by phase.

A load rich in phases runs on the rails of a virtual AGX Orin, which show what an INA3221 would: a
mean over each conversion (6.6 ms), in steps of the shunt's resolution (20 mA), with noise. The
product's sampler reads them and its timeline gives the energy of each phase. In the same run a
program reads the same files ten times a second, as is common, and gets its energy from a rectangle
for each reading, and from mean power times time.

Figures of phases are of those that last 100 ms or longer: the worst phase's error of its energy in
all. The truth is the integral that the plant keeps, taken at the very edges of the phases.
"""

import os
import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench._figures import Figure, parser, publish
from orin_gov._sampler import Sampler
from orin_gov.energy import CYCLE_NS, EnergyTimeline
from orin_gov.governed_run import GAP_NS, SAMPLE_PERIOD_NS, VOLTAGE_EVERY
from orin_gov.phases import PHASES
from orin_gov.virtual.ina3221 import Rails
from orin_gov.virtual.plant import BoardModel, load_board
from orin_gov.virtual.tree import build_tree, rail_files

SEED = 20260707
LONG_NS = 100_000_000
POLL_S = 0.1
LEAD_NS = 300_000_000
"""The load begins so long after the plant, and ends so long before it."""

STEP_MS = {
    "data": (3, 30),
    "forward": (100, 220),
    "backward": (150, 300),
    "optimizer": (10, 110),
}
BETWEEN_STEPS_MS = {"eval": (100, 250), "checkpoint": (100, 160), "idle": (100, 130)}
STEPS_BETWEEN = 3

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """The phases of a load: their code and span (ns, CLOCK_MONOTONIC), one after the other."""

    phases: list[int]
    edges_ns: npt.NDArray[np.int64]

    @property
    def spans_ns(self) -> npt.NDArray[np.int64]:
        """The spans of the phases, shape [n, 2]."""
        return np.stack([self.edges_ns[:-1], self.edges_ns[1:]], axis=1)


def make_load(seconds: float, begin_ns: int) -> Load:
    """Return steps of data, forward, backward and optimizer, with other phases between them."""
    rng = random.Random(SEED)
    phases: list[int] = []
    edges_ns = [begin_ns]
    steps = 0
    while edges_ns[-1] - begin_ns < seconds * 1e9:
        steps += 1
        parts = STEP_MS | (BETWEEN_STEPS_MS if steps % STEPS_BETWEEN == 0 else {})
        for phase, (least_ms, most_ms) in parts.items():
            phases.append(PHASES.index(phase))
            edges_ns.append(edges_ns[-1] + round(rng.uniform(least_ms, most_ms) * 1e6))
    return Load(phases, np.array(edges_ns))


class Plant(threading.Thread):
    """Plays the load on the board's rails at the top clock; `truth_j` is each phase's energy."""

    def __init__(self, board: BoardModel, root: Path, load: Load) -> None:
        super().__init__()
        self._begin_ns = time.monotonic_ns()
        self._rails = Rails(board, root, random.Random(SEED), self._begin_ns)
        self._board, self._load = board, load
        self._labels = [rail.label for rail in board.module_rails]
        self.truth_j = np.zeros(len(load.phases))
        self.late_ns: list[int] = []

    def run(self) -> None:
        """Show each conversion when it ends; what it shows does not depend on when we wake."""
        # A chip is never late. Where this is not allowed, `plant_late_p99_us` tells what it cost.
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        idle = PHASES.index("idle")
        phases = [idle, *self._load.phases, idle]
        laws = [self._board.laws[PHASES[phase]] for phase in phases]
        powers = [self._board.rail_power_w(law, self._board.top_hz) for law in laws]
        end_ns = int(self._load.edges_ns[-1]) + LEAD_NS
        edges_ns = [*self._load.edges_ns.tolist(), end_ns]
        now_ns, current, begin_j = self._begin_ns, 0, 0.0
        while now_ns < end_ns:
            next_ns = min(edges_ns[current], self._rails.due_ns)
            self._rails.add((next_ns - now_ns) * 1e-9, powers[current])
            now_ns = next_ns
            if now_ns == edges_ns[current]:
                module_j = sum(self._rails.energy_j[label] for label in self._labels)
                if 0 < current <= len(self.truth_j):
                    self.truth_j[current - 1] = module_j - begin_j
                begin_j = module_j
                current += 1
            if now_ns >= self._rails.due_ns:
                time.sleep(max(0, now_ns - time.monotonic_ns()) * 1e-9)
                self._rails.convert(now_ns)
                self.late_ns.append(time.monotonic_ns() - now_ns)


class Poller(threading.Thread):
    """The common way: each rail's files opened and read ten times a second."""

    def __init__(self, files: list[tuple[Path, Path]]) -> None:
        super().__init__()
        self._files = files
        self.t_ns: list[int] = []
        self.power_w: list[float] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Poll until done."""
        while not self.done.wait(POLL_S):
            self.t_ns.append(time.monotonic_ns())
            self.power_w.append(
                sum(int(v.read_text()) * int(i.read_text()) * 1e-6 for v, i in self._files)
            )

    def rectangles(self, load: Load) -> Floats:
        """Return the joules of each phase if each reading holds until the next."""
        joules = np.concatenate([[0.0], np.cumsum(self.power_w[:-1] * np.diff(self.t_ns) * 1e-9)])
        return np.diff(np.interp(load.edges_ns, self.t_ns, joules))

    def mean_times_time(self, load: Load) -> Floats:
        """Return the joules of each phase as the mean power of the run times its time."""
        t_ns = np.array(self.t_ns)
        within = (t_ns >= load.edges_ns[0]) & (t_ns < load.edges_ns[-1])
        return np.diff(load.edges_ns) * 1e-9 * np.mean(np.array(self.power_w)[within])


def measure(board: BoardModel, root: Path, seconds: float) -> tuple[Load, Plant, Floats, Poller]:
    """Run the load; return it, the plant, each phase's measured energy (J), and the poller."""
    load = make_load(seconds, time.monotonic_ns() + LEAD_NS)
    files = [rail_files(rail, root) for rail in board.module_rails]
    plant, poller = Plant(board, root, load), Poller(files)
    sampler = Sampler(
        [(str(v), str(i)) for v, i in files], SAMPLE_PERIOD_NS, GAP_NS, 8192, VOLTAGE_EVERY
    )
    timeline = EnergyTimeline(tuple(rail.label for rail in board.module_rails), CYCLE_NS)
    measured: list[Floats] = []
    for thread in (sampler, plant, poller):
        thread.start()
    while plant.is_alive():
        plant.join(1.0)
        timeline.append(sampler.drain())
        # As in a run: phases are measured while the timeline still has them.
        due = load.spans_ns[len(measured) :]
        due = due[due[:, 1] <= (timeline.covered_until_ns or 0)]
        measured.extend(timeline.between(due).sum(axis=1))
    poller.done.set()
    sampler.stop()
    return load, plant, np.array(measured), poller


def errors(load: Load, truth_j: Floats, joules: Floats) -> tuple[float, dict[str, float], Floats]:
    """Return in percent: the total's error, that of each phase's sum, and of each single phase."""
    long = np.diff(load.edges_ns) >= LONG_NS
    phases = np.array(load.phases)
    by_phase = {}
    for code in sorted(set(phases[long].tolist())):
        of_code = long & (phases == code)
        by_phase[PHASES[code]] = 100 * (joules[of_code].sum() / truth_j[of_code].sum() - 1)
    total = 100 * (joules.sum() / truth_j.sum() - 1)
    return float(total), by_phase, np.abs(100 * (joules[long] / truth_j[long] - 1))


def figures(load: Load, plant: Plant, joules: Floats, poller: Poller) -> list[Figure]:
    """Compare all three with the truth."""
    truth_j = plant.truth_j
    total, by_phase, single = errors(load, truth_j, joules)
    n = len(single)
    made = [
        Figure("total_error_percent", abs(total), "%", 1, None, "<= 0.5"),
        Figure("phase_error_percent_worst", _worst(by_phase), "%", n, None, "<= 2"),
        Figure("single_phase_error_percent_p95", float(np.quantile(single, 0.95)), "%", n),
    ]
    for name, theirs in (
        ("rectangle_10hz", poller.rectangles(load)),
        ("mean_power_times_time", poller.mean_times_time(load)),
    ):
        total, by_phase, _ = errors(load, truth_j, theirs)
        made += [
            Figure(f"{name}_error_percent", _worst(by_phase), "%", n),
            Figure(f"{name}_total_error_percent", abs(total), "%", 1),
        ]
    seconds = (load.edges_ns[-1] - load.edges_ns[0]) * 1e-9
    late_us = float(np.quantile(plant.late_ns, 0.99)) / 1e3
    return [
        *made,
        Figure("load_s", float(seconds), "s", 1),
        Figure("plant_late_p99_us", late_us, "us", len(plant.late_ns)),
    ]


def _worst(by_phase: dict[str, float]) -> float:
    return float(max(abs(value) for value in by_phase.values()))


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=62.0, help="of load")
    options = arguments.parse_args()
    board = load_board("agx-orin-64gb")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="orin_gov-", dir=memory) as folder:
        build_tree(board, Path(folder))
        made = figures(*measure(board, Path(folder), options.seconds))
    return publish("energy", "virtual board agx-orin-64gb", made, options.json)


if __name__ == "__main__":
    sys.exit(main())
