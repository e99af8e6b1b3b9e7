"""The phase ring's memory: refused where it is another, harmless whatever it holds, let go of when closed."""

import ctypes
import mmap
import os
import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rings import (
    CAPACITY,
    CAPACITY_CELL,
    CURRENT_PHASE,
    HEAD,
    INT64,
    MAGIC,
    PRODUCER_PID,
    RECORD,
    TAIL,
    UNIT_STRETCH,
    VERSION,
    records,
    ring_memory,
    run_python,
    set_cell,
)

from orin_gov._phases import RING_BYTES, PhaseRing
from orin_gov.phases import FORWARD, IDLE, PHASES


@pytest.mark.parametrize("size", [0, 4096, RING_BYTES - 1, RING_BYTES + 1])
def test_memory_of_another_size_is_refused(size: int) -> None:
    with (
        ring_memory(size) as descriptor,
        pytest.raises(ValueError, match=f"found {size} bytes.*expected {RING_BYTES}"),
    ):
        PhaseRing(descriptor)


@pytest.mark.parametrize(
    ("cell", "value", "found"),
    [
        (MAGIC, 0x1234, "magic 0x1234"),
        (MAGIC, 0, "magic 0x0"),
        (VERSION, 7, "version 7, expected 1"),
        (CAPACITY_CELL, 2**40, f"capacity {2**40}"),
    ],
)
def test_a_foreign_header_is_refused(fd: int, cell: int, value: int, found: str) -> None:
    PhaseRing(fd)
    set_cell(fd, cell, value)
    with pytest.raises(ValueError, match=found):
        PhaseRing(fd)


def test_a_descriptor_that_is_no_file_is_refused() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        PhaseRing(-1)


def test_memory_that_cannot_be_mapped_shared_and_writable_is_refused(fd: int) -> None:
    read_only = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="phase ring"):
            PhaseRing(read_only)
    finally:
        os.close(read_only)


def test_the_memory_cannot_be_shrunk_under_the_other_side(fd: int) -> None:
    PhaseRing(fd)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)


def test_memory_that_cannot_be_sealed_works() -> None:
    with ring_memory(flags=0) as descriptor:
        assert PhaseRing(descriptor).claim()


@settings(max_examples=300, deadline=None)
@given(head=INT64, tail=INT64)
def test_a_hostile_header_never_yields_more_than_the_ring_holds(head: int, tail: int) -> None:
    with ring_memory() as descriptor:
        ring = PhaseRing(descriptor)
        ring.claim()
        set_cell(descriptor, HEAD, head)
        set_cell(descriptor, TAIL, tail)
        distance = (head - tail) % 2**64

        drained = len(ring.drain()) // RECORD.size

        assert drained == (distance if distance <= CAPACITY else 0)
        assert ring.dropped == (0 if distance <= CAPACITY else CAPACITY)
        ring.mark(FORWARD)
        assert [kind for _, kind, _ in records(ring)] == [FORWARD], "the ring works on"


@settings(deadline=None)
@given(cells=st.lists(INT64, min_size=16, max_size=16))
def test_a_producer_survives_any_header(cells: list[int]) -> None:
    with ring_memory() as descriptor:
        ring = PhaseRing(descriptor)
        ring.claim()
        cells[PRODUCER_PID] = os.getpid()
        cells[9:16] = [struct.unpack("<q", struct.pack("<d", 1.0))[0]] * 7
        os.pwrite(descriptor, struct.pack("<16q", *cells), 0)
        phase = ring.current_phase
        ring.mark(FORWARD)
        ring.step(1.0)
        assert phase in range(len(PHASES))
        assert len(ring.drain()) <= CAPACITY * RECORD.size


def test_a_header_scribbled_on_during_drains_stays_harmless(fd: int) -> None:
    ring = PhaseRing(fd)
    child = run_python(
        "import os, random, struct, sys; fd = int(sys.argv[1]); print('on', flush=True)\n"
        "for _ in range(200_000): os.pwrite(fd, random.randbytes(16), 24)",
        fd,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "on\n"
    while child.poll() is None:
        drained = ring.drain()
        assert len(drained) % RECORD.size == 0
        assert len(drained) <= CAPACITY * RECORD.size
    child.communicate()
    assert child.returncode == 0


def test_a_phase_outside_the_names_reads_as_idle(fd: int) -> None:
    ring = PhaseRing(fd)
    set_cell(fd, CURRENT_PHASE, 10**12)
    assert ring.current_phase == IDLE


# Closing.


def test_a_closed_ring_ignores_marks_and_refuses_reads(producer: PhaseRing) -> None:
    producer.close()
    producer.close()
    producer.mark(FORWARD)
    producer.step(1.0)
    uses: list[Callable[[], object]] = [
        producer.drain,
        producer.claim,
        lambda: producer.marks,
        lambda: producer.stretch,
        lambda: producer.set_stretch(UNIT_STRETCH),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_closed_or_forgotten_ring_leaves_no_mapping() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return sum("memfd:ring" in line for line in maps)

    before = mappings()
    for _ in range(20):
        with ring_memory() as descriptor:
            PhaseRing(descriptor).close()
            PhaseRing(descriptor)
            set_cell(descriptor, VERSION, 9)
            with pytest.raises(ValueError, match="found"):
                PhaseRing(descriptor)
    assert mappings() == before


def test_the_layout_is_the_documented_one(fd: int, producer: PhaseRing) -> None:
    producer.mark(FORWARD)
    with mmap.mmap(fd, RING_BYTES) as memory:
        t_ns, kind, value = RECORD.unpack_from(memory, RING_BYTES - CAPACITY * RECORD.size)
    assert (t_ns, kind, value) == records(producer)[0]
    assert ctypes.sizeof(ctypes.c_int64) * 16 + CAPACITY * RECORD.size == RING_BYTES
