"""Phase marks of a training process, in a single-producer ring of shared memory."""

import math
import os
from collections.abc import Sequence

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memcpy
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.unistd cimport getpid

include "posix.pxi"
include "ring.pxi"


cdef enum:
    SLICE_NS = 5000000  # a stretched phase notices a new clock, and a signal, this often


RING_BYTES: int = sizeof(Shared)
STEP: int = STEP_KIND
BREAK: int = BREAK_KIND


@cython.final
cdef class PhaseRing:
    """A ring of 24-byte records (int64 t_ns, int64 kind, double value) in shared memory.

    Kinds 0 to 6 say that this phase (orin_gov.phases) begins at t_ns, of CLOCK_MONOTONIC; kind
    STEP says that an optimizer step ended, and its value is the work done in it (NaN = unknown);
    kind BREAK that another process marks from here on, as the one before has ended.
    Other kinds (orin_gov.counts) are for `put`.

    fd: a memfd of RING_BYTES, which may be closed afterwards. Make it with MFD_ALLOW_SEALING: it is
    sealed against resizing here, as a process that shrank it would kill the others with SIGBUS.
    Raises ValueError for memory of another size, origin or version, OSError if it cannot be mapped.

    One process's one thread produces (`claim`, `mark`, `turn`, `put`, `step`), one other's consumes
    (`drain`); the properties and `set_stretch` are for anyone. Each side may be hostile to the
    other: whatever is in the memory, no access leaves it. In the child of a fork `disable` must be
    called.
    """

    cdef Shared *_shared
    cdef int64_t _pid  # the producer's, if that is us; else 0
    cdef int64_t _ahead_ns  # how far marks so far overslept, in time at the top clock
    cdef int _sleepers
    cdef bint _closed

    def __init__(self, fd: int) -> None:
        cdef int64_t size = os.fstat(fd).st_size
        if size != RING_BYTES:
            raise ValueError(f"phase ring: found {size} bytes of memory, expected {RING_BYTES}")
        if self._shared != NULL:
            raise RuntimeError("phase ring: made already; make another one")
        forbid_resizing(fd)
        cdef void *memory = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if memory == MAP_FAILED:
            raise OSError(errno, f"phase ring: {os.strerror(errno)}")
        self._shared = <Shared *>memory
        cdef Header *header = &self._shared.header
        if is_fresh(header):
            initialise(self._shared)
        if load_acquire(&header.magic) != MAGIC or header.capacity != CAPACITY:
            raise ValueError(
                f"phase ring: found magic {header.magic:#x} and capacity {header.capacity}, "
                f"expected {MAGIC:#x} and {CAPACITY}: this memory is something else"
            )
        if header.version != VERSION:
            raise ValueError(
                f"phase ring: found version {header.version}, expected {VERSION}: "
                "use the same orin_gov on both sides"
            )

    def __dealloc__(self):
        self._unmap()

    def claim(self) -> bool:
        """Become the producer; False if another process is, and has not ended."""
        cdef Shared *shared = self._mapped()
        cdef int64_t pid = getpid()
        cdef int64_t before = load_acquire(&shared.header.producer_pid)
        if before != pid and (before == 0 or has_ended(before)):
            if replace(&shared.header.producer_pid, before, pid):
                shared.header.phase_begin_ns = now_ns()
                store_release(&shared.header.current_phase, 0)
                if before != 0:
                    append(shared, Record(now_ns(), BREAK_KIND, 0.0))
        self._pid = pid if load_acquire(&shared.header.producer_pid) == pid else 0
        return self._pid != 0

    def mark(self, phase: int) -> None:
        """Leave the current phase and enter `phase` now; nothing unless we are the producer.

        On a virtual board, first sleep (without the GIL) until the phase being left has lasted as
        long as at the present clock. Raises ValueError for a phase outside 0 to 6.
        """
        cdef int64_t kind = phase
        cdef int64_t time_ns = self._turn(kind)
        if time_ns:
            append(self._shared, Record(time_ns, kind, 0.0))

    def turn(self, phase: int) -> int:
        """Do what `mark` does but for the record; return the time (0 = we are not the producer)."""
        return self._turn(phase)

    def put(self, t_ns: int, kind: int, value: float) -> None:
        """Record anything; nothing unless we are the producer."""
        if self._is_producer():
            append(self._shared, Record(t_ns, kind, value))

    def step(self, work: float) -> None:
        """Record the end of an optimizer step that did `work` tokens or samples (NaN = unknown)."""
        if self._is_producer():
            append(self._shared, Record(now_ns(), STEP_KIND, work))

    def disable(self) -> None:
        """Turn `mark`, `turn`, `put` and `step` of this object into no-ops."""
        self._pid = 0

    def drain(self) -> bytes:
        """Return the records since the last drain, 24 bytes each."""
        cdef Shared *shared = self._mapped()
        cdef int64_t head = load_acquire(&shared.header.head)
        cdef int64_t tail = shared.header.tail
        cdef uint64_t count = distance(head, tail)
        if count > CAPACITY:
            # No producer of ours leaves this behind; how much was lost is unknown.
            add_to(&shared.header.dropped, CAPACITY)
            count = 0
        cdef bytes records = PyBytes_FromStringAndSize(NULL, count * sizeof(Record))
        cdef char *out = PyBytes_AS_STRING(records)
        cdef uint64_t begin = <uint64_t>tail % CAPACITY
        cdef uint64_t before_wrap = min(count, CAPACITY - begin)
        memcpy(out, &shared.records[begin], before_wrap * sizeof(Record))
        memcpy(out + before_wrap * sizeof(Record), &shared.records[0],
               (count - before_wrap) * sizeof(Record))
        store_release(&shared.header.tail, head)
        return records

    def set_stretch(self, factors: Sequence[float]) -> None:
        """Set how many times longer than at the top clock each of the 7 phases lasts.

        Raises ValueError unless these are 7 finite numbers of at least 1.
        """
        cdef Shared *shared = self._mapped()
        cdef int i
        values = [float(factor) for factor in factors]
        if len(values) != PHASES or not all(1.0 <= v and math.isfinite(v) for v in values):
            raise ValueError(f"stretch {values}: expected {PHASES} finite numbers of at least 1")
        for i in range(PHASES):
            store_double(&shared.header.stretch[i], values[i])

    @property
    def current_phase(self) -> int:
        """The phase the producer is in."""
        return current_phase(self._mapped())

    @property
    def producer_pid(self) -> int:
        """The producer's process id; 0 = none has claimed the ring."""
        return load_acquire(&self._mapped().header.producer_pid)

    @property
    def dropped(self) -> int:
        """Records dropped because the ring was full, or lost to a damaged header."""
        return load_acquire(&self._mapped().header.dropped)

    @property
    def marks(self) -> int:
        """Records written so far."""
        return load_acquire(&self._mapped().header.head)

    @property
    def stretch(self) -> tuple[float, ...]:
        """How many times longer than at the top clock each phase lasts."""
        cdef Shared *shared = self._mapped()
        return tuple([load_double(&shared.header.stretch[i]) for i in range(PHASES)])

    def close(self) -> None:
        """Unmap the memory; `mark` and `step` do nothing from now on, all else is ValueError."""
        self._closed = True
        self._pid = 0
        if self._sleepers == 0:
            self._unmap()

    cdef void _unmap(self) noexcept:
        if self._shared != NULL:
            munmap(self._shared, sizeof(Shared))
            self._shared = NULL

    cdef Shared *_mapped(self) except NULL:
        if self._closed or self._shared == NULL:
            raise ValueError("phase ring: closed already")
        return self._shared

    cdef bint _is_producer(self) noexcept:
        return self._pid != 0 and load_acquire(&self._shared.header.producer_pid) == self._pid

    cdef int64_t _turn(self, int64_t kind) except -1:
        if not 0 <= kind < PHASES:
            raise ValueError(f"phase {kind}: expected 0 to {PHASES - 1}")
        if not self._is_producer():
            return 0
        cdef Header *header = &self._shared.header
        cdef int64_t left = current_phase(self._shared)
        if load_double(&header.stretch[left]) > 1.0:
            self._lengthen(&header.stretch[left], now_ns() - header.phase_begin_ns)
            if self._closed:
                return 0
        cdef int64_t time_ns = now_ns()
        header.phase_begin_ns = time_ns
        store_release(&header.current_phase, kind)
        return time_ns

    cdef int _lengthen(self, const double *factor, int64_t elapsed_ns) except -1:
        """Sleep until work that took `elapsed_ns` at the top clock is done at the present one.

        At the clock of a factor s, a second does 1/s seconds of that work; the clock, and with it
        the factor, may change meanwhile.
        """
        cdef double stretch = max(1.0, load_double(factor))
        cdef double remaining_ns = elapsed_ns - elapsed_ns / stretch - self._ahead_ns
        cdef int64_t begin_ns = now_ns()
        cdef int64_t end_ns
        self._sleepers += 1
        try:
            while remaining_ns > 0:
                stretch = max(1.0, load_double(factor))
                end_ns = begin_ns + <int64_t>min(<double>SLICE_NS, remaining_ns * stretch)
                with nogil:
                    sleep_until(end_ns)
                PyErr_CheckSignals()
                end_ns = now_ns()
                remaining_ns -= (end_ns - begin_ns) / stretch
                begin_ns = end_ns
            self._ahead_ns = <int64_t>-remaining_ns
        finally:
            self._sleepers -= 1
            if self._closed and self._sleepers == 0:
                self._unmap()
        return 0
