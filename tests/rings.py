"""The phase ring's memory for its tests, and what lies in it."""

import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterator

from hypothesis import strategies as st

from orin_gov._phases import RING_BYTES, PhaseRing
from orin_gov.phases import PHASES

RECORD = struct.Struct("<qqd")
CAPACITY = 65536
UNIT_STRETCH = (1.0,) * len(PHASES)
# The header's integers, in the order of their 8-byte cells.
MAGIC, VERSION, CAPACITY_CELL, HEAD, TAIL, DROPPED, PRODUCER_PID, CURRENT_PHASE = range(8)
INT64 = st.integers(-(2**63), 2**63 - 1)


@contextlib.contextmanager
def ring_memory(size: int = RING_BYTES, flags: int = os.MFD_ALLOW_SEALING) -> Iterator[int]:
    fd = os.memfd_create("ring", os.MFD_CLOEXEC | flags)
    try:
        os.ftruncate(fd, size)
        yield fd
    finally:
        os.close(fd)


def records(ring: PhaseRing) -> list[tuple[int, int, float]]:
    return list(RECORD.iter_unpack(ring.drain()))


def set_cell(fd: int, cell: int, value: int) -> None:
    os.pwrite(fd, struct.pack("<q", value), cell * 8)


def run_python(code: str, fd: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(fd)],
        pass_fds=[fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
