"""Terminals for tests: one that is played, and a command that runs on one."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pyte

PATIENCE_S = 30.0
"""A slow machine is waited for, a broken program is not waited for for ever."""

FRAME = b"\x1b[?2026h"
"""What begins a frame of the view."""

LIKE_A_PERSONS = {"TERM": "xterm-256color", "CI": "", "NO_COLOR": "", "PYTHONUNBUFFERED": "1"}


class Terminal:
    """A terminal that remembers: what was written to it, as a person sees it."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.HistoryScreen(width, height, history=10_000)
        self._stream = pyte.ByteStream(self.screen)
        self.content = b""

    def feed(self, content: bytes) -> None:
        self.content += content
        # pyte does not know synchronized output, which a terminal ignores where it does not either.
        self._stream.feed(content)

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(height, width)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def scrolled(self) -> list[str]:
        """The lines that have left the screen at its head."""
        return [
            "".join(line[column].data for column in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]


class Played:
    """A command on a terminal of its own, which is read as it is waited for."""

    def __init__(
        self,
        words: list[str],
        cwd: Path,
        size: tuple[int, int] = (100, 30),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.terminal = Terminal(*size)
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(Exception):
                # The size must stand before the command looks for it.
                set_size(1, *size)
                os.chdir(cwd)
                os.execve(words[0], words, {**os.environ, **LIKE_A_PERSONS, **(env or {})})
            os._exit(99)
        self.modes = termios.tcgetattr(self.descriptor)
        self._open = True

    @property
    def seen(self) -> str:
        """All that is on the screen."""
        return "\n".join(self.terminal.lines)

    @property
    def frames(self) -> int:
        return self.terminal.content.count(FRAME)

    @property
    def view(self) -> psutil.Process:
        """The process of the live view: the supervisor's youngest that is the same program."""
        below = psutil.Process(self.pid).children(recursive=True)
        alike = [each for each in below if "orin_gov" in each.cmdline() and "run" in each.cmdline()]
        return max(alike, key=lambda process: process.pid)

    def read(self, wait_s: float = 0.1) -> bool:
        """Take in what has been written; False once nobody is left on the terminal."""
        if self._open and select.select([self.descriptor], [], [], wait_s)[0]:
            try:
                self.terminal.feed(os.read(self.descriptor, 65536))
            except OSError:
                self._open = False
        return self._open

    def until(self, true: Callable[[], bool]) -> None:
        """Read on until it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert self.read(), f"it ended, and this was seen:\n{self.seen}"
            assert time.monotonic() < deadline, f"this was seen to the end:\n{self.seen}"

    def sees(self, *parts: str) -> None:
        """Read on until all parts are on the screen."""
        self.until(lambda: all(part in self.seen for part in parts))

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def resize(self, width: int, height: int) -> None:
        self.terminal.resize(width, height)
        self.terminal.screen.set_margins()  # a terminal forgets its region when it is resized
        set_size(self.descriptor, width, height)

    def exit_code(self) -> int:
        """Read to the end and return the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.read()
            assert time.monotonic() < deadline, f"this was seen to the end:\n{self.seen}"
        while self._open and select.select([self.descriptor], [], [], 0.2)[0] and self.read():
            pass
        return os.waitstatus_to_exitcode(ended[1])

    def close(self) -> None:
        """End what is left of it."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.descriptor)


def set_size(descriptor: int, width: int, height: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
