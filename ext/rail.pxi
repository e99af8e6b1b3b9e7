# Included by sampler.pyx: one rail, how it is read, and how its energy is summed.

from libc.errno cimport ENODEV, ENOENT
from libc.math cimport fabs
from libc.string cimport strchr


cdef extern from "<glob.h>" nogil:
    ctypedef struct glob_t:
        size_t gl_pathc
        char **gl_pathv
    int glob(const char *pattern, int flags, void *on_error, glob_t *found)
    void globfree(glob_t *found)


cdef enum:
    REOPEN_NS = 1000000000  # a rail that is gone is looked for once a second


cdef struct Quality:
    int64_t reads
    int64_t errors
    int64_t repeats
    int64_t gaps
    int64_t last_errno


cdef struct Reading:
    int64_t time_ns
    int64_t voltage_mv
    int64_t current_ma


cdef struct Rail:
    const char *voltage_path  # or a pattern, as are all paths here
    const char *current_path
    int voltage_fd  # both descriptors are open, or both are -1
    int current_fd
    int open_errno
    int64_t next_open_ns
    bint voltage_known
    int64_t voltage_mv
    bint read_before
    Reading last  # the last good reading
    double energy_j
    double compensation_j
    double missing_ns
    Quality quality


cdef double power_w(const Reading *reading) noexcept nogil:
    return <double>reading.voltage_mv * <double>reading.current_ma * 1e-6


cdef void close_rail(Rail *rail) noexcept nogil:
    if rail.voltage_fd >= 0:
        posix_close(rail.voltage_fd)
    if rail.current_fd >= 0:
        posix_close(rail.current_fd)
    rail.voltage_fd = -1
    rail.current_fd = -1
    rail.voltage_known = False


cdef int open_file(const char *path) noexcept nogil:
    """Open the file of this name, else the first that it matches as a pattern; -1 and errno."""
    cdef glob_t found
    cdef int descriptor = posix_open(path, O_RDONLY | O_CLOEXEC)
    if descriptor >= 0 or errno != ENOENT or strchr(path, c'*') == NULL:
        return descriptor
    if glob(path, 0, NULL, &found) != 0:
        return posix_open(path, O_RDONLY | O_CLOEXEC)  # for its errno
    descriptor = posix_open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC)
    globfree(&found)
    return descriptor


cdef int open_rail(Rail *rail, int64_t time_ns) noexcept nogil:
    """Open a closed rail, at most once a second; return 0 or why it is not open."""
    if rail.current_fd >= 0:
        return 0
    if time_ns < rail.next_open_ns:
        return rail.open_errno
    rail.next_open_ns = time_ns + REOPEN_NS
    rail.voltage_fd = open_file(rail.voltage_path)
    if rail.voltage_fd >= 0:
        rail.current_fd = open_file(rail.current_path)
    if rail.current_fd >= 0:
        return 0
    rail.open_errno = errno
    close_rail(rail)
    return rail.open_errno


cdef int read_rail(Rail *rail, bint voltage_due, int64_t *time_ns, Reading *reading) noexcept nogil:
    """Take one reading; return 0 or the errno of what failed.

    `time_ns` is the time now, before and after: a clock is worth a tenth of a reading.
    """
    cdef int64_t begin_ns = time_ns[0]
    cdef int error = open_rail(rail, begin_ns)
    if error == 0 and (voltage_due or not rail.voltage_known):
        error = read_integer(rail.voltage_fd, &rail.voltage_mv)
        rail.voltage_known = rail.voltage_known or error == 0
    if error == 0:
        error = read_integer(rail.current_fd, &reading.current_ma)
    reading.voltage_mv = rail.voltage_mv
    time_ns[0] = now_ns()
    reading.time_ns = begin_ns + (time_ns[0] - begin_ns) // 2
    if error == ENODEV and rail.current_fd >= 0:
        # The driver was unbound: these descriptors stay dead, a new one may work.
        close_rail(rail)
        rail.open_errno = ENODEV
    return error


cdef void add_energy(Rail *rail, double energy_j) noexcept nogil:
    """Neumaier's compensated sum (ZAMM 54, 1974): millions of small terms onto a large total."""
    cdef double total_j = rail.energy_j + energy_j
    if fabs(rail.energy_j) >= fabs(energy_j):
        rail.compensation_j += (rail.energy_j - total_j) + energy_j
    else:
        rail.compensation_j += (energy_j - total_j) + rail.energy_j
    rail.energy_j = total_j


cdef void account(Rail *rail, const Reading *reading, int64_t gap_ns) noexcept nogil:
    """Add the trapezoid from the last good reading to this one, unless they lie too far apart."""
    cdef int64_t span_ns
    rail.quality.reads += 1
    if rail.read_before:
        span_ns = reading.time_ns - rail.last.time_ns
        if span_ns > gap_ns:
            rail.quality.gaps += 1
            rail.missing_ns += <double>span_ns
        else:
            add_energy(rail, 0.5e-9 * span_ns * (power_w(&rail.last) + power_w(reading)))
        if (reading.voltage_mv == rail.last.voltage_mv
                and reading.current_ma == rail.last.current_ma):
            rail.quality.repeats += 1
    rail.last = reading[0]
    rail.read_before = True
