"""Memory that was freed goes back to the kernel: whoever runs for days stays as small as it needs."""

import ctypes

import pyarrow as pa

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
LARGE_BYTES = 65536
ARENAS = 2


def settle_allocators() -> None:
    """Keep the heap small and whole, for a process that lives for days; before it has threads.

    Arrays are given back when they are freed: glibc would have ever larger ones share the heap with
    small objects, which leaves holes. Threads that read files share two heaps, and Arrow allocates
    as all others do.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_MMAP_THRESHOLD, LARGE_BYTES)
        tune(M_TRIM_THRESHOLD, 2 * LARGE_BYTES)
        tune(M_ARENA_MAX, ARENAS)


def trim_heap() -> None:
    """Give free pages of the heap back to the kernel; takes some milliseconds.

    An allocator gives back what lies free at the end of its heap alone, and objects that live for
    different lengths of time leave holes below. Does nothing where the C library cannot (musl).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
