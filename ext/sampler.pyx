"""Reads power rails at a fixed rate in a native thread and integrates their energy."""

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

cimport cython
from libc.math cimport NAN
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_THREAD_CPUTIME_ID

include "posix.pxi"
include "rail.pxi"


cdef enum:
    STOP_CHECK_NS = 50000000  # the longest sleep, so that stop() is noticed at any period
    CPU_EVERY = 16  # this clock is a system call, a tenth of the cost of a sweep
    SLOW_NS = 200000  # a sweep that takes half of it waits for a bus, which others use as well
    SMOOTH = 8  # the cost of a sweep is averaged over about so many


class RailQuality(NamedTuple):
    """How well one rail was read since the sampler was made; reads + errors = its sweeps.

    `reads` are good readings and `errors` failed ones, `repeats` good readings equal to the one
    before, `gaps` spans too long to integrate; `last_errno` is the last failure's (0 = none yet).
    """

    reads: int
    errors: int
    repeats: int
    gaps: int
    last_errno: int


class Samples(NamedTuple):
    """What `drain` returns: n sweeps over all rails, oldest first; times are CLOCK_MONOTONIC.

    t_ns:       int64[n], the middle of the sweep
    power_w:    float64[n, rails], watts; NaN = missing
    energy_j:   float64[n, rails], joules integrated since the sampler was made
    missing_ns: float64[n, rails], nanoseconds that energy_j does not cover, without the time
                before the rail's first good reading and after its last
    """

    t_ns: np.ndarray
    power_w: np.ndarray
    energy_j: np.ndarray
    missing_ns: np.ndarray


