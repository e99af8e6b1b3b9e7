"""Sets a devfreq range in an order valid at every moment, and reads back what came of it."""

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

cimport cython

include "posix.pxi"
include "devfreq.pxi"


cdef enum:
    FINISHED = 1024


class Transition(NamedTuple):
    """One request and what became of it; times are CLOCK_MONOTONIC, frequencies in Hz.

    requested_ns: when it was asked for
    begun_ns:     when the thread went about the writes
    issued_ns:    when both writes had returned
    achieved_ns:  when cur_freq was first read within the range; None = not before the timeout
    achieved_hz:  the last cur_freq read; None = unreadable
    errno:        of the first write that failed; 0 = none, ECANCELED = not written: max_freq did
                  not read as expected
    """

    requested_ns: int
    begun_ns: int
    issued_ns: int
    achieved_ns: int | None
    min_hz: int
    max_hz: int
    achieved_hz: int | None
    errno: int


def _check_range(min_hz: int, max_hz: int) -> None:
    if not 0 <= min_hz <= max_hz:
        raise ValueError(
            f"range {min_hz} to {max_hz} Hz: expected 0 <= min_hz <= max_hz"
        )


def write_range(directory: str, min_hz: int, max_hz: int) -> None:
    """Write `directory`/min_freq and max_freq (Hz), synchronously and without the GIL.

    The order keeps min <= max at every moment, which JetPack 4 kernels insist on (EINVAL): when
    the range rises, or max_freq cannot be read, max first; when it falls, min first. The second
    write is attempted even if the first fails. Raises OSError for the first write that failed,
    with its path, and ValueError unless 0 <= min_hz <= max_hz. Thread-safe; two callers at once
    leave the range of either.
    """
    _check_range(min_hz, max_hz)
    cdef bytes min_freq = os.fsencode(os.path.join(directory, "min_freq"))
    cdef bytes max_freq = os.fsencode(os.path.join(directory, "max_freq"))
    cdef Paths paths = Paths(min_freq, max_freq, NULL)
    cdef int64_t low_hz = min_hz
    cdef int64_t high_hz = max_hz
    cdef Failure failure
    with nogil:
        failure = write_both(&paths, low_hz, high_hz)
    if failure.error:
        raise OSError(failure.error, os.strerror(failure.error), os.fsdecode(failure.path))


