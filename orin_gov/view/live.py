"""The live view of `orin-gov run`: a process between the script and the terminal.

The script gets a pseudo-terminal for its stdout and stderr; stdin, the controlling terminal and the
process group stay what they were, so Ctrl-C, Ctrl-Z and what is typed reach it as without us. The
process carries its output over and draws the view below. It is one of its own so that a supervisor
that dies, or a view that does, costs the script nothing.
"""

import json
import os
import signal
import socket
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orin_gov.view.attendant import END, attend
from orin_gov.view.lines import print_warning
from orin_gov.view.state import Snapshot
from orin_gov.view.terminal import (
    LEAVE,
    PLAIN,
    is_in_foreground,
    obstacle,
    set_size,
    size_of,
    write_all,
)

PATIENCE_S = 5.0


class LiveView:
    """The supervisor's end of the live view, from `live_view`. Thread-safety: `show` is one
    thread's, all else the main thread's.
    """

    def __init__(self) -> None:
        self._modes = termios.tcgetattr(1)
        self._master, slave = os.openpty()
        termios.tcsetattr(slave, termios.TCSANOW, self._modes)
        set_size(slave, *size_of(1))
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid: int | None = os.fork()
        if self._pid == 0:
            os.close(slave)
            attend(1, self._master, far)
        far.close()
        # Ours too: what we say takes its place among the script's lines.
        self._kept = {number: os.dup(number) for number in (1, 2)}
        for number in self._kept:
            os.dup2(slave, number)
        os.close(slave)
        self._remaining_s: float | None = None
        self._copier: threading.Thread | None = None

    def show(self, snapshot: Snapshot) -> float | None:
        """Have a snapshot drawn; return the seconds left by the script's own bar, where it has one.

        A view that does not keep up misses it.
        """
        with suppress(OSError):
            self._channel.send(json.dumps(snapshot.as_json()).encode(), socket.MSG_DONTWAIT)
        with suppress(OSError, ValueError):
            while told := self._channel.recv(64, socket.MSG_DONTWAIT):
                self._remaining_s = float(told)
        return self._remaining_s

    def tend(self) -> None:
        """Where the view has died, carry the script's output over without it.

        One that was stopped on its own is continued: the script would soon wait for it.
        """
        if self._pid is None:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            os.kill(self._pid, signal.SIGCONT)
        if not pid or os.WIFSTOPPED(status):
            return
        self._pid = None
        copying = (self._master, os.dup(self._kept[1]))
        self._copier = threading.Thread(target=_copy, args=copying, daemon=True)
        self._copier.start()

    def close(self) -> None:
        """Take the view down once all output is out; the terminal is as before. May be repeated."""
        if not self._kept:
            return
        for number, kept in self._kept.items():
            os.dup2(kept, number)
            os.close(kept)
        self._kept = {}
        with suppress(OSError):
            self._channel.send(END)
        self._await_end()
        self._channel.close()
        if self._copier is None:
            os.close(self._master)
        else:
            self._copier.join(PATIENCE_S)
        if is_in_foreground(1):
            with suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(1, termios.TCSADRAIN, self._modes)

    def _await_end(self) -> None:
        if self._pid is None:
            return
        deadline_s = time.monotonic() + PATIENCE_S
        while not os.waitpid(self._pid, os.WNOHANG)[0] and not self._is_let_go():
            if time.monotonic() > deadline_s:
                # The terminal may be held (Ctrl-S); what is left to be shown must not hold us.
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.002)
        self._pid = None

    def _is_let_go(self) -> bool:
        """Tell whether the view has closed its end: it stays for what the script left running."""
        try:
            while self._channel.recv(64, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True


def _copy(master: int, terminal: int) -> None:
    """Carry output over until nobody is left who could write, or the terminal is gone.

    Then `master` is closed: who writes on learns of it, as without us, and does not wait for ever.
    """
    try:
        write_all(terminal, (LEAVE + PLAIN).encode())
        while content := os.read(master, 65536):
            write_all(terminal, content)
    except OSError:
        pass
    finally:
        os.close(master)
        os.close(terminal)


@contextmanager
def live_view(wanted: bool | None) -> Iterator[LiveView | None]:
    """Put the live view up for the block, where it is wanted (None: where it can be); else None.

    Call it before any thread is started: it forks.
    """
    view: LiveView | None = None
    if wanted is not False:
        why = obstacle(os.environ, wanted is True)
        if why is None:
            view = LiveView()
        elif wanted:
            print_warning(f"no live view: {why}; one line a decision epoch instead")
    try:
        yield view
    finally:
        if view is not None:
            view.close()
