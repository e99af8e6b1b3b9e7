"""The sampler: real files read by the real thread, and what it makes of good and bad ones."""

import errno
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from orin_gov._sampler import Sampler, Samples

MS = 1_000_000
SECOND = 1_000_000_000
Rail = tuple[str, str]


def write(path: Path, content: bytes) -> None:
    """Replace the content in place, without a moment at which the file is empty."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, content, 0)
    os.ftruncate(fd, len(content))
    os.close(fd)


def make_rail(
    folder: Path, name: str = "rail", voltage_mv: int = 5000, current_ma: int = 1000
) -> Rail:
    write(folder / f"{name}_mv", b"%d\n" % voltage_mv)
    write(folder / f"{name}_ma", b"%d\n" % current_ma)
    return str(folder / f"{name}_mv"), str(folder / f"{name}_ma")


def wait_for(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.001)


def open_files() -> list[str]:
    return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]


def sweep_on(sampler: Sampler, count: int = 1) -> None:
    """Wait until `count` sweeps have begun and ended from now on."""
    goal = sampler.sweeps + 1 + count
    wait_for(lambda: sampler.sweeps >= goal)


@contextmanager
def running(
    rails: list[Rail],
    period_ns: int = MS,
    gap_ns: int = 10 * SECOND,
    capacity: int = 16384,
    voltage_every: int = 1,
) -> Iterator[Sampler]:
    sampler = Sampler(rails, period_ns, gap_ns, capacity, voltage_every)
    sampler.start()
    try:
        yield sampler
    finally:
        assert sampler.stop(20.0)


def trapezoid(power_w: NDArray[np.float64], t_ns: NDArray[np.int64]) -> float:
    return float(np.sum(0.5 * (power_w[1:] + power_w[:-1]) * np.diff(t_ns)) * 1e-9)


# Energy.


def test_power_is_volts_times_amperes_and_energy_its_integral(tmp_path: Path) -> None:
    rails = [make_rail(tmp_path, "a", 19800, 2500), make_rail(tmp_path, "b", 5000, 640)]
    with running(rails) as sampler:
        sweep_on(sampler, 200)
    samples = sampler.drain()
    assert samples.power_w == pytest.approx(np.tile([49.5, 3.2], (len(samples.t_ns), 1)))
    duration_s = (samples.t_ns[-1] - samples.t_ns[0]) * 1e-9
    # A rail's own moments lie within the sweep, a few microseconds from its middle.
    assert samples.energy_j[-1] == pytest.approx([49.5 * duration_s, 3.2 * duration_s], rel=2e-3)
    assert not samples.energy_j[0].any()
    assert not samples.missing_ns.any()


def serve_sine(path: Path, stop: threading.Event, served: list[tuple[int, int]]) -> None:
    """Serve 1000 mA + 800 mA sin(2 pi t / 0.2 s); note each value and when it was written."""
    begin_ns = time.monotonic_ns()
    fd = os.open(path, os.O_WRONLY)
    while not stop.is_set():
        angle = 2 * math.pi * (time.monotonic_ns() - begin_ns) / (0.2 * SECOND)
        current_ma = round(1000 + 800 * math.sin(angle))
        os.pwrite(fd, b"%04d\n" % current_ma, 0)
        served.append((time.monotonic_ns(), current_ma))
        time.sleep(0.0005)
    os.close(fd)


def test_the_energy_of_a_changing_load_is_what_was_served(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path)
    stop, served = threading.Event(), list[tuple[int, int]]()
    server = threading.Thread(target=serve_sine, args=(Path(current), stop, served))
    server.start()
    wait_for(lambda: bool(served))
    with running([(voltage, current)]) as sampler:
        wait_for(lambda: sampler.sweeps >= 1500)
    stop.set()
    server.join()
    samples = sampler.drain()

    moments, currents = np.array(served).T
    grid = np.arange(samples.t_ns[0], samples.t_ns[-1], 10_000)
    held_ma = currents[np.searchsorted(moments, grid, side="right") - 1]
    served_j = float(np.sum(5.0 * held_ma * 1e-3) * 10e-6)

    assert samples.energy_j[-1, 0] == pytest.approx(served_j, rel=0.01)
    assert samples.power_w.max() > 8.5
    assert samples.power_w.min() < 1.5


def test_energy_is_the_trapezoid_of_the_samples(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path, current_ma=0)
    with running([(voltage, current)], period_ns=20 * MS) as sampler:
        for current_ma in (0, 1000, 200, 3000, 0):
            write(Path(current), b"%d\n" % current_ma)
            sweep_on(sampler)
    samples = sampler.drain()
    power_w = samples.power_w[:, 0]
    assert len(set(power_w)) == 4
    assert samples.energy_j[-1, 0] == pytest.approx(trapezoid(power_w, samples.t_ns), rel=0.02)


def test_negative_power_is_subtracted(tmp_path: Path) -> None:
    with running([make_rail(tmp_path, current_ma=-200)]) as sampler:
        sweep_on(sampler, 50)
    samples = sampler.drain()
    assert samples.power_w[-1, 0] == pytest.approx(-1.0)
    duration_s = (samples.t_ns[-1] - samples.t_ns[0]) * 1e-9
    assert samples.energy_j[-1, 0] == pytest.approx(-duration_s, rel=2e-3)


def hole_in(tmp_path: Path, gap_ns: int) -> tuple[Samples, int]:
    """Sample a rail that is unreadable for a while; return the samples and its gaps."""
    voltage, current = make_rail(tmp_path)
    with running([(voltage, current)], gap_ns=gap_ns) as sampler:
        sweep_on(sampler, 20)
        write(Path(current), b"busy\n")
        sweep_on(sampler, 300)
        write(Path(current), b"3000\n")
        sweep_on(sampler, 20)
    return sampler.drain(), sampler.quality()[0].gaps


def test_a_long_hole_is_not_integrated_but_reported(tmp_path: Path) -> None:
    samples, gaps = hole_in(tmp_path, gap_ns=150 * MS)
    good = ~np.isnan(samples.power_w[:, 0])
    spans = np.diff(samples.t_ns[good])
    hole_ns = spans[spans > 150 * MS].sum()
    assert hole_ns > 250 * MS
    assert gaps == np.count_nonzero(spans > 150 * MS)
    assert samples.missing_ns[-1, 0] == pytest.approx(hole_ns, rel=0.01)
    assert not samples.missing_ns[~good].any(), "only the reading that ends a hole closes it"
    before, after = (samples.power_w[:, 0] == watts for watts in (5.0, 15.0))
    integrated = trapezoid(samples.power_w[before, 0], samples.t_ns[before]) + trapezoid(
        samples.power_w[after, 0], samples.t_ns[after]
    )
    assert samples.energy_j[-1, 0] == pytest.approx(integrated, rel=0.01)


def test_a_short_hole_is_bridged_by_the_trapezoid(tmp_path: Path) -> None:
    samples, gaps = hole_in(tmp_path, gap_ns=60 * SECOND)
    good = ~np.isnan(samples.power_w[:, 0])
    assert not good.all()
    assert gaps == 0
    assert not samples.missing_ns.any()
    assert samples.energy_j[-1, 0] == pytest.approx(
        trapezoid(samples.power_w[good, 0], samples.t_ns[good]), rel=0.01
    )


# Files that are not as they should be.


def test_a_missing_file_is_counted_not_zero_and_found_when_it_appears(tmp_path: Path) -> None:
    good = make_rail(tmp_path, "good")
    late = (str(tmp_path / "late_mv"), str(tmp_path / "late_ma"))
    with running([good, late]) as sampler:
        sweep_on(sampler, 10)
        absent = sampler.quality()[1]
        make_rail(tmp_path, "late", 12000, 500)
        wait_for(lambda: sampler.quality()[1].reads > 0)
    assert absent.reads == 0
    assert absent.errors > 0
    assert absent.last_errno == errno.ENOENT
    samples = sampler.drain()
    assert np.isnan(samples.power_w[: absent.errors, 1]).all()
    assert samples.power_w[-1] == pytest.approx([5.0, 6.0])
    assert sampler.quality()[0].errors == 0, "the other rail did not suffer"


def test_one_file_of_two_is_no_reading(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path)
    os.unlink(current)
    with running([(voltage, current), (current, voltage)]) as sampler:
        sweep_on(sampler, 10)
    assert np.isnan(sampler.drain().power_w).all()
    assert [q.last_errno for q in sampler.quality()] == [errno.ENOENT] * 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [("folder", errno.EISDIR), ("rail_mv/deeper", errno.ENOTDIR), ("loop", errno.ELOOP)],
)
def test_the_errno_of_a_failure_is_kept(tmp_path: Path, path: str, expected: int) -> None:
    voltage, _ = make_rail(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with running([(voltage, str(tmp_path / path))]) as sampler:
        sweep_on(sampler)
    quality = sampler.quality()[0]
    assert (quality.reads, quality.last_errno) == (0, expected)
    assert quality.errors == sampler.sweeps


def expected_outcome(content: bytes) -> int | None:
    """The integer that a kernel attribute of this content holds, or None."""
    if len(content) >= 64 or not re.fullmatch(rb"-?[0-9]+[ \t\n]*", content):
        return None
    value = int(content)
    return value if -(2**63) <= value < 2**63 else None


CONTENT = st.one_of(
    st.binary(max_size=70),
    st.from_regex(re.compile(rb"-?[0-9]{1,22}[ \t\n]{0,3}", re.DOTALL), fullmatch=True),
    st.integers(-(2**64), 2**64).map(lambda value: b"%d\n" % value),
    st.text("-+0123456789 \t\n.ex", max_size=24).map(str.encode),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(CONTENT, min_size=1, max_size=20))
@example([b"%d\n" % value for value in (-(2**63) - 1, -(2**63), 2**63 - 1, 2**63)])
@example([b"", b"\n", b"-", b"-\n", b" 1", b"1 2", b"+1", b"--1", b"1\0", b"0x10", b"1 mA\n"])
@example([b"0" * 62 + b"1", b"0" * 63 + b"1", b"9" * 63, b"9" * 64, b"1" + b" " * 70, b"-0"])
def test_content_is_parsed_strictly(tmp_path: Path, contents: list[bytes]) -> None:
    thousand = tmp_path / "thousand"
    write(thousand, b"1000\n")
    rails = []
    for i, content in enumerate(contents):
        write(tmp_path / str(i), content)
        # Both files of a rail are parsed alike.
        rails += [(str(thousand), str(tmp_path / str(i))), (str(tmp_path / str(i)), str(thousand))]
    with running(rails) as sampler:
        wait_for(lambda: sampler.sweeps > 0)
    values = [expected_outcome(content) for content in contents for _ in range(2)]
    power_w = [math.nan if v is None else float(v) * 1000.0 * 1e-6 for v in values]
    np.testing.assert_allclose(sampler.drain().power_w[0], power_w, rtol=1e-12)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", errno.ENODATA),
        (b"n/a\n", errno.EINVAL),
        (b"\n", errno.EINVAL),
        (b"12 mA\n", errno.EINVAL),
        (b"9223372036854775808\n", errno.ERANGE),
        (b"-9223372036854775809\n", errno.ERANGE),
        (b"9" * 100, errno.ERANGE),
        (b"9" * 30 + b"x", errno.EINVAL),
        (b"1" + b" " * 100, errno.EINVAL),
    ],
)
def test_bad_content_has_an_errno(tmp_path: Path, content: bytes, expected: int) -> None:
    voltage, current = make_rail(tmp_path)
    write(Path(current), content)
    with running([(voltage, current)]) as sampler:
        sweep_on(sampler)
    assert sampler.quality()[0].last_errno == expected


# A preloaded pread that fails with ENODEV while a file named by GONE exists, as the descriptors
# of an unbound driver do.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
typedef ssize_t (*reader)(int, void *, size_t, off_t);
static ssize_t unless_gone(const char *name, int fd, void *to, size_t size, off_t offset) {
    if (access(getenv("GONE"), F_OK) == 0) { errno = ENODEV; return -1; }
    return ((reader)dlsym(RTLD_NEXT, name))(fd, to, size, offset);
}
ssize_t pread(int fd, void *to, size_t size, off_t offset) {
    return unless_gone("pread", fd, to, size, offset);
}
ssize_t pread64(int fd, void *to, size_t size, off_t offset) {
    return unless_gone("pread64", fd, to, size, offset);
}
"""
REBIND = """
import os, sys, time
from orin_gov._sampler import Sampler
folder = sys.argv[1]
sampler = Sampler([(folder + "/rail_mv", folder + "/rail_ma")], 1_000_000, 10**10)
def wait_for(condition):
    deadline = time.monotonic() + 20.0
    while not condition(): assert time.monotonic() < deadline; time.sleep(0.001)
sampler.start()
wait_for(lambda: sampler.quality()[0].reads > 0)
open(os.environ["GONE"], "w").close()
wait_for(lambda: sampler.quality()[0].errors > 0)
print(sampler.quality()[0].last_errno)
for name, value in (("mv", "12000"), ("ma", "500")):
    with open(f"{folder}/new", "w") as file: file.write(value)
    os.replace(f"{folder}/new", f"{folder}/rail_{name}")
os.unlink(os.environ["GONE"])
wait_for(lambda: 6.0 in sampler.drain().power_w[:, 0])
assert sampler.stop()
open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
print(sum("rail" in path for path in open_files))
"""


