"""The sampler on the real ina3221 driver: truth, faults, and chips that come and go."""

import errno
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from rig import (
    CHIP,
    DRIVER,
    LOW_HZ,
    OTHER_CHIP,
    PARAMETERS,
    TOP_HZ,
    eventually,
    hwmon,
    rail_files,
    set_demand,
    set_limits,
    truth,
    write,
)

from orin_gov._sampler import Sampler

MS = 1_000_000


@contextmanager
def running(
    rails: list[tuple[str, str]], period_ns: int = MS, voltage_every: int = 6
) -> Iterator[Sampler]:
    sampler = Sampler(rails, period_ns, 100 * MS, voltage_every=voltage_every)
    sampler.start()
    try:
        yield sampler
    finally:
        assert sampler.stop(20.0)


def test_the_energy_is_the_plants_own() -> None:
    set_limits(TOP_HZ, TOP_HZ)
    with running([rail_files()]) as sampler:
        eventually(lambda: sampler.sweeps > 10)
        before = truth()
        measured = sampler.drain().energy_j[-1, 0]
        for demand in (1000, 300, 700, 0, 1000, 500):
            set_demand(demand)
            time.sleep(1.3)
        true_j = (truth()["energy_uj"] - before["energy_uj"]) * 1e-6
        measured = sampler.drain().energy_j[-1, 0] - measured
    assert true_j > 50.0
    # A current step of 20 mA at 19 V is 0.38 W: half of it, each way, over 7.8 s.
    assert measured == pytest.approx(true_j, abs=0.19 * 7.8)


def test_a_conversion_read_again_is_a_repeat() -> None:
    write(PARAMETERS / "noise_mw", 8000)
    with running([rail_files()]) as sampler:
        eventually(lambda: sampler.sweeps >= 1000)
    quality = sampler.quality()[0]
    # 6.6 ms a conversion, read each 1 ms; the noise seldom gives the same step twice in a row.
    assert 0.75 < quality.repeats / quality.reads < 0.95


def test_averaging_delays_the_reading_by_its_time_constant() -> None:
    set_limits(TOP_HZ, TOP_HZ)
    time.sleep(0.5)
    write(hwmon() / "samples", 64)
    with running([rail_files()], period_ns=5 * MS) as sampler:
        time.sleep(3.0)
        begin_ns = time.monotonic_ns()
        set_demand(1000)
        time.sleep(4.0)
    samples = sampler.drain()
    power_w = samples.power_w[:, 0]
    low, high = power_w[samples.t_ns < begin_ns][-1], power_w[-1]
    assert high > low + 10
    risen = samples.t_ns[np.argmax(power_w > low + (high - low) * (1 - np.exp(-1)))]
    # new = old + (x - old) / N each 6.6 ms: a time constant of N conversions.
    assert (risen - begin_ns) * 1e-9 == pytest.approx(64 * 0.0066, rel=0.1)


@pytest.mark.parametrize("number", [errno.EREMOTEIO, errno.ETIMEDOUT, errno.EIO, errno.EAGAIN])
def test_a_failing_transfer_is_counted_not_zero(number: int) -> None:
    write(PARAMETERS / "i2c_fail_errno", number)
    with running([rail_files(), rail_files(2)]) as sampler:
        eventually(lambda: sampler.sweeps > 10)
        write(PARAMETERS / "i2c_fail", 7)
        eventually(lambda: int((PARAMETERS / "i2c_fail").read_text()) == 0)
        eventually(lambda: sampler.sweeps > 50)
    samples, quality = sampler.drain(), sampler.quality()
    assert sum(rail.errors for rail in quality) == 7
    assert {rail.last_errno for rail in quality} == {number}
    assert np.count_nonzero(np.isnan(samples.power_w)) == 7
    assert np.nanmin(samples.power_w) > 1.0


def test_a_switched_off_channel_is_missing() -> None:
    with running([rail_files(1, OTHER_CHIP), rail_files()]) as sampler:
        eventually(lambda: sampler.sweeps > 10)
    off, on = sampler.quality()
    assert (off.reads, off.last_errno, on.errors) == (0, errno.ENODATA, 0)


