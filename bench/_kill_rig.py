"""One governed run of real processes on a virtual board's files, killed once, and looked at.

Supervisor, warden, workload and the board itself are processes; all but the workload are forked
from this one, which has imported all they need: a kill then takes a second. The supervisor is
`orin_gov.supervisor.supervise` with one thing exchanged, the decider: it chooses another clock at
every window, so that most moments are near a write.
"""

import ctypes
import os
import resource
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench._kills import Kill, Restless
from orin_gov._phases import PhaseRing
from orin_gov.commands import main as command
from orin_gov.errors import OrinGovError
from orin_gov.supervisor import Settings, supervise
from orin_gov.virtual.life import Lifeline
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.server import Server
from orin_gov.virtual.tree import build_tree, chip_directory, devfreq_directory
from orin_gov.virtual.watch import Watch
from orin_gov.windows import Epoch
from orin_gov.workload.launch import Target, launch
from orin_gov.workload.ring import make_ring

BOARD = "agx-orin-64gb"
MEMORY = "/dev/shm"
EPOCH = Epoch(None, 0.05, 0.05)
SLOW_SAMPLES = 512
FOREIGN_HZ = 1_122_000_000
"""Another writer's cap, which the decider never chooses."""

FULL_BYTES = 64
"""What a file may hold on the full disk: a clock fits, a journal or a record does not."""

PATIENCE_S = 15.0
LET_IT_RUN_S = 0.15
ALIVE_S = 600
SUBREAPER = 36

CHANGING = ("cur_freq", "target_freq", "load", "temp", ".truth", ".new")
"""Files that change by themselves, besides the sensors' inputs; every other must be as before."""


@dataclass
class Result:
    """What came of a kill: seconds until the board was as before, None where nothing was to do."""

    kill: Kill
    restored_s: float | None = None
    by: str = "itself"
    faults: list[str] = field(default_factory=list)


