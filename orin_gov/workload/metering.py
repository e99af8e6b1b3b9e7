"""Asking the supervisor what energy the script has taken: between two moments, or so far."""

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orin_gov.errors import UsageError

logger = logging.getLogger(__name__)

LONGEST_HOLE = 0.05
"""A rail's energy counts as missing where more than this share of a window was not measured."""

ANSWER_S = 4.0

FORGOTTEN = "the script has closed its descriptors, or this is a fork of it"


@dataclass(frozen=True)
class Measurement:
    """What a window took: `time` in seconds, energies in joules; None where not measured.

    `total_energy` is that of the module, `rail_energy` by rail. The names are those of Zeus.
    """

    time: float
    total_energy: float | None
    rail_energy: Mapping[str, float | None] = field(default_factory=dict)


class Meter:
    """Asks the supervisor at `address`; without an answer, energies are missing and never zero.

    Thread-safety: for one thread at a time.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._opened: tuple[int, tuple[int, int] | None] | None = None
        self._answers = b""
        self._asked: dict[str, tuple[int, int]] = {}  # by window: when it began, question's number
        self._known: dict[int, dict[str, Any]] = {}
        self._sent = self._received = 0

    def begin_window(self, key: str, sync_execution: bool = True) -> None:
        """Begin the window `key`; returns at once, the supervisor is asked without waiting.

        Raises:
            UsageError: it was begun already.
        """
        if key in self._asked:
            raise UsageError(f"window {key!r} was begun already")
        if sync_execution:
            _synchronise()
        begin_ns = time.monotonic_ns()
        self._asked[key] = begin_ns, self._ask(begin_ns)

    def end_window(
        self, key: str, sync_execution: bool = True, cancel: bool = False
    ) -> Measurement:
        """End the window `key` and return what it took; with `cancel` only forget it.

        Waits until the sensors have covered the end, about a tenth of a second.

        Raises:
            UsageError: it was not begun.
        """
        if key not in self._asked:
            raise UsageError(f"window {key!r} was not begun")
        if sync_execution and not cancel:
            _synchronise()
        end_ns = time.monotonic_ns()
        begin_ns, first = self._asked.pop(key)
        begin = self._known.pop(first, None) if cancel else self._answer(first)
        if cancel:
            return Measurement((end_ns - begin_ns) * 1e-9, None)
        end = self._answer(self._ask(end_ns))
        return _between(begin_ns, begin, end_ns, end)

    def readings(self) -> dict[str, float]:
        """Return `energy_j` of the module since the start and `clock_hz`, as far as known now."""
        now = self._answer(self._ask(None))
        found: dict[str, float] = {}
        if now is None:
            return found
        joules = [now["rails"].get(rail) for rail in now["total"] or ()]
        if joules and None not in joules:
            found["energy_j"] = sum(each[0] for each in joules)
        if now["clock_hz"] is not None:
            found["clock_hz"] = float(now["clock_hz"])
        return found

    def close(self) -> None:
        """Ask nothing any more."""
        if self._socket is not None:
            # Where the script has closed all descriptors, its number may be a file of the script's.
            if self._is_ours(self._socket):
                self._socket.close()
            else:
                self._socket.detach()
        self._socket, self._address = None, None

    def _is_ours(self, peer: socket.socket) -> bool:
        """Tell whether it still is what was opened here: not a file of the script's, nor a fork's."""
        return self._opened == (os.getpid(), identity(peer.fileno()))

    def _ask(self, t_ns: int | None) -> int:
        """Send a question; return its number."""
        try:
            if self._socket is not None and not self._is_ours(self._socket):
                raise OSError(FORGOTTEN)
            if self._socket is None and self._address is not None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._opened = os.getpid(), identity(self._socket.fileno())
                self._socket.settimeout(ANSWER_S)
                self._socket.connect(self._address)
            if self._socket is not None:
                self._socket.sendall(json.dumps({"t_ns": t_ns}).encode() + b"\n")
        except OSError as error:
            self._lose(error)
        self._sent += 1
        return self._sent

    def _answer(self, question: int) -> dict[str, Any] | None:
        """Return the answer to a question, or None where there is none; answers come in order."""
        try:
            while self._socket is not None and self._received < question:
                if not self._is_ours(self._socket):
                    raise OSError(FORGOTTEN)
                line = self._line(self._socket)
                self._received += 1
                self._known[self._received] = json.loads(line)
        except (OSError, ValueError) as error:
            self._lose(error)
        wanted = {number for _, number in self._asked.values()}
        found = self._known.pop(question, None)
        self._known = {number: known for number, known in self._known.items() if number in wanted}
        return found

    def _line(self, peer: socket.socket) -> bytes:
        while b"\n" not in self._answers:
            more = peer.recv(65536)
            if not more:
                raise OSError("the supervisor has ended")
            self._answers += more
        line, self._answers = self._answers.split(b"\n", 1)
        return line

    def _lose(self, error: Exception) -> None:
        logger.info("energy is not known any more: %s", error)
        self.close()


def identity(descriptor: int) -> tuple[int, int] | None:
    """Return what is behind a descriptor, as a device and a number on it; None for nothing."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _synchronise() -> None:
    """Wait until the GPU has done what was asked of it, where torch uses one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _between(
    begin_ns: int, begin: dict[str, Any] | None, end_ns: int, end: dict[str, Any] | None
) -> Measurement:
    seconds = (end_ns - begin_ns) * 1e-9
    if begin is None or end is None:
        return Measurement(seconds, None)
    rails = {
        rail: _difference(begin["rails"].get(rail), after, seconds)
        for rail, after in end["rails"].items()
    }
    parts = [rails.get(rail) for rail in end["total"] or ()]
    known = [part for part in parts if part is not None]
    return Measurement(seconds, sum(known) if parts and len(known) == len(parts) else None, rails)


def _difference(
    before: tuple[float, float] | None, after: tuple[float, float] | None, seconds: float
) -> float | None:
    if before is None or after is None:
        return None
    hole_s = after[1] - before[1]
    if hole_s > LONGEST_HOLE * seconds:
        return None
    # A short hole is taken for as hungry as the rest.
    return (after[0] - before[0]) * (seconds / (seconds - hole_s) if hole_s > 0.0 else 1.0)
