"""How long a virtual board lives: as long as its launcher or the workload it was lent to."""

import logging
import os
import select
import signal
import socket
from pathlib import Path

logger = logging.getLogger(__name__)


class Lifeline:
    """The launcher's socket and the workload's process, watched without blocking.

    The board is over on "end", on SIGTERM, and when the launcher's end of the socket is closed and
    the workload it named with "workload PID", if any, is gone. SIGINT and SIGHUP are ignored: they
    are meant for the workload, whose last readings the report still needs.

    Thread-safety: none; to be made in the main thread, as it sets signal handlers.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        control.setblocking(False)
        self._received = b""
        self._launcher_gone = False
        self._ended = False
        self._workload_pid: int | None = None
        self._workload_fd: int | None = None
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._end())

    def over(self) -> bool:
        """True once the board has nobody left to serve."""
        if not self._launcher_gone:
            self._receive()
        return self._ended or (self._launcher_gone and not self._workload_alive())

    def _end(self) -> None:
        self._ended = True

    def _receive(self) -> None:
        """Take in the whole lines that have come."""
        try:
            received = self._control.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        self._launcher_gone = not received
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            self._obey(line.decode("ascii", "replace"))

    def _obey(self, line: str) -> None:
        word, _, argument = line.partition(" ")
        if word == "end":
            self._end()
        elif word == "workload" and argument.isdigit():
            self._adopt(int(argument))
        else:
            logger.warning("control line %r is neither 'end' nor 'workload PID'; ignored", line)

    def _adopt(self, pid: int) -> None:
        """Watch a process; one that is gone already counts as gone."""
        self._workload_pid, self._workload_fd = pid, None
        try:
            self._workload_fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._workload_pid = None
        except OSError as error:
            logger.info("no pidfd of process %d (%s); looking for its number instead", pid, error)

    def _workload_alive(self) -> bool:
        if self._workload_pid is None:
            return False
        if self._workload_fd is None:
            return Path(f"/proc/{self._workload_pid}").exists()
        return not select.select([self._workload_fd], [], [], 0)[0]
