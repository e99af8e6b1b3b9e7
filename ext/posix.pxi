# Included by the modules of this room: the monotonic clock, atomics, mutexes, one-integer files.

from libc.errno cimport EINTR, EINVAL, ENODATA, ERANGE, errno
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from posix.fcntl cimport O_CLOEXEC, O_RDONLY, open as posix_open
from posix.time cimport (
    CLOCK_MONOTONIC,
    TIMER_ABSTIME,
    clock_gettime,
    clock_nanosleep,
    timespec,
)
from posix.unistd cimport close as posix_close, pread


cdef extern from * nogil:
    """
    #include <stdint.h>
    static inline int64_t load_acquire(const int64_t *cell) {
        return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    }
    static inline void store_release(int64_t *cell, int64_t value) {
        __atomic_store_n(cell, value, __ATOMIC_RELEASE);
    }
    """
    int64_t load_acquire(const int64_t *cell)
    void store_release(int64_t *cell, int64_t value)


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_cond_init(pthread_cond_t *condition, const void *attributes)
    int pthread_cond_destroy(pthread_cond_t *condition)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)


cdef enum:
    # A 64-bit integer takes 20 characters; a file that fills this holds something else.
    TEXT_BYTES = 64


cdef inline int64_t now_ns() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return <int64_t>time.tv_sec * 1000000000 + time.tv_nsec


cdef inline void sleep_until(int64_t deadline_ns) noexcept nogil:
    cdef timespec time
    time.tv_sec = deadline_ns // 1000000000
    time.tv_nsec = deadline_ns % 1000000000
    while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR:
        pass


cdef inline int parse_integer(const char *text, Py_ssize_t length, int64_t *value) noexcept nogil:
    """Parse `-?[0-9]+[ \\t\\n]*`; return 0, or ENODATA (empty), EINVAL (form), ERANGE (64 bits)."""
    cdef bint negative = length > 0 and text[0] == c'-'
    cdef uint64_t limit = <uint64_t>INT64_MAX + negative
    cdef uint64_t magnitude = 0
    cdef uint64_t digit
    cdef bint overflow = False
    cdef Py_ssize_t i = negative
    if length == 0:
        return ENODATA
    while i < length and c'0' <= text[i] <= c'9':
        digit = text[i] - c'0'
        if magnitude > (limit - digit) // 10:
            overflow = True
        else:
            magnitude = magnitude * 10 + digit
        i += 1
    if i == negative:
        return EINVAL
    while i < length and (text[i] == c' ' or text[i] == c'\t' or text[i] == c'\n'):
        i += 1
    if i < length:
        return EINVAL
    if overflow:
        return ERANGE
    # Negated as unsigned: the magnitude of the smallest integer does not fit a signed one.
    value[0] = <int64_t>(0 - magnitude) if negative else <int64_t>magnitude
    return 0


cdef inline int read_integer(int descriptor, int64_t *value) noexcept nogil:
    """Read the integer a held descriptor's file has now; return 0 or the errno."""
    cdef char text[TEXT_BYTES]
    cdef Py_ssize_t length = pread(descriptor, text, TEXT_BYTES, 0)
    while length < 0 and errno == EINTR:
        length = pread(descriptor, text, TEXT_BYTES, 0)
    if length < 0:
        return errno
    cdef int64_t parsed = 0
    cdef int error = parse_integer(text, length, &parsed)
    if error == 0 and length == TEXT_BYTES:
        return EINVAL
    if error == 0:
        value[0] = parsed
    return error
