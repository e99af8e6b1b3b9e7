"""One governed run of real processes on a virtual board's files, killed once, and looked at."""

import os
import resource
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench._kill_board import KillBoard
from bench._kill_processes import fork, govern, serve, start_anew
from bench._kills import Kill
from orin_gov.commands import main as command
from orin_gov.workload.ring import make_ring

MEMORY = "/dev/shm"
FULL_BYTES = 64
"""What a file may hold on the full disk: a clock fits, a journal or a record does not."""

DEADLY = (signal.SIGKILL, signal.SIGSEGV)
"""What ends a warden; it leaves the other signals alone."""

PATIENCE_S = 15.0
LET_IT_RUN_S = 0.15


@dataclass
class Result:
    """What came of a kill: seconds until the board was as before, None where nothing was to do."""

    kill: Kill
    restored_s: float | None = None
    by: str = "itself"
    faults: list[str] = field(default_factory=list)


def run_kill(kill: Kill) -> Result:
    """Play one run and its kill; whatever is left is ended."""
    result = Result(kill)
    folder = Path(tempfile.mkdtemp(prefix="killed-run-", dir=MEMORY))
    rig = Rig(kill, folder, result)
    try:
        rig.play()
    finally:
        rig.end()
        shutil.rmtree(folder, ignore_errors=True)
    return result