def be_subreaper() -> None:
    """Have the orphans of killed processes become children of this one, to be waited for."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


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
        board = load_board(BOARD)
        self._root = folder / "board"
        self._root.mkdir()
        build_tree(board, self._root)
        for chip in {rail.chip for rail in board.rails}:
            (chip_directory(chip, self._root) / "samples").write_text(f"{SLOW_SAMPLES}\n")
        self._gpu = devfreq_directory(board, self._root)
        self._journals = self._root / "run/orin_gov"
        self._journals.mkdir(mode=0o700)
        self._before = self._lasting()
        self._limits = [self._gpu / "max_freq", self._gpu / "min_freq"]
        sensors = sorted(self._root.glob("sys/class/hwmon/*/samples"))
        self._watch = Watch([*self._limits, *sensors, self._journals])
        self._pids: dict[str, int] = {}
        self._wakes = 0
        self._ring = make_ring()
        self._socket, self._far_end = socket.socketpair()

    def play(self) -> None:
        """Start all, kill, wait until the board is as before, and compare."""
        self._pids["board"] = _fork(self._serve, self._folder / "board")
        self._socket.recv(16)
        self._pids["supervisor"] = _fork(self._supervise, self._folder / "supervisor")
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
        for pid in {*self._pids.values(), *self._others().values()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os.close(self._ring)
        self._watch.close()
        self._socket.close()
        self._far_end.close()

    # The processes

    def _serve(self) -> int:
        life = Lifeline(self._far_end)
        server = Server(load_board(BOARD), self._root, PhaseRing(self._ring), life)
        self._far_end.sendall(b"ready")
        server.run()
        return 0

    def _supervise(self) -> int:
        settings = Settings(
            root=self._root, epoch=EPOCH, fast_sensors=True, output=self._folder / "run"
        )
        target = Target(("sleep", str(ALIVE_S)), False, "sleep")

        def decide(_board: object, points_hz: tuple[int, ...]) -> Restless:
            return Restless([hz for hz in points_hz if hz != FOREIGN_HZ], self._kill.seed)

        return supervise(
            settings, "sleep", False, lambda ring: launch(target, ring), self._ring, decide
        )

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
        while time.monotonic() < deadline and self._wakes < (self._kill.wakes or 10**9):
            self._look(deadline)
            if self._wakes == 1:
                self._pids |= self._others()
        time.sleep(self._kill.delay_s)

    def _look(self, deadline_s: float) -> None:
        """Wait for a write or the moment; note limits that cross."""
        _, written = self._watch.wait(round(deadline_s * 1e9))
        self._wakes += written
        texts = [path.read_bytes() for path in (*self._limits, self._limits[0])]
        if all(text.strip().isdigit() for text in texts) and texts[0] == texts[2]:
            max_hz, min_hz = int(texts[0]), int(texts[1])
            if min_hz > max_hz != FOREIGN_HZ:  # another writer's cap may cut what we have set
                self._result.faults.append(f"min_freq {min_hz} over max_freq {max_hz}")

    def _write_as_another(self) -> None:
        """Cap the GPU as another writer, and let that be seen.

        Not into the middle of a write of ours: whoever is last has it then, as between any two.
        """
        self._run_for(self._kill.foreign_after_s)
        while int(self._limits[1].read_bytes() or 0) > FOREIGN_HZ:
            self._run_for(0.01)  # a cap below our floor is the board's to resolve
        self._limits[0].write_text(f"{FOREIGN_HZ}\n")
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
        since_s, clean_s, was_changed = killed_s, None, not self._is_clean()
        ended = helped = False
        deadline = killed_s + PATIENCE_S
        while time.monotonic() < deadline:
            self._look(time.monotonic() + 0.002)
            now_s = time.monotonic()
            clean_s = (clean_s or now_s) if self._is_clean() else None
            if not self._lives("supervisor"):
                if clean_s is not None:
                    break
                if not self._lives("warden") and not helped and not self._is_clean():
                    helped, since_s, was_changed = True, time.monotonic(), True
                    self._help()
            elif not ended and now_s - killed_s > LET_IT_RUN_S:
                self._pids |= self._others()
                if "workload" in self._pids:
                    if self._lives("workload"):
                        since_s, was_changed = time.monotonic(), not self._is_clean()
                        os.kill(self._pids["workload"], signal.SIGTERM)
                    ended = True
        else:
            self._result.faults.append(f"not as before after {PATIENCE_S:.0f} s")
        if was_changed and clean_s is not None:
            self._result.restored_s = max(0.0, clean_s - since_s)

    def _help(self) -> None:
        """All that could restore is dead: do what a user does next."""
        if self._kill.new_start:
            self._result.by = "a new start"
            self._pids["helper"] = _fork(self._start_anew, self._folder / "helper")
        else:
            self._result.by = "orin-gov restore"
            words = ["restore", "--root", str(self._root)]
            self._pids["helper"] = _fork(lambda: command(words), self._folder / "helper")

    def _start_anew(self) -> int:
        settings = Settings(root=self._root, epoch=EPOCH, output=self._folder / "anew")
        target = Target(("true",), False, "true")
        return supervise(settings, "true", False, lambda ring: launch(target, ring), make_ring())

    def _lives(self, name: str) -> bool:
        """Whether that process runs; one that has ended is waited for."""
        pid = self._pids.get(name)
        if pid is None:
            return False
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def _is_clean(self) -> bool:
        try:
            texts = {path: path.read_bytes() for path in self._expected}
        except FileNotFoundError:
            return False
        return texts == self._expected and not any(self._journals.iterdir())

    @property
    def _expected(self) -> dict[Path, bytes]:
        names = ("min_freq", "max_freq", "samples")
        before = {path: text for path, text in self._before.items() if path.name in names}
        if self._kill.foreign:
            before[self._limits[0]] = b"%d\n" % FOREIGN_HZ
        return before

    def _lasting(self) -> dict[Path, bytes]:
        return {
            path: path.read_bytes()
            for path in self._root.rglob("*")
            if path.is_file()
            and not path.is_symlink()
            and not path.name.endswith((*CHANGING, "_input"))
        }

    def _compare(self) -> None:
        """Note every file that is not as it was, and how the supervisor ended."""
        deadline = time.monotonic() + PATIENCE_S
        while any(self._lives(each) for each in ("supervisor", "warden", "helper")):
            if time.monotonic() > deadline:
                self._result.faults.append("a process of the run does not end")
                return
            time.sleep(0.002)
        expected, now = {**self._before, **self._expected}, self._lasting()
        for path in sorted({*expected, *now}):
            if expected.get(path) != now.get(path):
                told = f"{expected.get(path)!r}, now {now.get(path)!r}"
                self._result.faults.append(f"{path.relative_to(self._root)} was {told}")
        for log in sorted(self._folder.glob("*.told")):
            if "Traceback" in (told := log.read_text(errors="replace")):
                self._result.faults.append(f"{log.stem} said: {told.strip()[-2000:]}")


def _fork(body: Callable[[], int], told: Path) -> int:
    """Run `body` in a process of its own, which says what it says in a file; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        said = os.open(told.with_suffix(".told"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard, descriptor in enumerate((nowhere, nowhere, said)):
            os.dup2(descriptor, standard)
        code = body()
    except KeyboardInterrupt:
        code = 130
    except OrinGovError as error:
        os.write(2, f"{error}\n".encode())
        code = error.exit_code
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        raise
    finally:
        os._exit(code)
