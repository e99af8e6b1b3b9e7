"""Memory that was freed goes back to the kernel: whoever runs for days stays as small as it needs."""

import ctypes

import pyarrow as pa


def settle_allocators() -> None:
    """Have Arrow allocate as all others do: of a second allocator nothing would be given back.

    Of the whole process; before Arrow's first buffer.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def trim_heap() -> None:
    """Give free pages of the heap back to the kernel; takes some milliseconds.

    An allocator gives back what lies free at the end of its heap alone, and threads whose small
    objects live for different lengths of time leave more and more holes below. Does nothing where
    the C library cannot (musl).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
