# Included by actuator.pyx: a devfreq node's range, written in a valid order, and its clock.

from libc.errno cimport EIO
from libc.stdio cimport snprintf
from posix.fcntl cimport O_TRUNC, O_WRONLY
from posix.unistd cimport write as posix_write


cdef extern from "<errno.h>" nogil:
    enum:
        ECANCELED  # not in Cython's own list


cdef enum:
    POLL_NS = 500000
    SETTLE_NS = 20000000  # how long a file may be empty or half written by another process


cdef struct Paths:
    const char *min_freq
    const char *max_freq
    const char *cur_freq


cdef struct Failure:
    int error
    const char *path


cdef struct Change:
    int64_t requested_ns
    int64_t begun_ns
    int64_t issued_ns
    int64_t achieved_ns
    int64_t min_hz
    int64_t max_hz
    int64_t achieved_hz
    int64_t expected_max_hz  # what max_freq must read for the write to be made; negative: anything
    bint achieved
    bint readable
    int error


cdef int write_integer(const char *path, int64_t value) noexcept nogil:
    """Write the value as one line in one write(2), as a sysfs store wants it; 0 or the errno."""
    cdef char text[TEXT_BYTES]
    cdef int length = snprintf(text, TEXT_BYTES, "%lld\n", <long long>value)
    cdef int descriptor = posix_open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
    if descriptor < 0:
        return errno
    cdef Py_ssize_t written = posix_write(descriptor, text, length)
    cdef int error = errno if written < 0 else 0 if written == length else EIO
    posix_close(descriptor)
    return error


cdef int read_integer_file(const char *path, int64_t *value) noexcept nogil:
    cdef int descriptor = posix_open(path, O_RDONLY | O_CLOEXEC)
    if descriptor < 0:
        return errno
    cdef int error = read_integer(descriptor, value)
    posix_close(descriptor)
    return error


cdef int read_settled(const char *path, int64_t *value) noexcept nogil:
    """Read an integer, giving another process the time to finish writing it; 0 or the errno."""
    cdef int64_t deadline_ns = now_ns() + SETTLE_NS
    cdef int error = read_integer_file(path, value)
    while (error == ENODATA or error == EINVAL) and now_ns() < deadline_ns:
        sleep_until(now_ns() + POLL_NS)
        error = read_integer_file(path, value)
    return error


cdef Failure write_both(const Paths *paths, int64_t min_hz, int64_t max_hz) noexcept nogil:
    """Write both ends of the range, attempting the second even if the first fails."""
    cdef int64_t current_max_hz = 0
    cdef bint unknown = read_settled(paths.max_freq, &current_max_hz) != 0
    cdef Failure first, second
    if unknown or max_hz >= current_max_hz:
        first = Failure(write_integer(paths.max_freq, max_hz), paths.max_freq)
        second = Failure(write_integer(paths.min_freq, min_hz), paths.min_freq)
    else:
        first = Failure(write_integer(paths.min_freq, min_hz), paths.min_freq)
        second = Failure(write_integer(paths.max_freq, max_hz), paths.max_freq)
    return first if first.error else second


cdef bint is_foreign(const Paths *paths, int64_t expected_max_hz) noexcept nogil:
    """Whether max_freq reads another value than expected: another writer was there."""
    cdef int64_t max_hz = 0
    return (expected_max_hz >= 0 and read_settled(paths.max_freq, &max_hz) == 0
            and max_hz != expected_max_hz)


cdef void await_achieved(const Paths *paths, int64_t timeout_ns, Change *change) noexcept nogil:
    """Poll cur_freq until it lies within the range, or time is up."""
    cdef int64_t deadline_ns = now_ns() + timeout_ns
    while True:
        change.readable = read_integer_file(paths.cur_freq, &change.achieved_hz) == 0
        change.achieved = (change.readable
                           and change.min_hz <= change.achieved_hz <= change.max_hz)
        if change.achieved:
            change.achieved_ns = now_ns()
        if change.achieved or now_ns() >= deadline_ns:
            return
        sleep_until(now_ns() + POLL_NS)
