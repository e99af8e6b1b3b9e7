"""The process behind a virtual board in real time: `python -m orin_gov.virtual.server`.

It serves the tree of `orin_gov.virtual.tree` under a directory, follows the phases that a workload
marks in a shared ring, and tells the ring how much longer each phase lasts at the current clock.
One loop wakes when a limit is written and at absolute deadlines: a 2.2 ms tick that follows the
phases, the moment a clock takes effect, each sensor conversion, and podgov's 25 ms poll. The die
warms and cools with the power; its leakage follows. DIR/.truth holds the exact energy by rail,
rewritten each second. The directory goes when the process ends.
"""

import argparse
import json
import logging
import os
import random
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from orin_gov._phases import PhaseRing
from orin_gov.phases import IDLE, PHASES
from orin_gov.virtual.devfreq import Devfreq
from orin_gov.virtual.files import ValueFile
from orin_gov.virtual.ina3221 import Rails
from orin_gov.virtual.life import Lifeline
from orin_gov.virtual.plant import BoardModel, load_board
from orin_gov.virtual.podgov import POLLING_NS
from orin_gov.virtual.thermal import at_rest
from orin_gov.virtual.tree import build_tree, devfreq_directory, temperature_files
from orin_gov.virtual.watch import Watch

TICK_NS = 2_200_000  # a conversion of one channel: both wake the loop at once
TRUTH_NS = 1_000_000_000
SEED = 20260707
_NEVER_NS = 2**62
_LEAKAGE_STEP_C = 0.2


class Server:
    """One board's state in real time.

    Thread-safety: none; `run` owns everything.
    """

    def __init__(self, board: BoardModel, root: Path, ring: PhaseRing, life: Lifeline) -> None:
        rng = random.Random(SEED)
        directory = devfreq_directory(board, root)
        self._integrated_ns = self._polled_ns = self._start_ns = time.monotonic_ns()
        self._board = board
        self._root = root
        self._ring = ring
        self._life = life
        self._rails = Rails(board, root, rng, self._start_ns)
        self._devfreq = Devfreq(board, directory, rng)
        self._watch = Watch(directory / name for name in ("min_freq", "max_freq", "governor"))
        self._load_file = ValueFile(directory / "device/load")
        self._temperature_files = [ValueFile(path) for path in temperature_files(root)]
        self._laws = [board.laws[phase] for phase in PHASES]
        clocks = board.frequencies_hz
        # By clock, then by phase code: what the loop would otherwise compute at every wake-up.
        self._load = {f: [board.load(law, f) for law in self._laws] for f in clocks}
        self._stretch = {f: [board.stretch(law, f) for law in self._laws] for f in clocks}
        self._thermal = at_rest(board)
        self._busy_s = 0.0
        self._module_labels = [rail.label for rail in board.module_rails]
        self._module_j = 0.0
        self._set_clock()
        self._write_truth(self._start_ns)

    def run(self) -> None:
        """Serve until the board's life is over."""
        tick_ns = poll_ns = self._start_ns
        truth_ns = self._start_ns + TRUTH_NS
        while True:
            switch_ns = self._devfreq.switch_ns or _NEVER_NS
            deadline_ns = min(tick_ns, switch_ns, self._rails.due_ns, poll_ns)
            now_ns, written = self._watch.wait(deadline_ns)
            self._integrate(now_ns)
            if now_ns >= switch_ns:
                self._devfreq.switch()
                self._set_clock()
            if written or now_ns >= tick_ns:
                self._devfreq.poll(now_ns)
                tick_ns = _next(tick_ns, TICK_NS, now_ns)
            self._rails.convert(now_ns)
            if now_ns >= poll_ns:
                self._poll_load(now_ns)
                poll_ns = _next(poll_ns, POLLING_NS, now_ns)
                if self._life.over():
                    return
            if now_ns >= truth_ns:
                self._write_truth(now_ns)
                self._show_temperature()
                truth_ns = _next(truth_ns, TRUTH_NS, now_ns)

    def _integrate(self, now_ns: int) -> None:
        """Add the time since the last wake-up, in the phase the workload is in."""
        seconds = (now_ns - self._integrated_ns) * 1e-9
        self._integrated_ns = now_ns
        phase = self._ring.current_phase if self._ring.producer_pid else IDLE
        self._rails.add(seconds, self._power_w[phase])
        self._busy_s += seconds * self._load[self._devfreq.clock_hz][phase]

    def _poll_load(self, now_ns: int) -> None:
        """Show the load since the last poll, and let podgov answer to it."""
        elapsed_s = (now_ns - self._polled_ns) * 1e-9
        if elapsed_s > 0:
            load_permille = min(1000.0, 1000 * self._busy_s / elapsed_s)
            self._load_file.show(round(load_permille))
            self._devfreq.ask_podgov(load_permille, now_ns)
            self._warm(elapsed_s)
        self._busy_s = 0.0
        self._polled_ns = now_ns
        self._rails.poll()

    def _warm(self, seconds: float) -> None:
        """Let the die follow the power since the last poll, and the leakage the die."""
        energy_j = self._rails.energy_j
        module_j = sum(energy_j[label] for label in self._module_labels)
        self._thermal.step(seconds, (module_j - self._module_j) / seconds)
        self._module_j = module_j
        if abs(self._thermal.temperature_c - self._powers_at_c) > _LEAKAGE_STEP_C:
            self._set_powers()

    def _show_temperature(self) -> None:
        for file in self._temperature_files:
            file.show(round(1000 * self._thermal.temperature_c))

    def _set_clock(self) -> None:
        """Make the ring and the powers those of the clock that has come into effect."""
        self._ring.set_stretch(self._stretch[self._devfreq.clock_hz])
        self._set_powers()

    def _set_powers(self) -> None:
        """Work out every phase's rail powers at the present clock and temperature."""
        self._powers_at_c = self._thermal.temperature_c
        clock_hz = self._devfreq.clock_hz
        self._power_w = [
            self._board.rail_power_w(law, clock_hz, temperature_c=self._powers_at_c)
            for law in self._laws
        ]

    def _write_truth(self, now_ns: int) -> None:
        """Replace DIR/.truth: exact joules by rail between two CLOCK_MONOTONIC moments."""
        truth = {"start_ns": self._start_ns, "end_ns": now_ns, "energy_j": self._rails.energy_j}
        path = self._root / ".truth"
        path.with_suffix(".new").write_text(json.dumps(truth), encoding="ascii")
        os.replace(path.with_suffix(".new"), path)


def _next(deadline_ns: int, period_ns: int, now_ns: int) -> int:
    """The first deadline after now on the grid of an earlier one: missed ones are skipped."""
    return deadline_ns + period_ns * max(1, (now_ns - deadline_ns) // period_ns + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the tree, say "ready" on the control socket, and serve. See the module's docstring."""
    parser = argparse.ArgumentParser(prog="orin_gov.virtual.server", description=__doc__)
    parser.add_argument("--board", required=True)
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--ring-fd", required=True, type=int)
    parser.add_argument("--control-fd", required=True, type=int)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    control = socket.socket(fileno=options.control_fd)
    life = Lifeline(control)
    try:
        board = load_board(options.board)
        build_tree(board, options.root)
        server = Server(board, options.root, PhaseRing(options.ring_fd), life)
        control.sendall(b"ready\n")
        server.run()
    finally:
        shutil.rmtree(options.root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