def test_a_chip_that_comes_back_under_another_number_is_found_again() -> None:
    before = hwmon().name
    with running([rail_files(), rail_files(2, OTHER_CHIP)]) as sampler:
        eventually(lambda: sampler.sweeps > 10)
        write(DRIVER / "unbind", CHIP)
        write(DRIVER / "unbind", OTHER_CHIP)
        assert eventually(lambda: sampler.quality()[1].errors > 0)
        write(DRIVER / "bind", OTHER_CHIP)
        write(DRIVER / "bind", CHIP)
        assert hwmon().name != before
        assert hwmon(OTHER_CHIP).name == before
        reads = [rail.reads for rail in sampler.quality()]
        assert eventually(
            lambda: all(q.reads > n for q, n in zip(sampler.quality(), reads, strict=True))
        )
        eventually(lambda: False, 0.1)
    samples = sampler.drain()
    voltages = [
        int((hwmon(c) / f"in{n}_input").read_text()) for c, n in ((CHIP, 1), (OTHER_CHIP, 2))
    ]
    currents = [
        int((hwmon(c) / f"curr{n}_input").read_text()) for c, n in ((CHIP, 1), (OTHER_CHIP, 2))
    ]
    watts = [v * i * 1e-6 for v, i in zip(voltages, currents, strict=True)]
    assert samples.power_w[-1] == pytest.approx(watts, abs=0.4), "each rail is itself again"
    assert (samples.missing_ns[-1] > 0).all(), "the hole is not integrated"
    write(DRIVER / "unbind", CHIP)
    write(DRIVER / "unbind", OTHER_CHIP)
    write(DRIVER / "bind", CHIP)
    write(DRIVER / "bind", OTHER_CHIP)


def test_a_slow_bus_is_left_half_to_others_and_the_rate_is_told() -> None:
    write(PARAMETERS / "i2c_delay_us", 550)
    rails = [rail_files(n) for n in (1, 2, 3)]
    with running(rails, voltage_every=6) as sampler:
        time.sleep(3.0)
    assert sampler.rate_hz is not None
    # Three currents and half a voltage a sweep take 1.9 ms and more: each 4 or 5 ms.
    assert 180 < sampler.rate_hz < 260
    assert sampler.rate_hz == pytest.approx(sampler.sweeps / 3.0, rel=0.05)
    assert sampler.overruns < 0.1 * sampler.sweeps


def test_a_hanging_sensor_stops_neither_the_program_nor_its_end() -> None:
    write(PARAMETERS / "i2c_hang", 1)
    code = (
        "import sys, time; from orin_gov._sampler import Sampler\n"
        "sampler = Sampler([sys.argv[1:]], 1_000_000, 10**8); sampler.start(); time.sleep(0.5)\n"
        "print(sampler.sweeps, sampler.stop(0.2), len(sampler.drain().t_ns))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *rail_files()], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.split() == ["0", "False", "0"], result.stderr
    assert result.returncode == 0


def test_a_sensor_that_hung_is_read_on_when_it_answers() -> None:
    with running([rail_files()]) as sampler:
        eventually(lambda: sampler.sweeps > 10)
        write(PARAMETERS / "i2c_hang", 1)
        time.sleep(0.5)
        sweeps = sampler.sweeps
        time.sleep(0.5)
        assert sampler.sweeps == sweeps
        write(PARAMETERS / "i2c_hang", 0)
        assert eventually(lambda: sampler.sweeps > sweeps + 10)
    # The reading that hung stands in the middle of the time it took: a hole on either side.
    assert sampler.quality()[0].gaps == 2
    assert sampler.drain().missing_ns[-1, 0] > 0.9e9


def test_alarms_are_left_to_those_who_watch_them() -> None:
    """Reading an alarm clears it for everyone: the sampler never does."""
    set_limits(TOP_HZ, TOP_HZ)
    write(hwmon() / "curr1_crit", 100)
    set_demand(1000)
    with running([rail_files()], voltage_every=1) as sampler:
        eventually(lambda: sampler.sweeps > 200)
    set_demand(0)
    set_limits(LOW_HZ, TOP_HZ)
    assert (hwmon() / "curr1_crit_alarm").read_text() == "1\n"
