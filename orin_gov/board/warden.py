"""The warden: a process that outlives a killed supervisor and puts the board back."""

import logging
import os
import signal
import time
from pathlib import Path

from orin_gov.board.journal import forget_journal, journal_path, load_journal, restore

logger = logging.getLogger(__name__)

GOODBYE = b"bye"
PATIENCE_S = 5.0


class Warden:
    """A forked process asleep on a pipe; when the pipe closes without a goodbye it restores.

    Fork it before any thread is started and before the first write to the board. It shares the
    exclusive lock by inheritance, so no second governor can slip in before it has restored.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    @classmethod
    def fork(cls, root: Path, keep: tuple[int, ...]) -> "Warden":
        """Start the warden of the board under `root`; it holds on to the descriptors `keep`."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        # Not during the fork: what Python runs around it would swallow a Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        pid = os.fork()
        if pid == 0:
            _detach((reader, *keep))
            _watch(reader, root)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        return cls(pid, writer)

    def dismiss(self) -> None:
        """Tell the warden that the board has been put back, and wait for it to end."""
        try:
            os.write(self._pipe, GOODBYE)
        except BrokenPipeError:
            logger.warning("the warden (pid %d) was gone before the end of the run", self.pid)
        os.close(self._pipe)
        self._await_end()

    def abandon(self) -> None:
        """Let the warden restore what we could not: close the pipe without a goodbye."""
        os.close(self._pipe)
        self._await_end()

    def _await_end(self) -> None:
        # Not for ever: where the board hangs, its restore does too.
        deadline = time.monotonic() + PATIENCE_S
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                logger.warning("the warden (pid %d) is still at work; leaving it to it", self.pid)
                return
            time.sleep(0.001)


def _detach(keep: tuple[int, ...]) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    # Whoever waits for the supervisor's pipes to close must not wait for the warden.
    low = 3
    for descriptor in (*sorted(keep), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, descriptor)
        low = descriptor + 1


def _watch(reader: int, root: Path) -> None:
    code = 1  # what stays 1 left the journal behind, for `orin-gov restore` or the next start
    try:
        said = b""
        while chunk := os.read(reader, 16):
            said += chunk
        if said != GOODBYE:
            if journal := load_journal(root):
                restore(journal)
            else:
                forget_journal(journal_path(root))  # there may be a draft
        code = 0
    finally:
        os._exit(code)  # never back into the supervisor's code
