"""The lock against a second governor: on the GPU's own file, so that none can go stale."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from orin_gov.board.gpu import Gpu
from orin_gov.errors import BoardError

PATIENCE_S = 0.5


@contextmanager
def exclusive(gpu: Gpu) -> Iterator[int]:
    """Hold the GPU against a second governor; yield the descriptor, which a fork may share.

    Raises:
        BoardError: another governor holds it, or there is no file to lock.
    """
    try:
        descriptor = os.open(gpu.directory / "max_freq", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise BoardError(f"cannot open {error.filename}: {error.strerror}") from error
    try:
        _lock(descriptor, gpu)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, gpu: Gpu) -> None:
    # The warden of a governor that has just died holds the lock for the moment it needs.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BoardError(
                    f"another orin-gov governs {gpu.directory.name}; wait for it or stop it"
                ) from None
        time.sleep(0.02)
