"""The phase ring: what one process marks, another reads, whatever either does to the memory."""

import contextlib
import ctypes
import math
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov._phases import BREAK, RING_BYTES, STEP, PhaseRing
from orin_gov.phases import BACKWARD, DATA, FORWARD, IDLE, OPTIMIZER, PHASES

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


@pytest.fixture
def fd() -> Iterator[int]:
    with ring_memory() as descriptor:
        yield descriptor


@pytest.fixture
def producer(fd: int) -> PhaseRing:
    ring = PhaseRing(fd)
    assert ring.claim()
    return ring


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


def wait_for(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.001)


# What is written is what is read.


def test_marks_and_steps_are_read_in_order_with_monotonic_times(producer: PhaseRing) -> None:
    begin_ns = time.monotonic_ns()
    producer.mark(FORWARD)
    producer.mark(BACKWARD)
    producer.step(4096.0)
    producer.mark(IDLE)
    end_ns = time.monotonic_ns()

    read = records(producer)

    assert [(kind, value) for _, kind, value in read] == [
        (FORWARD, 0.0),
        (BACKWARD, 0.0),
        (STEP, 4096.0),
        (IDLE, 0.0),
    ]
    times = [begin_ns, *(t for t, _, _ in read), end_ns]
    assert times == sorted(times)
    assert producer.drain() == b""
    assert producer.marks == 4


def test_unknown_work_stays_unknown(producer: PhaseRing) -> None:
    producer.step(math.nan)
    assert math.isnan(records(producer)[0][2])


def test_marking_the_current_phase_records_it_again(producer: PhaseRing) -> None:
    producer.mark(DATA)
    producer.mark(DATA)
    assert [kind for _, kind, _ in records(producer)] == [DATA, DATA]


@pytest.mark.parametrize("phase", [-1, len(PHASES), STEP])
def test_a_phase_without_a_name_is_refused(producer: PhaseRing, phase: int) -> None:
    with pytest.raises(ValueError, match="expected 0 to 6"):
        producer.mark(phase)
    assert producer.marks == 0


def test_a_second_view_of_the_memory_sees_the_state(fd: int, producer: PhaseRing) -> None:
    viewer = PhaseRing(fd)
    producer.mark(OPTIMIZER)
    assert viewer.current_phase == OPTIMIZER
    assert viewer.producer_pid == os.getpid()
    assert viewer.stretch == UNIT_STRETCH
    assert viewer.dropped == 0


def test_the_descriptor_may_be_closed_after_construction() -> None:
    with ring_memory() as descriptor:
        ring = PhaseRing(descriptor)
    ring.claim()
    ring.mark(FORWARD)
    assert len(records(ring)) == 1


# A ring that is full, or wraps, or outlives its consumer.


def test_a_full_ring_drops_new_records_and_counts_them(producer: PhaseRing) -> None:
    for i in range(CAPACITY + 10):
        producer.step(float(i))
    producer.mark(BACKWARD)

    read = records(producer)

    assert [value for _, _, value in read] == [float(i) for i in range(CAPACITY)]
    assert producer.dropped == 11
    assert producer.marks == CAPACITY
    assert producer.current_phase == BACKWARD, "the phase is known even where its record is not"


def test_records_that_wrap_around_the_end_are_read_in_order(producer: PhaseRing) -> None:
    for i in range(CAPACITY - 3):
        producer.step(float(i))
    producer.drain()
    for i in range(10):
        producer.step(float(i))
    assert [value for _, _, value in records(producer)] == [float(i) for i in range(10)]
    assert producer.dropped == 0


def test_a_restarted_consumer_goes_on_where_the_last_one_stopped(
    fd: int, producer: PhaseRing
) -> None:
    first = PhaseRing(fd)
    producer.mark(FORWARD)
    assert len(records(first)) == 1
    first.close()
    producer.mark(BACKWARD)
    assert [kind for _, kind, _ in records(PhaseRing(fd))] == [BACKWARD]


def test_a_busy_producer_in_another_process_loses_nothing_uncounted(fd: int) -> None:
    ring = PhaseRing(fd)
    sent = 300_000
    child = run_python(
        "import sys; from orin_gov._phases import PhaseRing; ring = PhaseRing(int(sys.argv[1]))\n"
        f"ring.claim()\nfor i in range({sent}): ring.step(i)",
        fd,
    )
    read: list[tuple[int, int, float]] = []
    while child.poll() is None:
        read += records(ring)
    read += records(ring)

    assert child.returncode == 0
    values = [value for _, _, value in read]
    assert values == sorted(set(values))
    assert all(kind == STEP for _, kind, _ in read)
    assert len(values) + ring.dropped == sent
    assert ring.marks == len(values)
    child.communicate()


