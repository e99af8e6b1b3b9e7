"""Starting a virtual board's server, and ending it."""

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

import orin_gov
from orin_gov.errors import BoardError
from orin_gov.virtual.plant import BOARDS, load_board

__all__ = ["BOARDS", "VirtualBoard"]

logger = logging.getLogger(__name__)

_READY_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0


class VirtualBoard:
    """A virtual board that is being served: its tree's `root`, its server's `pid`.

    As a context manager it stops the board on leaving. Where the process that started it vanishes,
    the board lives on until the adopted workload has ended.

    Thread-safety: one caller at a time.
    """

    def __init__(
        self, root: Path, process: subprocess.Popen[bytes], control: socket.socket, said: IO[bytes]
    ) -> None:
        self.root = root
        self.pid = process.pid
        self._process = process
        self._control = control
        self._said = said

    @classmethod
    def start(cls, name: str, ring_fd: int) -> "VirtualBoard":
        """Serve the virtual board `name`, whose workload marks its phases in the ring `ring_fd`.

        Raises:
            UsageError: there is no board of that name.
            BoardError: its server did not come up.
        """
        load_board(name)
        root = Path(tempfile.mkdtemp(prefix="orin_gov-virtual-", dir=_memory_directory()))
        control, server_end = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115 - the board's own, closed in stop()
        with server_end:
            process = _spawn(name, root, ring_fd, server_end, said)
        board = cls(root, process, control, said)
        board._await_ready(name)
        return board

    def adopt(self, workload_pid: int) -> None:
        """Keep the board alive for that process, even where this one vanishes.

        Raises:
            BoardError: the server is gone.
        """
        if not self._send(f"workload {workload_pid}\n"):
            raise BoardError(
                f"the virtual board's server (process {self.pid}) is gone: {self._tail()}"
            )

    def stop(self) -> None:
        """End the server and remove its tree; harmless when that has happened already."""
        if self._said.closed:
            return
        self._send("end\n")
        self._control.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
        if said := self._tail():
            logger.warning("the virtual board's server said: %s", said)
        self._said.close()

    def __enter__(self) -> "VirtualBoard":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _await_ready(self, name: str) -> None:
        self._control.settimeout(_READY_TIMEOUT_S)
        try:
            answer = self._control.recv(64)
        except OSError as error:
            answer = str(error).encode()
        if answer != b"ready\n":
            self._process.kill()
            self._process.wait()
            said = self._tail()
            self.stop()
            raise BoardError(
                f"the server of the virtual board {name} answered {answer.decode()!r} instead of "
                f"'ready' within {_READY_TIMEOUT_S:.0f} s and said: {said or 'nothing'}"
            )

    def _send(self, line: str) -> bool:
        try:
            self._control.sendall(line.encode("ascii"))
        except OSError:
            return False
        return True

    def _tail(self) -> str:
        """The last of what the server wrote to its standard error."""
        self._said.seek(0)
        return self._said.read()[-2000:].decode("utf-8", "replace").strip()


def _memory_directory() -> str | None:
    """A directory in memory, or None for the usual temporary one.

    On a disk a file that is cut and rewritten, as a limit is at every decision, may be flushed when
    it is closed (ext4), which costs milliseconds that no sysfs attribute takes.
    """
    shared_memory = "/dev/shm"
    return shared_memory if os.access(shared_memory, os.W_OK | os.X_OK) else None


def _spawn(
    name: str, root: Path, ring_fd: int, control: socket.socket, said: IO[bytes]
) -> subprocess.Popen[bytes]:
    """The server as a process in its own session.

    It runs in "/" with this package's own directory first on its path, so that no file in the
    user's working directory can pass for a module of ours or of the standard library.
    """
    package_root = str(Path(orin_gov.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "orin_gov.virtual.server", "--board", name]
    command += ["--root", str(root)]
    command += ["--ring-fd", str(ring_fd), "--control-fd", str(control.fileno())]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        cwd="/",
        env=os.environ | {"PYTHONPATH": path},
        pass_fds=(ring_fd, control.fileno()),
        start_new_session=True,
    )
