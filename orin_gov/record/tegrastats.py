"""Reading a log of tegrastats, of any JetPack, into samples of power and clock.

One line is one look at the board, `LABEL now/mean` for each rail in milliwatts: the first number is
the reading, the second the mean since tegrastats was started. The clock in brackets is measured, by
graphics cluster; one that is switched off reads 0 or `off`. Stamps are of whole seconds, if any.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from statistics import median

from orin_gov.errors import RunDirectoryError

RAIL = re.compile(r"(?<!\S)([A-Z0-9][A-Z0-9_]*) (-?\d+)(?:mW)?(?:/-?\d+(?:mW)?){1,2}(?!\S)")
"""`VDD_IN 4984mW/4984mW`; without units on JetPack 4, with a third number, the peak, on 7."""

CLOCK = re.compile(r"GR3D_FREQ\s+(?:\d+%)?@(?:\[([^\]]*)\]|(\d+))")
"""`0%@[1007]` and `0%@[1007,1007]`, `@[1575,off,1574]` on Thor, `9%@921` on JetPack 4."""

STAMP = re.compile(r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d(?=\s)")
STAMP_FORMAT = "%m-%d-%Y %H:%M:%S"

SIGN = re.compile(r"(?<!\S)(RAM \d+/\d+MB|GR3D_FREQ )")
"""What a line of tegrastats has in every release."""

DEFAULT_INTERVAL_S = 1.0


@dataclass(frozen=True)
class LogLine:
    """One line: its stamp, the GPU's measured clock in Hz, milliwatts by rail; None = not said."""

    stamp: datetime | None
    clock_hz: int | None
    power_mw: dict[str, int]


@dataclass(frozen=True)
class Log:
    """A whole log: seconds since its begin by line, the lines, and how many others were skipped."""

    times_s: tuple[float, ...]
    lines: tuple[LogLine, ...]
    skipped: int

    @property
    def rails(self) -> tuple[str, ...]:
        """Labels of all rails, in the order in which they stand in the log."""
        return tuple(dict.fromkeys(label for line in self.lines for label in line.power_mw))


def parse_line(text: str) -> LogLine | None:
    """Return what a line says, or None where it is none of tegrastats."""
    if not SIGN.search(text):
        return None
    return LogLine(
        stamp=_stamp(text),
        clock_hz=_clock_hz(text),
        power_mw={label: int(now) for label, now in RAIL.findall(text) if label != "NC"},
    )


def parse_log(texts: Iterable[str], interval_s: float | None = None) -> Log:
    """Return the log; without stamps its lines are `interval_s` apart (default one second).

    Raises:
        RunDirectoryError: no line is of tegrastats, or its clock was set back.
    """
    found = [parse_line(text) for text in texts]
    lines = [line for line in found if line is not None]
    stamped = [line for line in lines if line.stamp is not None]
    if stamped and interval_s is None:
        lines = stamped  # a line that was cut off cannot be placed
    if not lines:
        raise RunDirectoryError("this is no log of tegrastats: no line has RAM or GR3D_FREQ")
    stamps = [line.stamp for line in lines if line.stamp is not None]
    if stamped and interval_s is None:
        times = spread([(stamp - stamps[0]).total_seconds() for stamp in stamps])
    else:
        times = [index * (interval_s or DEFAULT_INTERVAL_S) for index in range(len(lines))]
    return Log(tuple(times), tuple(lines), len(found) - len(lines))


def spread(seconds: Sequence[float]) -> list[float]:
    """Spread lines that have the same stamp evenly over their second; the first is at zero.

    The log begins and ends within a second, so the lines of the first lie at its end and those of
    the last at its begin, as far apart as elsewhere.

    Raises:
        RunDirectoryError: a stamp is before the one above it.
    """
    groups = [(second, len(list(group))) for second, group in groupby(seconds)]
    for (before, _), (after, _) in pairwise(groups):
        if after < before:
            raise RunDirectoryError(
                f"the log's clock was set back by {before - after:g} s; cut the log there"
            )
    whole = [count for _, count in groups[1:-1]] or [count for _, count in groups]
    apart_s = 1.0 / max(1, median(whole))
    times: list[float] = []
    for number, (second, count) in enumerate(groups):
        partial = number in (0, len(groups) - 1) and count * apart_s < 1.0
        step_s = apart_s if partial else 1.0 / count
        begin_s = second + 1.0 - count * step_s if partial and number == 0 else second
        times += [begin_s + index * step_s for index in range(count)]
    return [time - times[0] for time in times]


def _stamp(text: str) -> datetime | None:
    match = STAMP.match(text)
    try:
        return datetime.strptime(match[0], STAMP_FORMAT) if match else None
    except ValueError:
        return None


def _clock_hz(text: str) -> int | None:
    match = CLOCK.search(text)
    if match is None:
        return None
    clusters = (match[1] if match[1] is not None else match[2]).split(",")
    clocks = [
        int(clock) for clock in map(str.strip, clusters) if re.fullmatch(r"[0-9]{1,5}", clock)
    ]
    return max(clocks) * 1_000_000 if clocks else None
