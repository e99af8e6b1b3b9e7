"""The process of the live view: carries the script's output to the terminal, draws below it."""

import json
import os
import re
import select
import signal
import socket
import sys
import time
from typing import NoReturn

from orin_gov.view.panels import rows
from orin_gov.view.passage import Passage
from orin_gov.view.state import Snapshot, from_json
from orin_gov.view.terminal import PLAIN, Foot, is_in_foreground, set_size, size_of, write_all

END = b"end"
WANTED_ROWS = 18
FRAME_S = 0.1
"""The shortest time between two frames: ten a second at most."""

LOOK_S = 0.25
DRAIN_S, LONGEST_DRAIN_S = 0.05, 2.0

BAR = re.compile(rb"\d+/\d+ \[[\d:]+<(?:(\d+) days?, )?([\d:]+)")
"""What tqdm writes: 5/100 [00:10<03:10, ...]."""


def attend(terminal: int, master: int, channel: socket.socket) -> NoReturn:
    """Be the view of the script on the pseudo-terminal `master`, until told to end.

    Snapshots come on `channel`; the seconds left by the script's own bar go back.
    """
    code = 1
    try:
        _keep_only(terminal, master, channel.fileno())
        attendant = Attendant(terminal, master, channel)
        signal.signal(signal.SIGTSTP, lambda *_: attendant.stop())
        try:
            attendant.run()
        finally:
            attendant.leave()
        code = 0
    except OSError:
        pass  # the terminal is gone: who writes to it now learns of it as without us
    finally:
        failure = sys.exc_info()[1]
        if failure is not None:  # told, and the supervisor carries on in our place
            sys.excepthook(type(failure), failure, failure.__traceback__)
        os._exit(code)  # never back into the supervisor's code


class Attendant:
    """The state of the view's process: what is drawn where."""

    def __init__(self, terminal: int, master: int, channel: socket.socket) -> None:
        self._terminal, self._master, self._channel = terminal, master, channel
        self._passage, self._foot = Passage(), Foot(WANTED_ROWS)
        self._snapshot: Snapshot | None = None
        self._drawn_s = 0.0
        self._told = (0, 0)
        self._stale = True
        self._attached = self._ending = False

    def run(self) -> None:
        """Carry and draw until told to end, or, without a supervisor, until the script ends.

        What the script has left running keeps its output: it is carried on, without a view.
        """
        self._attached = True
        while self._attached:
            self._fit()
            wait_s = FRAME_S if self._stale else LOOK_S
            ready, _, _ = select.select([self._master, self._channel.fileno()], [], [], wait_s)
            if self._master in ready and not self._carry():
                return
            if self._channel.fileno() in ready:
                self._listen()
            self._draw()
            if self._ending:
                if not self._drain():
                    return
                self._attached = False
        self.leave()
        self._channel.close()  # the supervisor waits no longer
        while self._carry():
            pass

    def _drain(self) -> bool:
        """Carry what is left; True where somebody whom the script has left may write on."""
        until_s = time.monotonic() + LONGEST_DRAIN_S
        while time.monotonic() < until_s:
            if not select.select([self._master], [], [], DRAIN_S)[0]:
                return True
            if not self._carry():
                return False
        return True

    def leave(self) -> None:
        """Give the whole terminal back."""
        self._write(self._passage.feed(b"", last=True) + self._foot.leave() + PLAIN)

    def stop(self) -> None:
        """Stop with the script on Ctrl-Z, the terminal left to the shell meanwhile."""
        self._write(self._foot.leave())
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, lambda *_: self.stop())
        self._stale = True

    def _write(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        write_all(self._terminal, text.encode(encoding, "replace"))

    def _carry(self) -> bool:
        """Carry what the script has written; False once nobody is left who could write."""
        try:
            content = os.read(self._master, 65536)
        except OSError:
            return False
        text = self._passage.feed(content)
        if self._passage.full_screen:
            text = self._foot.leave() + text
        self._write(text)
        self._stale = self._stale or self._passage.erased
        bars = BAR.findall(content)
        if bars and self._attached:
            self._tell(remaining_s(*bars[-1]))
        return bool(content)

    def _tell(self, seconds: float) -> None:
        try:
            self._channel.send(b"%f" % seconds, socket.MSG_DONTWAIT)
        except OSError:
            return  # it will be told the next one

    def _listen(self) -> None:
        try:
            message = self._channel.recv(1 << 20)
        except OSError:
            message = b""
        if message == END:
            self._ending = True
        elif message:
            self._snapshot = from_json(json.loads(message), "the supervisor's snapshot")
            self._stale = True
        else:
            self._attached = False  # killed: the script goes on, and so do its lines

    def _fit(self) -> None:
        """Follow the terminal's size, and whose it is."""
        size = size_of(self._terminal)
        ours = is_in_foreground(self._terminal) and not self._passage.full_screen
        if size == (0, 0) or not ours:
            self._write(self._foot.leave())
        elif size != (self._foot.width, self._foot.height):
            self._write(self._foot.enter(*size))
            self._stale = True
        # The script's own terminal is what is left above.
        above = (size[0], size[1] - self._foot.rows)
        if above != self._told and size != (0, 0):
            self._told = above
            set_size(self._master, *above)
            os.killpg(os.getpgrp(), signal.SIGWINCH)

    def _draw(self) -> None:
        now_s = time.monotonic()
        if self._snapshot is None or not self._stale or now_s - self._drawn_s < FRAME_S:
            return
        # A row is never full: the last column would leave the cursor hanging.
        texts = rows(self._snapshot, self._foot.width - 1, self._foot.rows)
        self._write(self._foot.draw(texts))
        self._drawn_s, self._stale = now_s, False


def remaining_s(days: bytes, clock: bytes) -> float:
    """Return the seconds that tqdm's `days` and `h:mm:ss` are."""
    seconds = 0
    for part in clock.split(b":"):
        seconds = 60 * seconds + int(part or 0)
    return float(86400 * int(days or 0) + seconds)


def _keep_only(*descriptors: int) -> None:
    """Leave all that is the supervisor's: its descriptors, and the signals meant for it."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    low = 3
    for descriptor in (
        *sorted(each for each in descriptors if each > 2),
        os.sysconf("SC_OPEN_MAX"),
    ):
        os.closerange(low, descriptor)
        low = descriptor + 1
