"""Each class of the extension made, used in every way, wrong ones as well, and dropped.

`python tests/extension_uses.py` does so a few times; valgrind looks on (sanitize.sh).
"""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orin_gov._actuator import Actuator, write_range
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.workload.ring import make_ring

TIMES = 3


def make_files(folder: Path) -> None:
    """Write the files of a rail and of a GPU into the folder."""
    texts = {"mv": "5000", "ma": "100", "min_freq": "1", "max_freq": "2", "cur_freq": "1"}
    for file, text in texts.items():
        (folder / file).write_text(text)


def use_ring(folder: Path) -> None:
    memory = make_ring()
    ring = PhaseRing(memory)
    ring.claim()
    ring.mark(1)
    ring.put(0, 7, 0.0)
    for _ in range(50):  # many, so that what is drained shows where it stays
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
    odd = [(str(folder / "m*v"), str(folder / "m*a")), (str(folder / "mv"), str(folder / "none"))]
    sampler = Sampler([*rails, *odd * 4], 100_000, 10**9, capacity=64)
    sampler.start()
    with suppress(RuntimeError):
        sampler.start()
    while not sampler.sweeps:
        time.sleep(0)
    for _ in range(20):  # as all through a run: a little that stays of each shows
        sampler.drain()
        sampler.quality()
    sampler.stop()
    with suppress(ValueError):
        Sampler(rails, 0, 10**9)
    with suppress(TypeError):
        Sampler([(1, 2)], 10**6, 10**9)  # type: ignore[list-item]
    with suppress(MemoryError, ValueError, OverflowError):
        Sampler(rails, 10**6, 10**9, capacity=2**61)
    Sampler(rails * 100, 10**6, 10**9, capacity=1)  # never started; so many that each byte shows


def use_actuator(folder: Path) -> None:
    actuator = Actuator(str(folder), range(1, 101), timeout_ns=1)
    with suppress(RuntimeError):
        actuator.request(1, 2)
    actuator.start()
    for _ in range(2):
        actuator.request(1, 2)
        while actuator.pending:
            time.sleep(0)
    with suppress(ValueError):
        actuator.request(3, 2)
    actuator.stop()
    actuator.drain()
    with suppress(TypeError):
        Actuator(1, 2)  # type: ignore[arg-type]
    with suppress(OSError):
        write_range(str(folder / "none"), 1, 2)


USES: dict[str, Callable[[Path], None]] = {
    "PhaseRing": use_ring,
    "Sampler": use_sampler,
    "Actuator": use_actuator,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        for use in [*USES.values()] * TIMES:
            use(Path(folder))
