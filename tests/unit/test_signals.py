"""Waiting for the script: what comes of signals, and of a supervisor that is stopped meanwhile."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAITS = """
import signal, subprocess, sys, time
from orin_gov import signals

class Script(subprocess.Popen):
    def send_signal(self, number):
        print("sent", int(number), flush=True)

signals.LOOK_S = 0.01
signals.block_signals()
looks = []
script = Script([sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read(1)"])
def look():
    looks.append(1)
    time.sleep(float(sys.argv[1]))
code = signals.wait_for(script, look)
print("looked" if len(looks) > 20 else looks, code, flush=True)
"""


@contextmanager
def waiting_for_a_script(look_s: float = 0.0) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that waits for a script, which ends once something is written to it."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, str(look_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "ready\n"
        yield waiting


def outcome(waiting: "subprocess.Popen[str]") -> str:
    """End the script; return what else its waiter says: that it looked, and the exit code."""
    told, _ = waiting.communicate("!", timeout=60)
    return told.strip()


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_supervisor_that_is_stopped_for_a_while_sends_the_script_nothing() -> None:
    """Python's sigtimedwait makes signals up then, most of the time."""
    with waiting_for_a_script() as waiting:
        for _ in range(10):
            waiting.send_signal(signal.SIGSTOP)
            while not is_stopped(waiting.pid):
                time.sleep(0.001)
            time.sleep(0.05)  # longer than it waits between two looks: that is the point
            waiting.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        assert outcome(waiting) == "looked 0"


def test_signals_are_passed_on_where_each_look_lasts_until_the_next() -> None:
    """As it may without a processor of our own."""
    with waiting_for_a_script(look_s=0.03) as waiting:
        assert waiting.stdout is not None
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            waiting.send_signal(number)
            assert waiting.stdout.readline() == f"sent {int(number)}\n"
