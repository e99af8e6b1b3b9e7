"""The sampler's thread: its grid of deadlines, and how it starts and ends."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sampled import MS, SECOND, make_rail, open_files, running, sweep_on
from trees import eventually

from orin_gov._sampler import Sampler

# The grid of deadlines.


def test_sweeps_keep_to_an_absolute_grid(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=5 * MS) as sampler:
        assert eventually(lambda: sampler.sweeps >= 200)
    t_ns = sampler.drain().t_ns
    steps = (t_ns - t_ns[0]) / (5 * MS)
    # Any one sweep may be late, the first one too: the grid is where most of the others fall.
    apart = np.subtract.outer(steps, steps)
    assert np.median(np.abs(apart - np.round(apart)), axis=0).min() < 0.1, "no drift"
    # Each deadline was either kept, up to a late wake-up, or counted as missed.
    assert abs(steps[-1] - (sampler.sweeps + sampler.overruns - 1)) < 2.0


def test_missed_deadlines_are_skipped_and_counted(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=1000, capacity=10**6) as sampler:
        assert eventually(lambda: sampler.sweeps >= 5000)
    t_ns = sampler.drain().t_ns
    assert sampler.overruns > 0
    # Where sweeps are slow there are fewer deadlines: the period is lengthened.
    deadlines = sampler.sweeps + sampler.overruns
    assert 5000 < deadlines < 1.02 * (t_ns[-1] - t_ns[0]) / 1000


def test_the_rate_is_what_was_achieved(tmp_path: Path) -> None:
    sampler = Sampler([make_rail(tmp_path)], 2 * MS, SECOND)
    assert sampler.rate_hz is None
    for _ in range(2):
        begin_ns = time.monotonic_ns()
        sampler.start()
        assert eventually(lambda: len(sampler.drain().t_ns) > 0)
        sweep_on(sampler, 100)
        assert sampler.stop(20.0)
        t_ns = sampler.drain().t_ns
        assert sampler.rate_hz == pytest.approx(
            (len(t_ns) - 1) * 1e9 / (t_ns[-1] - t_ns[0]), rel=0.1
        )
        assert begin_ns < sampler.grid_ns < t_ns[0]
        time.sleep(0.2)  # a pause is no part of it


def test_sampling_goes_on_while_the_interpreter_is_held(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)]) as sampler:
        sweep_on(sampler)
        begin_ns = time.monotonic_ns()
        sum(range(20_000_000))  # one call into C, which no other Python thread interrupts
        end_ns = time.monotonic_ns()
    t_ns = sampler.drain().t_ns
    within = np.count_nonzero((t_ns > begin_ns) & (t_ns < end_ns))
    assert within > 0.3 * (end_ns - begin_ns) / MS


def test_the_thread_publishes_its_processor_time(tmp_path: Path) -> None:
    begin = time.monotonic()
    with running([make_rail(tmp_path)]) as sampler:
        assert eventually(lambda: sampler.thread_cpu_s > 0.0)
        earlier_s = sampler.thread_cpu_s
        assert eventually(
            lambda: sampler.thread_cpu_s > earlier_s
        )  # some kernels count it in ticks
        assert sampler.thread_cpu_s < time.monotonic() - begin


# The thread's life.


def test_stop_is_noticed_within_a_long_period(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=3600 * SECOND) as sampler:
        assert eventually(lambda: sampler.sweeps == 1)
        assert sampler.stop(5.0)


def test_a_thread_hung_in_a_file_is_left_behind_and_blocks_nobody(tmp_path: Path) -> None:
    voltage, _ = make_rail(tmp_path.resolve())
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    sampler = Sampler([(voltage, str(fifo))], MS, SECOND)
    sampler.start()
    # Next after the voltage it opens the pipe, and hangs: nobody writes to it.
    assert eventually(lambda: voltage in open_files())
    assert not sampler.stop(0.1)
    assert len(sampler.drain().t_ns) == sampler.sweeps == 0
    assert sampler.quality()[0].reads == 0
    with pytest.raises(RuntimeError, match="running"):
        sampler.start()
    with open(fifo, "w"):
        assert sampler.stop(20.0)
    assert sampler.quality()[0].last_errno == errno.ESPIPE


def test_a_stopped_sampler_can_be_started_again(tmp_path: Path) -> None:
    sampler = Sampler([make_rail(tmp_path)], MS, gap_ns=50 * MS)
    sampler.start()
    with pytest.raises(RuntimeError, match="running"):
        sampler.start()
    sweep_on(sampler)
    assert sampler.stop()
    before = sampler.sweeps
    time.sleep(0.06)
    sampler.start()
    sweep_on(sampler)
    assert sampler.stop()
    assert sampler.sweeps > before
    assert sampler.quality()[0].gaps == 1, "the pause is a hole like any other"


def test_no_descriptor_or_thread_is_left_behind(tmp_path: Path) -> None:
    rails = [make_rail(tmp_path), (str(tmp_path / "rail_mv"), str(tmp_path / "none"))]
    restarted = Sampler(rails, MS, SECOND)
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    for _ in range(50):
        for sampler in (restarted, Sampler(rails, MS, SECOND)):
            sampler.start()
            sweep_on(sampler, 0)
            assert sampler.stop()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_running_sampler_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = (
        "import sys; from orin_gov._sampler import Sampler\n"
        "Sampler([(sys.argv[1], sys.argv[2])], 1_000_000, 10**9).start()"
    )
    command = [sys.executable, "-c", code, *make_rail(tmp_path)]
    assert subprocess.run(command, timeout=60).returncode == 0


@pytest.mark.parametrize("name", ["period_ns", "gap_ns", "capacity", "voltage_every"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_that_are_not_positive_are_refused(name: str, value: int) -> None:
    numbers = {"period_ns": MS, "gap_ns": MS, name: value}
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Sampler([], **numbers)