@cython.final
cdef class Sampler:
    """Samples rails every `period_ns` on an absolute grid of CLOCK_MONOTONIC.

    rails:         (voltage file in mV, current file in mA) of each rail; a file that is not there
                   is looked for as a pattern, as in hwmon/hwmon*/in1_input: a chip that comes back
                   has another number
    gap_ns:        good readings of a rail further apart than this are not joined by energy
    capacity:      sweeps kept until `drain`; older ones are overwritten and counted in `dropped`
    voltage_every: the voltage is read each so many sweeps, the rails taking turns, and the last
                   good one used between

    Where a sweep waits for a bus, the period is lengthened to twice what a sweep takes: the bus is
    not ours alone. `rate_hz` tells what came of it.
    A rail that cannot be read is NaN in the sample and counted in `quality`, never an exception.
    Raises ValueError for a number that is not positive. Thread-safe: any thread may call any
    method; none waits for a file that hangs.
    """

    cdef object _paths  # keeps alive the bytes that the rails point to
    cdef object _thread
    cdef object _lifecycle
    cdef pthread_mutex_t _mutex  # guards what is published: all below down to _swept
    cdef long long[::1] _t_ns
    cdef double[:, ::1] _power_w
    cdef double[:, ::1] _energy_j
    cdef double[:, ::1] _missing_ns
    cdef Quality *_quality
    cdef int64_t _head
    cdef int64_t _tail
    cdef int64_t _dropped
    cdef int64_t _overruns
    cdef int64_t _thread_cpu_ns
    cdef int64_t _grid_ns
    cdef int64_t _first_ns  # of the sweeps since the thread started, when the first one ended,
    cdef int64_t _newest_ns  # when the last one did,
    cdef int64_t _since_start  # and how many they are
    cdef Rail *_rails  # from here on the thread's own, but for _stopping
    cdef Py_ssize_t _rail_count
    cdef double *_sweep_w
    cdef int64_t _period_ns
    cdef int64_t _gap_ns
    cdef int64_t _capacity
    cdef int64_t _voltage_every
    cdef int64_t _cost_ns
    cdef int64_t _stopping

    def __cinit__(self, rails, *_args, **_options):
        self._rail_count = len(rails)
        self._rails = <Rail *>calloc(max(1, self._rail_count), sizeof(Rail))
        self._quality = <Quality *>calloc(max(1, self._rail_count), sizeof(Quality))
        self._sweep_w = <double *>calloc(max(1, self._rail_count), sizeof(double))
        if self._rails == NULL or self._quality == NULL or self._sweep_w == NULL:
            raise MemoryError
        pthread_mutex_init(&self._mutex, NULL)

    def __init__(
        self,
        rails: Sequence[tuple[str, str]],
        period_ns: int,
        gap_ns: int,
        capacity: int = 16384,
        voltage_every: int = 1,
    ) -> None:
        for name, value in (("period_ns", period_ns), ("gap_ns", gap_ns),
                            ("capacity", capacity), ("voltage_every", voltage_every)):
            if value <= 0:
                raise ValueError(f"{name} is {value}; expected a positive number")
        self._period_ns = period_ns
        self._gap_ns = gap_ns
        self._capacity = capacity
        self._voltage_every = voltage_every
        self._lifecycle = threading.Lock()
        self._paths = [(os.fsencode(voltage), os.fsencode(current)) for voltage, current in rails]
        self._t_ns = np.zeros(capacity, np.int64)
        shape = (capacity, self._rail_count)
        self._power_w, self._energy_j, self._missing_ns = (np.zeros(shape) for _ in range(3))
        for i, (voltage, current) in enumerate(self._paths):
            self._rails[i].voltage_path = voltage
            self._rails[i].current_path = current
            self._rails[i].voltage_fd = self._rails[i].current_fd = -1

    def __dealloc__(self):
        # The thread holds a reference to its sampler: whoever comes here has none running.
        free(self._rails)
        free(self._quality)
        free(self._sweep_w)
        pthread_mutex_destroy(&self._mutex)

    def start(self) -> None:
        """Start the thread, which opens the files; RuntimeError if one is running."""
        with self._lifecycle:
            if self._thread is not None and self._thread.is_alive():
                raise RuntimeError("the sampler is running already: stop() it first")
            store_release(&self._stopping, 0)
            self._thread = threading.Thread(
                target=self._run, name="orin_gov-sampler", daemon=True
            )
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> bool:
        """Stop the thread; False if it hangs in a read, where it is left behind."""
        with self._lifecycle:
            if self._thread is None:
                return True
            store_release(&self._stopping, 1)
            self._thread.join(timeout_s)
            return not self._thread.is_alive()

    def drain(self) -> Samples:
        """Return what was sampled since the last drain."""
        cdef int64_t count
        with nogil:
            pthread_mutex_lock(&self._mutex)
            count = self._head - self._tail
            pthread_mutex_unlock(&self._mutex)
        shape = (count, self._rail_count)
        samples = Samples(np.empty(count, np.int64), np.empty(shape), np.empty(shape),
                          np.empty(shape))
        cdef long long[::1] t_ns = samples.t_ns
        cdef double[:, ::1] power = samples.power_w
        cdef double[:, ::1] energy = samples.energy_j
        cdef double[:, ::1] missing = samples.missing_ns
        with nogil:
            pthread_mutex_lock(&self._mutex)
            # Another thread may have drained meanwhile; what was sampled meanwhile can wait.
            count = min(count, self._head - self._tail)
            self._copy_out(count, t_ns, power, energy, missing)
            pthread_mutex_unlock(&self._mutex)
        return Samples(*(column[:count] for column in samples))

    def quality(self) -> list[RailQuality]:
        """Return each rail's counts, as of its last sweep."""
        cdef Quality quality
        counts = []
        for i in range(self._rail_count):
            with nogil:
                pthread_mutex_lock(&self._mutex)
                quality = self._quality[i]
                pthread_mutex_unlock(&self._mutex)
            counts.append(RailQuality(quality.reads, quality.errors, quality.repeats,
                                      quality.gaps, quality.last_errno))
        return counts

    @property
    def sweeps(self) -> int:
        """Sweeps over all rails so far."""
        return self._published(&self._head)

    @property
    def overruns(self) -> int:
        """Deadlines missed because a sweep or a wake-up was late."""
        return self._published(&self._overruns)

    @property
    def dropped(self) -> int:
        """Samples overwritten before they were drained."""
        return self._published(&self._dropped)

    @property
    def thread_cpu_s(self) -> float:
        """Processor seconds the thread used, as of one of its last 16 sweeps."""
        return self._published(&self._thread_cpu_ns) * 1e-9

    @property
    def rate_hz(self) -> float | None:
        """Sweeps a second really achieved since the last start; None before there are two."""
        cdef int64_t count, span_ns
        with nogil:
            pthread_mutex_lock(&self._mutex)
            count = self._since_start - 1
            span_ns = self._newest_ns - self._first_ns
            pthread_mutex_unlock(&self._mutex)
        return count * 1e9 / span_ns if count > 0 else None

    @property
    def grid_ns(self) -> int:
        """The first deadline since the last start (CLOCK_MONOTONIC); the others follow it."""
        return self._published(&self._grid_ns)

    def _run(self):
        with nogil:
            self._loop()

    cdef int64_t _published(self, const int64_t *counter) noexcept nogil:
        pthread_mutex_lock(&self._mutex)
        cdef int64_t value = counter[0]
        pthread_mutex_unlock(&self._mutex)
        return value

    cdef void _copy_out(self, int64_t count, long long[::1] t_ns, double[:, ::1] power,
                        double[:, ::1] energy, double[:, ::1] missing) noexcept nogil:
        cdef int64_t i, slot
        cdef Py_ssize_t rail
        for i in range(count):
            slot = (self._tail + i) % self._capacity
            t_ns[i] = self._t_ns[slot]
            for rail in range(self._rail_count):
                power[i, rail] = self._power_w[slot, rail]
                energy[i, rail] = self._energy_j[slot, rail]
                missing[i, rail] = self._missing_ns[slot, rail]
        self._tail += count

    cdef void _loop(self) noexcept nogil:
        cdef int64_t deadline_ns = now_ns()
        cdef int64_t period_ns = self._period_ns
        cdef int64_t begin_ns, end_ns, missed
        cdef int64_t sweep = 0
        cdef Py_ssize_t i
        self._begin_grid(deadline_ns)
        while self._wait(deadline_ns):
            begin_ns = now_ns()
            end_ns = self._sweep(sweep, begin_ns)
            sweep += 1
            period_ns = self._affordable_period(end_ns - begin_ns)
            deadline_ns += period_ns
            missed = 0
            if end_ns >= deadline_ns:
                missed = (end_ns - deadline_ns) // period_ns + 1
                deadline_ns += missed * period_ns
            self._publish(begin_ns, end_ns, missed)
        for i in range(self._rail_count):
            close_rail(&self._rails[i])
            self._rails[i].next_open_ns = 0

    cdef void _begin_grid(self, int64_t deadline_ns) noexcept nogil:
        pthread_mutex_lock(&self._mutex)
        self._grid_ns = deadline_ns
        self._since_start = 0
        self._cost_ns = 0
        pthread_mutex_unlock(&self._mutex)

    cdef int64_t _affordable_period(self, int64_t cost_ns) noexcept nogil:
        """Return the whole number of periods to the next deadline, given what a sweep cost."""
        cdef int64_t wanted_ns
        # One read that hung says nothing about the next: the average at most doubles in a while.
        cost_ns = min(cost_ns, max(SLOW_NS, 2 * self._cost_ns))
        self._cost_ns += (cost_ns - self._cost_ns) // SMOOTH
        if self._cost_ns < SLOW_NS // 2:
            return self._period_ns
        # A rail of which every reading times out must not make holes of the others.
        wanted_ns = min(2 * self._cost_ns, self._gap_ns // 2)
        return max(1, (wanted_ns - 1) // self._period_ns + 1) * self._period_ns

    cdef bint _wait(self, int64_t deadline_ns) noexcept nogil:
        """Sleep until the deadline; False as soon as the sampler is told to stop."""
        cdef int64_t time_ns = now_ns()
        while time_ns < deadline_ns and load_acquire(&self._stopping) == 0:
            sleep_until(min(deadline_ns, time_ns + STOP_CHECK_NS))
            time_ns = now_ns()
        return load_acquire(&self._stopping) == 0

    cdef int64_t _sweep(self, int64_t sweep, int64_t time_ns) noexcept nogil:
        """Read every rail; return the time of the end."""
        cdef Py_ssize_t i
        cdef int error
        cdef Rail *rail
        cdef Reading reading
        for i in range(self._rail_count):
            rail = &self._rails[i]
            error = read_rail(rail, (sweep + i) % self._voltage_every == 0, &time_ns, &reading)
            if error == 0:
                account(rail, &reading, self._gap_ns)
                self._sweep_w[i] = power_w(&reading)
            else:
                rail.quality.errors += 1
                rail.quality.last_errno = error
                self._sweep_w[i] = NAN
        return time_ns

    cdef void _publish(self, int64_t begin_ns, int64_t end_ns, int64_t missed) noexcept nogil:
        cdef timespec cpu
        cdef Py_ssize_t i
        cdef int64_t slot
        cdef int64_t thread_cpu_ns = self._thread_cpu_ns
        if self._head % CPU_EVERY == 0:
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu)
            thread_cpu_ns = <int64_t>cpu.tv_sec * 1000000000 + cpu.tv_nsec
        pthread_mutex_lock(&self._mutex)
        slot = self._head % self._capacity
        self._t_ns[slot] = begin_ns + (end_ns - begin_ns) // 2
        for i in range(self._rail_count):
            self._power_w[slot, i] = self._sweep_w[i]
            self._energy_j[slot, i] = self._rails[i].energy_j + self._rails[i].compensation_j
            self._missing_ns[slot, i] = self._rails[i].missing_ns
            self._quality[i] = self._rails[i].quality
        self._head += 1
        if self._head - self._tail > self._capacity:
            self._tail += 1
            self._dropped += 1
        self._overruns += missed
        self._newest_ns = end_ns
        if self._since_start == 0:
            self._first_ns = end_ns
        self._since_start += 1
        self._thread_cpu_ns = thread_cpu_ns
        pthread_mutex_unlock(&self._mutex)