# One producer.


def test_one_of_many_processes_gets_the_claim(fd: int) -> None:
    code = (
        "import sys; from orin_gov._phases import PhaseRing; ring = PhaseRing(int(sys.argv[1]))\n"
        "print('ready', flush=True); input(); claims = ring.claim(), ring.claim()\n"
        "ring.mark(2); print(claims, flush=True); input()"
    )
    children = [run_python(code, fd) for _ in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    claims = [child.stdout.readline().strip() for child in children if child.stdout]
    ring = PhaseRing(fd)
    assert not ring.claim()
    for child in children:
        child.communicate("\n")

    assert sorted(claims) == ["(False, False)"] * 3 + ["(True, True)"]
    assert ring.producer_pid == children[claims.index("(True, True)")].pid
    assert ring.marks == 1, "only the producer's mark was written"


def test_a_producer_that_has_ended_is_followed_by_another(fd: int) -> None:
    code = (
        "import sys; from orin_gov._phases import PhaseRing; ring = PhaseRing(int(sys.argv[1]))\n"
        "ring.claim(); ring.mark(2); print('marked', flush=True); input()"
    )
    child = run_python(code, fd)
    assert child.stdout is not None
    assert child.stdout.readline() == "marked\n"
    ring = PhaseRing(fd)
    assert not ring.claim()
    child.communicate("\n")
    assert ring.claim()
    assert ring.producer_pid == os.getpid()
    assert ring.current_phase == 0, "what the other was in, it is in no more"
    ring.mark(FORWARD)
    kinds = [kind for _, kind, _ in struct.iter_unpack("qqd", ring.drain())]
    assert kinds == [2, BREAK, FORWARD]


def test_who_has_not_claimed_marks_nothing(fd: int) -> None:
    ring = PhaseRing(fd)
    ring.mark(FORWARD)
    ring.step(1.0)
    assert ring.marks == 0
    assert ring.producer_pid == 0


def test_a_disabled_ring_marks_nothing(producer: PhaseRing) -> None:
    producer.disable()
    producer.mark(FORWARD)
    producer.step(1.0)
    assert producer.marks == 0


def test_a_forked_child_cannot_write_once_disabled(producer: PhaseRing) -> None:
    producer.mark(FORWARD)
    pid = os.fork()
    if pid == 0:
        producer.disable()
        claimed = producer.claim()
        producer.mark(BACKWARD)
        producer.step(1.0)
        os._exit(1 if claimed else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    producer.mark(OPTIMIZER)
    assert [kind for _, kind, _ in records(producer)] == [FORWARD, OPTIMIZER]


# Memory that is not what it should be.


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


# A virtual board stretches phases.


def stretch_of(phase: int, factor: float) -> list[float]:
    factors = list(UNIT_STRETCH)
    factors[phase] = factor
    return factors


def busy(duration_s: float) -> float:
    """Compute for `duration_s`; return the seconds it really took."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < duration_s:
        pass
    return time.perf_counter() - begin


def test_a_stretched_phase_lasts_its_factor_longer(producer: PhaseRing) -> None:
    producer.set_stretch(stretch_of(FORWARD, 2.5))
    producer.mark(FORWARD)
    busy(0.1)
    producer.mark(BACKWARD)
    busy(0.1)
    producer.mark(IDLE)
    forward, backward, idle = [t for t, _, _ in records(producer)]
    # Late by a little, as other processes may hold the processor.
    assert 0.25 <= (backward - forward) * 1e-9 < 0.35
    assert 0.1 <= (idle - backward) * 1e-9 < 0.2


def test_short_stretched_phases_add_up_to_their_factor(producer: PhaseRing) -> None:
    producer.set_stretch([2.0] * len(PHASES))
    begin = time.perf_counter()
    producer.mark(IDLE)
    worked = 0.0
    for _ in range(1000):
        worked += busy(0.0002)
        producer.mark(FORWARD)
    # Each sleep alone is late by some 0.05 ms: without a carry that would be 12 % more.
    assert time.perf_counter() - begin == pytest.approx(2.0 * worked, rel=0.08)


def test_a_faster_clock_ends_a_stretched_phase_at_once(fd: int, producer: PhaseRing) -> None:
    supervisor = PhaseRing(fd)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    marking = threading.Thread(target=producer.mark, args=(IDLE,))
    marking.start()
    marking.join(0.1)
    assert marking.is_alive(), "50 ms of work take 50 s at this clock"
    supervisor.set_stretch(UNIT_STRETCH)
    marking.join(5.0)
    assert not marking.is_alive()
    assert [kind for _, kind, _ in records(producer)] == [FORWARD, IDLE]


def test_a_slower_clock_lengthens_what_is_left_of_the_phase(fd: int, producer: PhaseRing) -> None:
    producer.set_stretch(stretch_of(FORWARD, 2.0))
    begin = time.monotonic()
    producer.mark(FORWARD)
    busy(0.2)
    marking = threading.Thread(target=producer.mark, args=(IDLE,))
    marking.start()
    marking.join(0.1)
    PhaseRing(fd).set_stretch(stretch_of(FORWARD, 4.0))
    changed = time.monotonic()
    marking.join()
    end_s = records(producer)[1][0] * 1e-9
    # Half was left after 0.2 s; what of it was not done by the change takes four times as long.
    left_s = 0.1 - (changed - begin - 0.2) / 2.0
    assert end_s - changed == pytest.approx(4.0 * left_s, abs=0.08)


def test_a_signal_interrupts_a_stretched_phase(producer: PhaseRing) -> None:
    def on_alarm(*_: object) -> None:
        raise InterruptedError

    previous = signal.signal(signal.SIGALRM, on_alarm)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedError):
            producer.mark(IDLE)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert time.monotonic() - begin < 5.0


@pytest.mark.parametrize(
    "factors",
    [[1.0] * 6, [1.0] * 8, [0.99] + [1.0] * 6, [math.nan] + [1.0] * 6, [math.inf] + [1.0] * 6],
)
def test_factors_that_are_no_slowdown_are_refused(
    producer: PhaseRing, factors: list[float]
) -> None:
    with pytest.raises(ValueError, match="7 finite numbers of at least 1"):
        producer.set_stretch(factors)
    assert producer.stretch == UNIT_STRETCH


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


def test_closing_while_a_mark_sleeps_is_safe(fd: int, producer: PhaseRing) -> None:
    viewer = PhaseRing(fd)
    producer.set_stretch(stretch_of(FORWARD, 1000.0))
    producer.mark(FORWARD)
    busy(0.05)
    marking = threading.Thread(target=producer.mark, args=(IDLE,))
    marking.start()
    marking.join(0.05)
    producer.close()
    viewer.set_stretch(UNIT_STRETCH)
    marking.join(5.0)
    assert not marking.is_alive()
    assert [kind for _, kind, _ in records(viewer)] == [FORWARD]


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


# A mark in two parts, for who knows its time only later.


def test_a_turn_changes_the_phase_and_a_put_records_it(producer: PhaseRing) -> None:
    t_ns = producer.turn(FORWARD)
    assert abs(time.monotonic_ns() - t_ns) < 10**9
    assert producer.current_phase == FORWARD
    assert producer.drain() == b""
    producer.put(t_ns + 5, FORWARD, 2.5)
    producer.put(-1, 2**62, math.inf)
    assert records(producer) == [(t_ns + 5, FORWARD, 2.5), (-1, 2**62, math.inf)]


@pytest.mark.parametrize("phase", [-1, len(PHASES), STEP])
def test_a_turn_to_no_phase_is_refused(producer: PhaseRing, phase: int) -> None:
    with pytest.raises(ValueError, match=f"phase {phase}: expected 0 to"):
        producer.turn(phase)


def test_who_is_not_the_producer_neither_turns_nor_puts(fd: int, producer: PhaseRing) -> None:
    other = PhaseRing(fd)
    assert other.turn(FORWARD) == 0
    other.put(1, FORWARD, 0.0)
    producer.close()
    assert producer.turn(FORWARD) == 0
    producer.put(1, FORWARD, 0.0)
    assert other.marks == 0
    assert other.current_phase == IDLE


def test_a_turn_waits_for_a_stretched_phase_as_a_mark_does(producer: PhaseRing) -> None:
    producer.set_stretch(stretch_of(FORWARD, 3.0))
    begin_ns = producer.turn(FORWARD)
    busy(0.05)
    assert producer.turn(IDLE) - begin_ns >= 0.15e9
