# Included by phases.pyx: the layout of the shared memory, and what is done to it in one go.


cdef extern from * nogil:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <signal.h>
    static inline int replace(int64_t *cell, int64_t expected, int64_t value) {
        return __atomic_compare_exchange_n(cell, &expected, value, 0, __ATOMIC_ACQ_REL,
                                           __ATOMIC_ACQUIRE);
    }
    static inline int has_ended(int64_t pid) {
        return pid > 0 && (pid_t)pid == pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    }
    static inline void add_to(int64_t *cell, int64_t value) {
        __atomic_fetch_add(cell, value, __ATOMIC_RELAXED);
    }
    static inline double load_double(const double *cell) {
        double value;
        __atomic_load(cell, &value, __ATOMIC_RELAXED);
        return value;
    }
    static inline void store_double(double *cell, double value) {
        __atomic_store(cell, &value, __ATOMIC_RELAXED);
    }
    static inline void forbid_resizing(int fd) {
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    }
    """
    bint replace(int64_t *cell, int64_t expected, int64_t value)
    bint has_ended(int64_t pid)
    void add_to(int64_t *cell, int64_t value)
    double load_double(const double *cell)
    void store_double(double *cell, double value)
    void forbid_resizing(int fd)


cdef enum:
    PHASES = 7
    STEP_KIND = 100
    BREAK_KIND = 101
    CAPACITY = 65536
    VERSION = 1

cdef int64_t MAGIC = 0x474E4952564F474F  # "OGOVRING" in memory order


cdef struct Record:
    int64_t time_ns
    int64_t kind
    double value


cdef struct Header:
    int64_t magic
    int64_t version
    int64_t capacity
    int64_t head  # records ever written; the producer's
    int64_t tail  # records ever drained; the consumer's
    int64_t dropped
    int64_t producer_pid
    int64_t current_phase
    int64_t phase_begin_ns
    double stretch[PHASES]


cdef struct Shared:
    Header header
    Record records[CAPACITY]


cdef uint64_t distance(int64_t head, int64_t tail) noexcept nogil:
    """Records between tail and head, in unsigned arithmetic: both may be anything."""
    return <uint64_t>head - <uint64_t>tail


cdef int64_t current_phase(Shared *shared) noexcept nogil:
    """The phase in the header, or idle where that is none: it is used as an index."""
    cdef int64_t phase = load_acquire(&shared.header.current_phase)
    return phase if 0 <= phase < PHASES else 0


cdef void append(Shared *shared, Record record) noexcept nogil:
    """Write a record, or count it as dropped where the ring is full."""
    cdef int64_t head = shared.header.head
    if distance(head, load_acquire(&shared.header.tail)) >= CAPACITY:
        add_to(&shared.header.dropped, 1)
        return
    shared.records[<uint64_t>head % CAPACITY] = record
    store_release(&shared.header.head, <int64_t>(<uint64_t>head + 1))


cdef void initialise(Shared *shared) noexcept nogil:
    cdef int i
    shared.header.version = VERSION
    shared.header.capacity = CAPACITY
    for i in range(PHASES):
        shared.header.stretch[i] = 1.0
    store_release(&shared.header.magic, MAGIC)


cdef bint is_fresh(const Header *header) noexcept nogil:
    cdef const unsigned char *byte = <const unsigned char *>header
    cdef size_t i
    for i in range(sizeof(Header)):
        if byte[i]:
            return False
    return True
