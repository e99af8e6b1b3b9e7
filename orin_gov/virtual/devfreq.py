"""The GPU's devfreq files as the kernel serves them: requests in, an effective range and clock out.

After kernel 5.15's devfreq and nvgpu: a limit is the integer its text starts with; the maximum wins
over the minimum; both are shown as they took effect, cut to the ends of the table; a clock off the
table is rounded up to its next entry; an unknown governor is refused. The request that was last
written stays: a minimum cut by a lower maximum comes back when that maximum is lifted. The new
clock takes effect some milliseconds after the write, until when the old one persists. (On a board
the write itself blocks until then; a plain file cannot make its writer wait.)
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from orin_gov.virtual.files import ValueFile
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.podgov import Podgov, round_up
from orin_gov.virtual.tree import GOVERNORS

_EMPTY_GRACE_NS = 20_000_000
_NUMBER = re.compile(rb"\s*(\d+)")


def parse_limit(content: bytes) -> int | None:
    """The number that a write to min_freq or max_freq means, or None where the kernel refuses it.

    A prefix is enough: "6.12e8" is 6 and "0x10" is 0.
    """
    match = _NUMBER.match(content)
    return int(match[1]) if match else None


def effective_range(table: Sequence[int], min_hz: int, max_hz: int) -> tuple[int, int]:
    """The (minimum, maximum) in Hz that two requests come to; a maximum of 0 is none."""
    highest = max(table[0], min(max_hz or table[-1], table[-1]))
    return min(max(table[0], min_hz), highest), highest


class LimitFile:
    """min_freq or max_freq: the last valid request, and the effective value it is shown as."""

    def __init__(self, path: Path) -> None:
        self._file = ValueFile(path)
        self._content = self._file.read()
        self.request_hz = parse_limit(self._content) or 0
        self._empty_since_ns: int | None = None

    def poll(self, now_ns: int) -> bool:
        """Look for a write by another process; True if there is a new request to answer.

        An empty file is left alone for 20 ms: its writer may stand between truncating and writing.
        """
        content = self._file.read()
        if content == self._content:
            self._empty_since_ns = None
            return False
        if not content:
            self._empty_since_ns = self._empty_since_ns or now_ns
            if now_ns - self._empty_since_ns < _EMPTY_GRACE_NS:
                return False
        self._empty_since_ns = None
        self._content = content
        request_hz = parse_limit(content)
        self.request_hz = self.request_hz if request_hz is None else request_hz
        return True

    def show(self, effective_hz: int) -> None:
        """Make the file show the effective value, unless it does or has just been written again."""
        text = b"%d" % effective_hz
        if self._content != text and self._file.read() == self._content:
            self._file.overwrite(text)
            self._content = text


class Devfreq:
    """The devfreq directory of one board, and the clock the GPU really runs at (`clock_hz`).

    Thread-safety: none; the server's loop owns it.
    """

    def __init__(self, board: BoardModel, directory: Path, rng: random.Random) -> None:
        self._board = board
        self._table = board.frequencies_hz
        self._rng = rng
        self._min = LimitFile(directory / "min_freq")
        self._max = LimitFile(directory / "max_freq")
        self._governor_file = ValueFile(directory / "governor")
        self._governor = self._governor_file.read()
        self._cur = ValueFile(directory / "cur_freq")
        self._target = ValueFile(directory / "target_freq")
        self._podgov = Podgov(self._table)
        self._range = effective_range(self._table, self._min.request_hz, self._max.request_hz)
        self._wanted_hz = self.clock_hz = self._table[0]
        self.switch_ns: int | None = None

    def poll(self, now_ns: int) -> None:
        """Take up what was written to the limits and to the governor since it was last asked."""
        changed = [limit.poll(now_ns) for limit in (self._max, self._min)]
        if any(changed):
            self._range = effective_range(self._table, self._min.request_hz, self._max.request_hz)
            self._min.show(self._range[0])
            self._max.show(self._range[1])
        if self._poll_governor() or any(changed):
            self._aim(now_ns, self._governor_target())

    def ask_podgov(self, load_permille: float, now_ns: int) -> None:
        """Let nvhost_podgov decide from the load since it was last asked, where it governs."""
        if self._governor == b"nvhost_podgov":
            self._aim(now_ns, self._podgov.step(load_permille, now_ns, *self._range))

    def switch(self) -> None:
        """Make the awaited clock the clock."""
        self.switch_ns = None
        self.clock_hz = self._wanted_hz
        self._cur.show(self.clock_hz)
        self._target.show(self.clock_hz)

    def _poll_governor(self) -> bool:
        """True if another governor was written; an unknown one is put back as it was."""
        content = self._governor_file.read()
        if content in (b"", self._governor):
            return False
        if content.decode("ascii", "replace") not in GOVERNORS:
            self._governor_file.overwrite(self._governor)
            return False
        self._governor = content
        return True

    def _governor_target(self) -> int:
        """The clock the governor holds to between podgov's decisions, before the range."""
        if self._governor == b"performance":
            return self._range[1]
        if self._governor == b"powersave":
            return self._range[0]
        return self._wanted_hz

    def _aim(self, now_ns: int, target_hz: int) -> None:
        """Start a switch to the clock that a target comes to within the range."""
        wanted_hz = round_up(self._table, max(self._range[0], min(target_hz, self._range[1])))
        if wanted_hz == self._wanted_hz:
            return
        self._wanted_hz = wanted_hz
        if wanted_hz == self.clock_hz:  # back before the switch was through
            self.switch_ns = None
            return
        latency_s = self._board.switch_latency_s(self.clock_hz, wanted_hz, self._rng.random())
        self.switch_ns = now_ns + round(latency_s * 1e9)
