"""Telling a thread to end, whatever the wall clock does."""

import os
import select


class Ending:
    """What `threading.Event` is to a thread that waits to be told to end.

    Up to Python 3.10, that of JetPack 6, a wait with a timeout goes by the wall clock: where this
    is put back by an hour, as it may be when the network has come up, it lasts an hour longer.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def set(self) -> None:
        """Tell it."""
        os.eventfd_write(self._descriptor, 1)

    def wait(self, timeout_s: float) -> bool:
        """Sleep for so long, or until told; return whether it was told."""
        return bool(self._poll.poll(timeout_s * 1e3))
