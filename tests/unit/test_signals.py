"""Waiting for the script: what comes of signals, and of a supervisor that is stopped meanwhile."""

import signal
import subprocess
import sys
import time
from pathlib import Path

WAITS = """
import signal, subprocess, sys
from orin_gov import signals

class Script(subprocess.Popen):
    sent = []
    def send_signal(self, number):
        self.sent.append(number)

signals.LOOK_S = 0.01
signals.block_signals()
looks = []
script = Script([sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read(1)"])
code = signals.wait_for(script, lambda: looks.append(1))
print("looked" if len(looks) > 20 else looks, code, script.sent, flush=True)
"""


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_supervisor_that_is_stopped_for_a_while_sends_the_script_nothing() -> None:
    """Python's sigtimedwait makes signals up then."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdin is not None
        assert waiting.stdout.readline() == "ready\n"
        for _ in range(5):
            waiting.send_signal(signal.SIGSTOP)
            while not is_stopped(waiting.pid):
                time.sleep(0.001)
            time.sleep(0.05)  # longer than it waits between two looks: that is the point
            waiting.send_signal(signal.SIGCONT)
            time.sleep(0.1)
        waiting.stdin.write("!")
        waiting.stdin.flush()
        assert waiting.stdout.readline() == "looked 0 []\n"
