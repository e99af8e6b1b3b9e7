"""Waiting for the script while signals come: whose they are, and what reaches it."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from orin_gov.ending import Ending

WATCHED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD})
LOOK_S = 0.2


class Workload(Protocol):
    """What is being governed: its process id, its exit code once it ended, how to signal it."""

    @property
    def pid(self) -> int:
        """The process id."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal; one that has ended is left in peace."""


def block_signals() -> None:
    """Keep the watched signals for `wait_for`; threads started later leave them alone as well.

    Where whoever started us ignores the ends of children, ours would be gone before their exit codes
    are asked for.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)


def wait_for(workload: Workload, look: Callable[[], None]) -> int:
    """Return the workload's exit code once it has ended; `look` is called a few times a second.

    Ctrl-C reaches the script from the terminal itself; a signal sent to us alone is passed on. The
    second interrupt becomes SIGTERM, the third SIGKILL. SIGTERM and SIGHUP are passed on once.
    """
    ended = Ending()
    waker = threading.Thread(target=_wake, args=(ended,), daemon=True)
    waker.start()
    try:
        return _wait(workload, look)
    finally:
        ended.set()
        waker.join()


def _wake(ended: Ending) -> None:
    """Have the waiting thread look, as if a child had ended, a few times a second.

    Not by a timeout of sigtimedwait: Python returns a signal that never was where that is cut short
    by a stop (SIGSTOP, Ctrl-Z) which lasts longer, and it would be passed on to the script.
    Sent to the process, not to the thread: a thread takes up its own first, and where each look
    takes longer than it is until the next, it would take up no other.
    """
    while not ended.wait(LOOK_S):
        os.kill(os.getpid(), signal.SIGCHLD)


def _wait(workload: Workload, look: Callable[[], None]) -> int:
    interrupts = 0
    passed_on = set()
    while (code := workload.poll()) is None:
        look()
        info = signal.sigwaitinfo(WATCHED)
        if info.si_signo == signal.SIGCHLD:
            continue
        from_terminal = info.si_code > 0  # SI_KERNEL; a process that sent it gives 0 or less
        if info.si_signo == signal.SIGINT:
            interrupts += 1
            if interrupts > 1:
                workload.send_signal(signal.SIGTERM if interrupts == 2 else signal.SIGKILL)
            elif not from_terminal:
                workload.send_signal(signal.SIGINT)
        elif info.si_signo not in passed_on:
            passed_on.add(info.si_signo)
            if not from_terminal:
                workload.send_signal(info.si_signo)
    return code


def shell_code(returncode: int) -> int:
    """Return the exit code a shell would show: death by signal n is 128 + n."""
    return returncode if returncode >= 0 else 128 - returncode
