"""The processes of a run that is killed: forked from this one, which has imported all they need.

A kill then takes a second. The supervisor is `orin_gov.supervisor.supervise` with one thing
exchanged, the decider: it chooses another clock at every window, so that most moments are near a
write.
"""

import ctypes
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path

from bench._kill_board import BOARD, FOREIGN_HZ
from bench._kills import Restless
from orin_gov._phases import PhaseRing
from orin_gov.epoch import Epoch
from orin_gov.errors import OrinGovError
from orin_gov.settings import Settings
from orin_gov.supervisor import supervise
from orin_gov.virtual.life import Lifeline
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.server import Server
from orin_gov.workload.launch import Target, launch
from orin_gov.workload.ring import make_ring

EPOCH = Epoch(None, 0.05, 0.05)
ALIVE_S = 600
SUBREAPER = 36


def be_subreaper() -> None:
    """Have the orphans of killed processes become children of this one, to be waited for."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def serve(root: Path, ring: int, control: socket.socket) -> int:
    """Play the board on the files under `root`, which stay when it ends."""
    server = Server(load_board(BOARD), root, PhaseRing(ring), Lifeline(control))
    control.sendall(b"ready")
    server.run()
    return 0


def govern(root: Path, output: Path, ring: int, seed: int) -> int:
    """Govern a workload that lasts until it is killed, with another clock at every window."""
    settings = Settings(root=root, epoch=EPOCH, fast_sensors=True, output=output)
    target = Target(("sleep", str(ALIVE_S)), False, "sleep")

    def decide(_board: object, points_hz: tuple[int, ...]) -> Restless:
        return Restless([hz for hz in points_hz if hz != FOREIGN_HZ], seed)

    return supervise(settings, "sleep", False, lambda fd: launch(target, fd), ring, decide)


def start_anew(root: Path, output: Path) -> int:
    """Start another run, as a user does who knows nothing of what was before."""
    settings = Settings(root=root, epoch=EPOCH, output=output)
    target = Target(("true",), False, "true")
    return supervise(settings, "true", False, lambda fd: launch(target, fd), make_ring())


def fork(body: Callable[[], int], told: Path) -> int:
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