@cython.final
cdef class Actuator:
    """Sets ranges of the devfreq `directory` from a thread of its own; the latest request wins.

    allowed:    the frequencies (Hz) that may be written: the board's own table
    timeout_ns: how long cur_freq is watched for a range to take effect

    Thread-safe: any thread may call any method; only `stop` waits.
    """

    cdef tuple _files  # keeps alive the bytes that _paths points to
    cdef Paths _paths
    cdef object _allowed
    cdef object _thread
    cdef object _lifecycle
    cdef int64_t _timeout_ns
    cdef pthread_mutex_t _mutex  # guards all below
    cdef pthread_cond_t _wake
    cdef bint _stopping
    cdef bint _requested
    cdef bint _busy
    cdef Change _request
    cdef Change[FINISHED] _finished
    cdef int64_t _head
    cdef int64_t _tail

    def __cinit__(self, *_args, **_options):
        pthread_mutex_init(&self._mutex, NULL)
        pthread_cond_init(&self._wake, NULL)
        self._stopping = True  # until start()

    def __init__(
        self, directory: str, allowed: Sequence[int], timeout_ns: int = 100_000_000
    ) -> None:
        self._files = tuple(
            os.fsencode(os.path.join(directory, name))
            for name in ("min_freq", "max_freq", "cur_freq")
        )
        self._paths = Paths(self._files[0], self._files[1], self._files[2])
        self._allowed = frozenset(allowed)
        self._timeout_ns = timeout_ns
        self._lifecycle = threading.Lock()

    def __dealloc__(self):
        # The thread holds a reference to its actuator: whoever comes here has none running.
        pthread_cond_destroy(&self._wake)
        pthread_mutex_destroy(&self._mutex)

    def start(self) -> None:
        """Start the thread; RuntimeError if one is running."""
        with self._lifecycle:
            if self._thread is not None and self._thread.is_alive():
                raise RuntimeError("the actuator is running already: stop() it first")
            self._set_stopping(False)
            self._thread = threading.Thread(
                target=self._run, name="orin_gov-actuator", daemon=True
            )
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> bool:
        """Finish a pending request and end the thread; False if it hangs in a file."""
        with self._lifecycle:
            if self._thread is None:
                return True
            self._set_stopping(True)
            self._thread.join(timeout_s)
            return not self._thread.is_alive()

    def request(self, min_hz: int, max_hz: int, expected_max_hz: int = -1) -> None:
        """Ask for a range (Hz) and return at once.

        Where max_freq then reads another value than expected, another writer's, nothing is
        written; a negative one expects nothing.

        Raises ValueError if an end of it is not among the allowed frequencies or min_hz > max_hz,
        RuntimeError if the actuator is not started.
        """
        _check_range(min_hz, max_hz)
        for value in (min_hz, max_hz):
            if value not in self._allowed:
                raise ValueError(
                    f"{value} Hz is not in the board's table; expected one of "
                    f"{sorted(self._allowed)}"
                )
        cdef Change change
        change.min_hz = min_hz
        change.max_hz = max_hz
        change.expected_max_hz = expected_max_hz
        change.requested_ns = now_ns()
        if not self._place(&change):
            raise RuntimeError("the actuator is not started: call start() first")

    def drain(self) -> list[Transition]:
        """Return the transitions finished since the last drain, oldest first, 1024 at most."""
        cdef Change change
        transitions = []
        while self._pop(&change):
            transitions.append(Transition(
                change.requested_ns,
                change.begun_ns,
                change.issued_ns,
                change.achieved_ns if change.achieved else None,
                change.min_hz,
                change.max_hz,
                change.achieved_hz if change.readable else None,
                change.error,
            ))
        return transitions

    @property
    def pending(self) -> bool:
        """Whether a request waits or is being carried out."""
        cdef bint pending
        with nogil:
            pthread_mutex_lock(&self._mutex)
            pending = self._requested or self._busy
            pthread_mutex_unlock(&self._mutex)
        return pending

    def _run(self):
        with nogil:
            self._loop()

    cdef void _set_stopping(self, bint stopping) noexcept nogil:
        pthread_mutex_lock(&self._mutex)
        self._stopping = stopping
        pthread_cond_signal(&self._wake)
        pthread_mutex_unlock(&self._mutex)

    cdef bint _place(self, const Change *change) noexcept nogil:
        """Replace the waiting request; False where no thread will take it."""
        cdef bint placed
        pthread_mutex_lock(&self._mutex)
        placed = not self._stopping
        if placed:
            self._request = change[0]
            self._requested = True
            pthread_cond_signal(&self._wake)
        pthread_mutex_unlock(&self._mutex)
        return placed

    cdef bint _pop(self, Change *change) noexcept nogil:
        cdef bint found
        pthread_mutex_lock(&self._mutex)
        found = self._tail < self._head
        if found:
            change[0] = self._finished[self._tail % FINISHED]
            self._tail += 1
        pthread_mutex_unlock(&self._mutex)
        return found

    cdef bint _take(self, Change *change) noexcept nogil:
        """Wait for a request; False when told to stop and none is left."""
        cdef bint found
        pthread_mutex_lock(&self._mutex)
        while not self._requested and not self._stopping:
            pthread_cond_wait(&self._wake, &self._mutex)
        found = self._requested
        if found:
            change[0] = self._request
            self._requested = False
            self._busy = True
        pthread_mutex_unlock(&self._mutex)
        return found

    cdef void _finish(self, const Change *change) noexcept nogil:
        pthread_mutex_lock(&self._mutex)
        self._finished[self._head % FINISHED] = change[0]
        self._head += 1
        self._tail = max(self._tail, self._head - FINISHED)
        self._busy = False
        pthread_mutex_unlock(&self._mutex)

    cdef void _loop(self) noexcept nogil:
        cdef Change change
        while self._take(&change):
            change.begun_ns = now_ns()
            if is_foreign(&self._paths, change.expected_max_hz):
                change.error = ECANCELED
                change.issued_ns = now_ns()
                change.achieved = change.readable = False
            else:
                change.error = write_both(&self._paths, change.min_hz, change.max_hz).error
                change.issued_ns = now_ns()
                await_achieved(&self._paths, self._timeout_ns, &change)
            self._finish(&change)
