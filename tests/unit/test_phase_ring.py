"""The phase ring between producer and consumer: nothing is lost uncounted."""

import math
import os
import struct
import time

import pytest
from rings import CAPACITY, UNIT_STRETCH, records, ring_memory, run_python

from orin_gov._phases import BREAK, STEP, PhaseRing
from orin_gov.phases import BACKWARD, DATA, FORWARD, IDLE, OPTIMIZER, PHASES

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