CC = shlex.split(os.environ.get("CC", "cc"))


@pytest.mark.skipif(shutil.which(CC[0]) is None, reason="needs a C compiler")
def test_an_unbound_driver_is_opened_anew(tmp_path: Path) -> None:
    make_rail(tmp_path)
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    build = [*CC, "-shared", "-fPIC", "-o", str(shim), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(build, check=True)
    result = subprocess.run(
        [sys.executable, "-c", REBIND, str(tmp_path)],
        env=os.environ | {"LD_PRELOAD": str(shim), "GONE": str(tmp_path / "gone")},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert result.stdout.split() == [str(errno.ENODEV), "0"], result.stderr


def test_a_chip_that_comes_back_under_another_number_is_found_by_pattern(tmp_path: Path) -> None:
    chip = tmp_path / "1-0040"
    pattern = (str(chip / "hwmon*/rail_mv"), str(chip / "hwmon*/rail_ma"))
    with running([pattern]) as sampler:
        sweep_on(sampler, 5)
        assert sampler.quality()[0].last_errno == errno.ENOENT
        (chip / "hwmon3").mkdir(parents=True)
        make_rail(chip / "hwmon3", voltage_mv=12000, current_ma=500)
        wait_for(lambda: sampler.quality()[0].reads > 0)
    (chip / "hwmon3").rename(chip / "hwmon11")
    with running([pattern]) as sampler:
        wait_for(lambda: sampler.quality()[0].reads > 0)
    assert sampler.drain().power_w[-1, 0] == pytest.approx(6.0)


def test_a_name_that_holds_a_star_is_a_name_first(tmp_path: Path) -> None:
    make_rail(tmp_path, "a", current_ma=2000)
    with running([make_rail(tmp_path, "*", current_ma=500)]) as sampler:
        sweep_on(sampler)
    assert sampler.drain().power_w[0, 0] == pytest.approx(2.5)


# Counting.


def test_repeats_are_readings_equal_to_the_one_before(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path)
    with running([(voltage, current)]) as sampler:
        sweep_on(sampler, 5)
        write(Path(current), b"oops\n")  # a failure between does not make a reading new
        sweep_on(sampler, 5)
        write(Path(current), b"1000\n")
        sweep_on(sampler, 5)
        write(Path(current), b"1001\n")
        sweep_on(sampler, 5)
        write(Path(voltage), b"5001\n")
        sweep_on(sampler, 5)
    quality = sampler.quality()[0]
    assert quality.errors > 0
    assert quality.reads + quality.errors == sampler.sweeps
    assert quality.repeats == quality.reads - 3


def test_the_voltage_is_read_as_often_as_asked(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path, voltage_mv=5000)
    with running([(voltage, current)], voltage_every=10**9) as sampler:
        sweep_on(sampler)
        write(Path(voltage), b"9000\n")
        sweep_on(sampler, 20)
    assert set(sampler.drain().power_w[:, 0]) == {5.0}
    with running([(voltage, current)], voltage_every=50) as sampler:
        sweep_on(sampler)
        write(Path(voltage), b"5000\n")
        sweep_on(sampler, 60)
    power_w = sampler.drain().power_w[:, 0]
    changes = np.flatnonzero(np.diff(power_w)) + 1
    assert power_w[0] == pytest.approx(9.0)
    assert power_w[-1] == pytest.approx(5.0)
    assert len(changes) == 1
    assert changes[0] % 50 == 0


def test_the_rails_take_turns_in_reading_their_voltage(tmp_path: Path) -> None:
    rails = [make_rail(tmp_path, name) for name in "abc"]
    with running(rails, voltage_every=30, period_ns=5 * MS) as sampler:
        sweep_on(sampler, 3)
        for voltage, _ in rails:
            write(Path(voltage), b"9000\n")
        sweep_on(sampler, 35)
    power_w = sampler.drain().power_w
    changed = [int(np.flatnonzero(np.diff(power_w[:, rail]))[0]) for rail in range(3)]
    # Rail i is due in each sweep whose number and i add up to a multiple of 30.
    assert changed == [29, 28, 27]


def test_a_voltage_never_read_is_tried_in_each_sweep(tmp_path: Path) -> None:
    voltage, current = make_rail(tmp_path)
    write(Path(voltage), b"")
    with running([(voltage, current)], voltage_every=10**9) as sampler:
        sweep_on(sampler, 3)
        write(Path(voltage), b"5000\n")
        sweep_on(sampler, 3)
    assert sampler.drain().power_w[-1, 0] == pytest.approx(5.0)


def test_undrained_samples_are_overwritten_oldest_first_and_counted(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], capacity=8) as sampler:
        sweep_on(sampler, 40)
    samples = sampler.drain()
    assert len(samples.t_ns) == 8
    assert sampler.dropped == sampler.sweeps - 8
    assert (np.diff(samples.t_ns) > 0).all()
    assert samples.energy_j[-1, 0] > 0.039 * 5.0, "the sums cover what was overwritten"
    assert [len(column) for column in sampler.drain()] == [0] * 4


def test_samples_have_the_documented_shapes(tmp_path: Path) -> None:
    rails = [make_rail(tmp_path, name) for name in "abc"]
    sampler = Sampler(rails, MS, SECOND)
    empty = sampler.drain()
    assert empty.t_ns.dtype == np.int64
    assert [column.shape for column in empty] == [(0,), (0, 3), (0, 3), (0, 3)]
    assert [tuple(q) for q in sampler.quality()] == [(0, 0, 0, 0, 0)] * 3
    assert sampler.stop(), "nothing to stop"


def test_threads_that_drain_at_once_share_the_samples(tmp_path: Path) -> None:
    drained: list[list[Samples]] = [[], [], []]
    done = threading.Event()

    def drain_on(mine: list[Samples]) -> None:
        while not done.is_set():
            mine.append(sampler.drain())
            sampler.quality()

    with running([make_rail(tmp_path)], period_ns=MS // 10) as sampler:
        threads = [threading.Thread(target=drain_on, args=(mine,)) for mine in drained]
        for thread in threads:
            thread.start()
        wait_for(lambda: sampler.sweeps > 2000)
        done.set()
        for thread in threads:
            thread.join()
    for mine in drained:
        times = np.concatenate([samples.t_ns for samples in mine])
        assert (np.diff(times) > 0).all()
    rest = sampler.drain().t_ns
    every = np.concatenate([s.t_ns for mine in drained for s in mine] + [rest])
    assert len(np.unique(every)) == len(every) == sampler.sweeps
    assert sampler.dropped == 0


# The grid of deadlines.


def test_sweeps_keep_to_an_absolute_grid(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=5 * MS) as sampler:
        wait_for(lambda: sampler.sweeps >= 200)
    t_ns = sampler.drain().t_ns
    steps = (t_ns - t_ns[0]) / (5 * MS)
    # Any one sweep may be late, the first one too: the grid is where most of the others fall.
    apart = np.subtract.outer(steps, steps)
    assert np.median(np.abs(apart - np.round(apart)), axis=0).min() < 0.1, "no drift"
    # Each deadline was either kept, up to a late wake-up, or counted as missed.
    assert abs(steps[-1] - (sampler.sweeps + sampler.overruns - 1)) < 2.0


def test_missed_deadlines_are_skipped_and_counted(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=1000, capacity=10**6) as sampler:
        wait_for(lambda: sampler.sweeps >= 5000)
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
        wait_for(lambda: len(sampler.drain().t_ns) > 0)
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
        wait_for(lambda: sampler.thread_cpu_s > 0.0)
        earlier_s = sampler.thread_cpu_s
        wait_for(lambda: sampler.thread_cpu_s > earlier_s)  # some kernels count it in ticks
        assert sampler.thread_cpu_s < time.monotonic() - begin


# The thread's life.


def test_stop_is_noticed_within_a_long_period(tmp_path: Path) -> None:
    with running([make_rail(tmp_path)], period_ns=3600 * SECOND) as sampler:
        wait_for(lambda: sampler.sweeps == 1)
        assert sampler.stop(5.0)


def test_a_thread_hung_in_a_file_is_left_behind_and_blocks_nobody(tmp_path: Path) -> None:
    voltage, _ = make_rail(tmp_path.resolve())
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    sampler = Sampler([(voltage, str(fifo))], MS, SECOND)
    sampler.start()
    # Next after the voltage it opens the pipe, and hangs: nobody writes to it.
    wait_for(lambda: voltage in open_files())
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
