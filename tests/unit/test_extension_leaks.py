"""Classes of the extension made, used and dropped by the thousand: nothing of them stays."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orin_gov import _actuator, _phases, _sampler
from orin_gov._actuator import Actuator
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.workload.ring import make_ring

TIMES = 400
LEAK_BYTES = 400
"""An object that stays takes more: this many bytes an object are the allocator's own unrest."""


def anonymous_bytes() -> int:
    """Return this process's own memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell")


def held() -> tuple[int, int, int]:
    """Return descriptors, threads and mappings of shared memory of this process."""
    mappings = Path("/proc/self/maps").read_text()
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        mappings.count("orin_gov-phases"),
    )


def use_ring(folder: Path) -> None:
    memory = make_ring()
    ring = PhaseRing(memory)
    ring.claim()
    ring.mark(1)
    ring.put(0, 7, 0.0)
    ring.step(1.0)
    ring.drain()
    with suppress(ValueError):
        ring.mark(99)
    with suppress(RuntimeError):
        ring.__init__(memory)  # type: ignore[misc]
    os.pwrite(memory, b"x" * 16, 0)
    with suppress(ValueError):
        PhaseRing(memory)  # of a foreign header
    os.close(memory)
    with suppress(OSError):
        PhaseRing(memory)
    with suppress(TypeError):
        PhaseRing("no descriptor")  # type: ignore[arg-type]


def use_sampler(folder: Path) -> None:
    rails = [(str(folder / "mv"), str(folder / "ma")), (str(folder / "none*"), "")]
    sampler = Sampler(rails, 100_000, 10**9, capacity=64)
    sampler.start()
    with suppress(RuntimeError):
        sampler.start()
    sampler.drain()
    sampler.quality()
    sampler.stop()
    with suppress(ValueError):
        Sampler(rails, 0, 10**9)
    with suppress(TypeError):
        Sampler([(1, 2)], 10**6, 10**9)  # type: ignore[list-item]
    with suppress(MemoryError, ValueError, OverflowError):
        Sampler(rails, 10**6, 10**9, capacity=2**61)
    Sampler(rails, 10**6, 10**9)  # never started


def use_actuator(folder: Path) -> None:
    actuator = Actuator(str(folder), [1, 2], timeout_ns=1)
    with suppress(RuntimeError):
        actuator.request(1, 2)
    actuator.start()
    actuator.request(1, 2)
    with suppress(ValueError):
        actuator.request(3, 2)
    actuator.stop()
    actuator.drain()
    with suppress(TypeError):
        Actuator(1, 2)  # type: ignore[arg-type]
    with suppress(OSError):
        _actuator.write_range(str(folder / "none"), 1, 2)


USES = {"PhaseRing": use_ring, "Sampler": use_sampler, "Actuator": use_actuator}


@pytest.mark.parametrize("name", USES)
def test_of_an_object_that_is_dropped_nothing_stays(tmp_path: Path, name: str) -> None:
    for file, text in {"mv": "5000", "ma": "100", "min_freq": "1", "max_freq": "2"}.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "cur_freq").write_text("1")
    use: Callable[[Path], None] = USES[name]
    for _ in range(TIMES):
        use(tmp_path)
    before, bytes_before = held(), anonymous_bytes()
    for _ in range(TIMES):
        use(tmp_path)
    assert held() == before
    assert anonymous_bytes() - bytes_before < TIMES * LEAK_BYTES


@pytest.mark.parametrize("each", [PhaseRing, Sampler, Actuator])
def test_every_class_of_the_extension_has_a_leak_test_and_says_who_may_call_it(each: type) -> None:
    assert each.__name__ in USES
    assert "thread" in (each.__doc__ or "")


def test_the_extension_has_no_other_class_of_its_own() -> None:
    found = {
        name
        for module in (_actuator, _phases, _sampler)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
        if not issubclass(value, tuple)
    }
    assert found == {*USES}