class Rig:
    """The processes of one run, the files they work on, and what these were before."""

    def __init__(self, kill: Kill, folder: Path, result: Result) -> None:
        self._kill, self._folder, self._result = kill, folder, result
        self._board = KillBoard(folder / "board")
        self._pids: dict[str, int] = {}
        self._struck: set[str] = set()
        self._ring = make_ring()
        self._socket, self._far_end = socket.socketpair()

    def play(self) -> None:
        """Start all, kill, wait until the board is as before, and compare."""
        root, folder = self._board.root, self._folder
        self._pids["board"] = fork(lambda: serve(root, self._ring, self._far_end), folder / "board")
        self._socket.recv(16)
        self._pids["supervisor"] = fork(
            lambda: govern(root, folder / "run", self._ring, self._kill.seed), folder / "supervisor"
        )
        self._await_moment()
        self._pids |= self._others()
        if self._kill.foreign:
            self._write_as_another()
        if self._kill.full_disk:
            self._fill_disk()
        killed_s = self._strike()
        self._await_restored(killed_s)
        self._compare()

    def end(self) -> None:
        """End what still lives, this run's own processes only."""
        # A workload that was started at the very moment of the blow is nobody's but ours by now.
        orphans = [child.pid for child in psutil.Process().children() if child.name() == "sleep"]
        for pid in {*self._pids.values(), *self._others().values(), *orphans}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os.close(self._ring)
        self._board.close()
        self._socket.close()
        self._far_end.close()

    # The processes

    def _others(self) -> dict[str, int]:
        """Return workload and warden, where they live already."""
        found = {}
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._pids["supervisor"]).children():
                with suppress(psutil.NoSuchProcess):
                    name = "workload" if child.name() == "sleep" else "warden"
                    found[name] = child.pid
        return found

    # The moment and the blow

    def _await_moment(self) -> None:
        deadline = time.monotonic() + (self._kill.after_s if not self._kill.wakes else 2.0)
        while time.monotonic() < deadline and self._board.wakes < (self._kill.wakes or 10**9):
            self._look(deadline)
            if self._board.wakes == 1:
                self._pids |= self._others()
        time.sleep(self._kill.delay_s)

    def _look(self, deadline_s: float) -> None:
        """Wait for a write or the moment; note limits that cross."""
        if crossing := self._board.look(deadline_s):
            self._result.faults.append(crossing)

    def _write_as_another(self) -> None:
        """Cap the GPU as another writer, and let that be seen.

        Not into the middle of a write of ours: whoever is last has it then, as between any two.
        """
        self._run_for(self._kill.foreign_after_s)
        while not self._board.can_be_capped():
            self._run_for(0.01)
        self._board.cap()
        self._run_for(LET_IT_RUN_S)

    def _fill_disk(self) -> None:
        for name in ("supervisor", "warden"):
            if name in self._pids:
                with suppress(ProcessLookupError):
                    hard = resource.prlimit(self._pids[name], resource.RLIMIT_FSIZE)[1]
                    resource.prlimit(self._pids[name], resource.RLIMIT_FSIZE, (FULL_BYTES, hard))
        self._run_for(LET_IT_RUN_S)

    def _run_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._look(deadline)

    def _strike(self) -> float:
        """Send the signal to every victim that lives already; return the moment of the last one."""
        victims = self._kill.victims
        if victims == ("oom",):
            victims = (max(self._pids, key=self._memory),)
        self._struck = {*victims} & {*self._pids}
        for name in victims:
            if name in self._pids:
                with suppress(ProcessLookupError):
                    os.kill(self._pids[name], self._kill.number)
            time.sleep(self._kill.gap_s)
        return time.monotonic()

    def _memory(self, name: str) -> int:
        try:
            return int(psutil.Process(self._pids[name]).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    # Afterwards

    def _await_restored(self, killed_s: float) -> None:
        """Wait until nothing can change the board any more, ending the run where it goes on."""
        since_s, clean_s, was_changed = killed_s, None, not self._board.is_as_before()
        ended = helped = False
        deadline = killed_s + PATIENCE_S
        while time.monotonic() < deadline:
            self._look(time.monotonic() + 0.002)
            now_s = time.monotonic()
            clean_s = (clean_s or now_s) if self._board.is_as_before() else None
            if not self._lives("supervisor"):
                if clean_s is not None:
                    break
                if not self._lives("warden") and not helped and not self._board.is_as_before():
                    helped, since_s, was_changed = True, time.monotonic(), True
                    self._help()
            elif not ended and now_s - killed_s > LET_IT_RUN_S:
                self._pids |= self._others()
                if "workload" in self._pids:
                    if self._lives("workload"):
                        since_s, was_changed = time.monotonic(), not self._board.is_as_before()
                        os.kill(self._pids["workload"], signal.SIGTERM)
                    ended = True
        else:
            self._result.faults.append(f"not as before after {PATIENCE_S:.0f} s")
        if was_changed and clean_s is not None:
            self._result.restored_s = max(0.0, clean_s - since_s)

    def _help(self) -> None:
        """All that could restore is dead: do what a user does next."""
        if "warden" in self._pids and not (
            "warden" in self._struck and self._kill.number in DEADLY
        ):
            self._result.faults.append("the warden was not killed, and did not restore")
        root, folder = self._board.root, self._folder
        if self._kill.new_start:
            self._result.by = "a new start"
            self._pids["helper"] = fork(
                lambda: start_anew(root, folder / "anew"), folder / "helper"
            )
        else:
            self._result.by = "orin-gov restore"
            words = ["restore", "--root", str(root)]
            self._pids["helper"] = fork(lambda: command(words), folder / "helper")

    def _lives(self, name: str) -> bool:
        """Whether that process runs; one that has ended is waited for."""
        pid = self._pids.get(name)
        if pid is None:
            return False
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def _compare(self) -> None:
        """Note every file that is not as it was, and how the supervisor ended."""
        deadline = time.monotonic() + PATIENCE_S
        while any(self._lives(each) for each in ("supervisor", "warden", "helper")):
            if time.monotonic() > deadline:
                self._result.faults.append("a process of the run does not end")
                return
            time.sleep(0.002)
        self._result.faults += self._board.differences()
        for log in sorted(self._folder.glob("*.told")):
            if "Traceback" in (told := log.read_text(errors="replace")):
                self._result.faults.append(f"{log.stem} said: {told.strip()[-2000:]}")
