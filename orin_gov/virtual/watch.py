"""Waiting for a write to a few files, or for a deadline: Linux inotify."""

import ctypes
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path

_IN_MODIFY = 0x2
_DRAIN_BYTES = 4096


class Watch:
    """Wakes its owner when one of the files is written to, by whomever.

    Raises OSError where inotify is not to be had. Thread-safety: none; one caller.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        for path in paths:
            if libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_MODIFY) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))

    def wait(self, deadline_ns: int) -> tuple[int, bool]:
        """Sleep to a moment of CLOCK_MONOTONIC or to a write; the moment of waking, and which."""
        left_s = max(0.0, (deadline_ns - time.monotonic_ns()) * 1e-9)
        written = bool(select.select([self._fd], [], [], left_s)[0])
        now_ns = time.monotonic_ns()
        if written:
            os.read(self._fd, _DRAIN_BYTES)
        return now_ns, written

    def close(self) -> None:
        """Watch no more."""
        os.close(self._fd)
