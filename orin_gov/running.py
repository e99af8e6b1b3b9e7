"""Which runs are under way: each supervisor holds a socket whose name is its run directory.

An abstract socket: it has no file, anyone may read its name in /proc/net/unix, and it is gone with
its process, however that ends. Nothing ever connects to it.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

PREFIX = "\0orin_gov run "
LONGEST = 107
"""Bytes of an abstract socket's name."""

SOCKETS = Path("/proc/net/unix")


@contextmanager
def announced(folder: Path) -> Iterator[None]:
    """Let `orin-gov top` find the run in `folder` while the block runs.

    Call it after all forks: a child would keep the name. A name that is too long, or a system
    without such sockets, means that the run has to be named to `top`.
    """
    name = PREFIX.encode() + str(folder.absolute()).encode("utf-8", "surrogateescape")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as held:
        try:
            if len(name) > LONGEST:
                raise OSError(f"its name is longer than {LONGEST} bytes")
            held.bind(name)
        except OSError as error:
            logger.info("`orin-gov top` has to be told of %s: %s", folder, error)
        yield


def running() -> list[Path]:
    """Return the run directories of the runs under way on this machine, oldest name first."""
    try:
        lines = SOCKETS.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    mark = "@" + PREFIX[1:]
    return sorted({Path(line.split(mark, 1)[1]) for line in lines if f" {mark}" in line})


def started_s(pid: int) -> float | None:
    """Return when the process was started, in seconds since the boot, or None where there is none.

    With its number this is what a process is: the wall clock may have been set since.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")
