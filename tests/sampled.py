"""Rails of plain files for the tests of the sampler, and a sampler that runs on them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trees import eventually

from orin_gov._sampler import Sampler

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


def open_files() -> list[str]:
    return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]


def sweep_on(sampler: Sampler, count: int = 1) -> None:
    """Wait until `count` sweeps have begun and ended from now on."""
    goal = sampler.sweeps + 1 + count
    assert eventually(lambda: sampler.sweeps >= goal)


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
