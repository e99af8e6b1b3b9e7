"""What the sampler costs, and how fast it is against the common way of reading sysfs.

The common way opens, reads and closes each attribute from Python. Both read the files of the same
virtual board's tree, in rounds that take turns. `cpu_percent_1khz` is 1,000 sweeps of the three
rails of an AGX Orin a second; `cpu_percent_1khz_no_rails` the same thread without any rail, which
sleeps and wakes alone: what this machine charges for that is in the first figure as well.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench._figures import Figure, median_figure, parser, publish
from orin_gov._sampler import Sampler
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import build_tree, rail_files

MS = 1_000_000
PERIOD_NS = MS
CONVERSION_SWEEPS = 6
"""Sweeps at 1 kHz within one conversion cycle of 6.6 ms: as often as a voltage can change."""

Rails = Sequence[tuple[str, str]]


def open_read_close(rails: Rails, seconds: float) -> tuple[float, float]:
    """Read the common way; return reads a second and processor microseconds a read."""
    files = [file for rail in rails for file in rail]
    reads = 0
    begin_s, begin_cpu_s = time.perf_counter(), time.thread_time()
    while time.perf_counter() - begin_s < seconds:
        for file in files:
            with open(file) as attribute:
                int(attribute.read())
        reads += len(files)
    used_s = time.thread_time() - begin_cpu_s
    return reads / (time.perf_counter() - begin_s), used_s / reads * 1e6


def sampler_flat_out(rails: Rails, seconds: float) -> tuple[float, float]:
    """Let the sampler read without a pause; return the same two figures."""
    sampler = Sampler(rails, 1, MS, capacity=1024)
    begin_s = time.perf_counter()
    sampler.start()
    time.sleep(seconds)
    sampler.stop()
    elapsed_s = time.perf_counter() - begin_s
    reads = 2 * sum(rail.reads for rail in sampler.quality())
    return reads / elapsed_s, sampler.thread_cpu_s / reads * 1e6


def at_1khz(rails: Rails, seconds: float) -> tuple[float, float, npt.NDArray[np.int64]]:
    """Sample at 1 kHz; return the share of one core, the rate, and each sweep's lateness (ns).

    The share is what a sweep costs times 1,000 a second: a sweep that this machine, busy with
    something else, did not get to make is not counted as a cheap one.
    """
    sampler = Sampler(rails, PERIOD_NS, 10 * MS, 2**17, CONVERSION_SWEEPS)
    sampler.start()
    time.sleep(seconds)
    sampler.stop()
    assert sampler.rate_hz is not None
    t_ns = sampler.drain().t_ns - sampler.grid_ns
    # A sweep is due at the first deadline after the sweep before.
    due_ns = (t_ns[:-1] // PERIOD_NS + 1) * PERIOD_NS
    return (
        sampler.thread_cpu_s / sampler.sweeps * 1e9 / PERIOD_NS,
        sampler.rate_hz,
        t_ns[1:] - due_ns,
    )


def figures(rails: Rails, rounds: int, seconds: float) -> list[Figure]:
    """Measure everything, the rivals in turns."""
    common, ours, bare, sampled = [], [], [], []
    for _ in range(rounds):
        common.append(open_read_close(rails, seconds / 4))
        ours.append(sampler_flat_out(rails, seconds / 4))
        bare.append(at_1khz((), seconds))
        sampled.append(at_1khz(rails, seconds))
    late_us = np.concatenate([late_ns for _, _, late_ns in sampled]) / 1e3
    ratios = [mine[0] / theirs[0] for mine, theirs in zip(ours, common, strict=True)]
    costs = [theirs[1] / mine[1] for mine, theirs in zip(ours, common, strict=True)]
    return [
        median_figure("read_rate_ratio", ratios, "x", ">= 10"),
        median_figure("read_cpu_ratio", costs, "x"),
        median_figure("reads_per_second", [rate for rate, _ in ours], "1/s"),
        median_figure("common_reads_per_second", [rate for rate, _ in common], "1/s"),
        median_figure("cpu_percent_1khz", [100 * share for share, _, _ in sampled], "%", "<= 2"),
        median_figure("cpu_percent_1khz_no_rails", [100 * share for share, _, _ in bare], "%"),
        median_figure("rate_hz", [rate for _, rate, _ in sampled], "1/s"),
        Figure("deadline_error_p50_us", float(np.quantile(late_us, 0.5)), "us", len(late_us)),
        Figure("deadline_error_p99_us", float(np.quantile(late_us, 0.99)), "us", len(late_us)),
    ]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    options = arguments.parse_args()
    board = load_board("agx-orin-64gb")
    # In memory, as sysfs is.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="orin_gov-", dir=memory) as folder:
        build_tree(board, Path(folder))
        rails = [
            (str(voltage), str(current))
            for voltage, current in (rail_files(rail, Path(folder)) for rail in board.module_rails)
        ]
        measured = figures(rails, options.rounds, options.seconds)
    return publish("sampler", "files in memory, read by this machine", measured, options.json)


if __name__ == "__main__":
    sys.exit(main())
