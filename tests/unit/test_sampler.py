"""The sampler: what it makes of the readings of real files, energy and counts."""

import math
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sampled import MS, SECOND, make_rail, running, sweep_on, write
from trees import eventually

from orin_gov._sampler import Sampler, Samples


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
    assert eventually(lambda: bool(served))
    with running([(voltage, current)]) as sampler:
        assert eventually(lambda: sampler.sweeps >= 1500)
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
        assert eventually(lambda: sampler.sweeps > 2000)
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
