"""The meter: tells other threads and the script how much energy was taken by a given moment.

The script asks over an abstract socket, whose name is that of the phase ring both sides hold: no
file, no port, gone with its process. It only ever reads, and the governor waits for nobody.
"""

import json
import logging
import math
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from orin_gov._sampler import Samples
from orin_gov.measured import known
from orin_gov.recent import RecentSamples
from orin_gov.workload.ring import meter_of

logger = logging.getLogger(__name__)

KEEP_NS = 20_000_000_000
"""A question comes within moments of what it asks about."""

PATIENCE_S = 2.0
"""A moment that no reading has covered after so long is answered with what there is."""

LONGEST_QUESTION = 256


class Meter:
    """Energy since the start by rail, at any moment of the last 20 seconds.

    `cycle_ns` is the sensors' conversion cycle, by which their readings are late; `total` names the
    rails of the module's power, None where they are not known.

    Thread-safety: one thread feeds, any may read.
    """

    def __init__(self, rails: Sequence[str], total: Sequence[str] | None, cycle_ns: int) -> None:
        self.rails, self.total = tuple(rails), None if total is None else tuple(total)
        self._cycle_ns = cycle_ns
        self._recent = RecentSamples(len(self.rails), KEEP_NS)
        self._changed = threading.Condition()
        self.clock_hz: int | None = None
        self.power_w: dict[str, float | None] = dict.fromkeys(self.rails)

    def feed(self, samples: Samples, clock_hz: int | None) -> None:
        """Take in what the sampler drained, and the clock as it reads now."""
        with self._changed:
            self.clock_hz = clock_hz
            if not len(samples.t_ns):
                return
            self._recent.append(samples._replace(t_ns=samples.t_ns - self._cycle_ns))
            last = map(known, samples.power_w[-1].tolist())
            self.power_w = dict(zip(self.rails, last, strict=True))
            self._changed.notify_all()

    def at(self, t_ns: int, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Return joules and unmeasured seconds by rail since the start, at `t_ns`.

        Waits until readings cover that moment. A rail without readings around it is None.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._covers(t_ns), patience_s)
            return self._read(t_ns)

    def now(self) -> dict[str, Any]:
        """Return the same at the newest reading, without waiting."""
        with self._changed:
            return self._read(self._recent.newest_ns)

    def _covers(self, t_ns: int) -> bool:
        newest_ns = self._recent.newest_ns
        return newest_ns is not None and newest_ns >= t_ns

    def _read(self, t_ns: int | None) -> dict[str, Any]:
        rails: dict[str, tuple[float, float] | None] = dict.fromkeys(self.rails)
        if len(self._recent) and t_ns is not None:
            samples = self._recent.since(0)
            for index, rail in enumerate(self.rails):
                rails[rail] = _interpolate(t_ns, *samples, index=index)
        return {"t_ns": t_ns, "clock_hz": self.clock_hz, "total": self.total, "rails": rails}

    @contextmanager
    def served(self, ring: int) -> Iterator[Callable[[], None]]:
        """Let the script that writes to the phase ring behind `ring` ask, while the block runs.

        Questions wait until the function that this yields is called: not before the script was
        forked, since there must be no thread then.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(meter_of(ring))
                listener.listen()
            except OSError as error:
                logger.info("the script cannot ask for its energy: %s", error)
            try:
                yield lambda: _start(self._accept, listener)
            finally:
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which close would not

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            if _may_ask(peer):
                _start(self._answer, peer)
            else:
                peer.close()

    def _answer(self, peer: socket.socket) -> None:
        """Answer each line of JSON with one: {"t_ns": N}, where null asks for now."""
        with peer, peer.makefile("rb") as questions:
            try:
                while line := questions.readline(LONGEST_QUESTION):
                    asked = json.loads(line)["t_ns"]
                    answer = self.now() if asked is None else self.at(int(asked))
                    peer.sendall(json.dumps(answer).encode() + b"\n")
            except (OSError, ValueError, TypeError, KeyError, OverflowError):
                return  # whoever asks nonsense is not answered any more


def _start(run: Callable[[socket.socket], None], on: socket.socket) -> None:
    threading.Thread(target=run, args=(on,), name="orin_gov-meter", daemon=True).start()


def _may_ask(peer: socket.socket) -> bool:
    """Tell whether it is root, or the user whose run this is."""
    size = struct.calcsize("3i")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", credentials)
    return user in (0, os.getuid(), int(os.environ.get("SUDO_UID", os.getuid())))


def _interpolate(
    t_ns: int, times: Any, power: Any, energy: Any, missing: Any, *, index: int
) -> tuple[float, float] | None:
    """Return joules and unmeasured seconds of one rail; its sums are up to date where it was read."""
    read = ~np.isnan(power[:, index])
    moments = times[read]
    if not len(moments):
        return None
    if t_ns < moments[0]:
        # Nothing was measured until then; that shows as a hole in what is measured from here.
        before_s = float(moments[0] - t_ns) * 1e-9
        first = np.flatnonzero(read)[0]
        return float(energy[first, index]), float(missing[first, index]) * 1e-9 - before_s
    # Relative times keep nanoseconds exact in floating point.
    at, x = float(t_ns - moments[0]), (moments - moments[0]).astype(np.float64)
    lacking_ns = float(np.interp(at, x, missing[read, index])) + max(0.0, at - x[-1])
    joules = float(np.interp(at, x, energy[read, index]))
    return None if math.isnan(joules) else (joules, lacking_ns * 1e-9)
