"""What a process holds: memory, descriptors and threads; and whether that grows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import theilslopes

FIELD = re.compile(r"^(\w+):\s+(\d+)(?: kB)?$", re.MULTILINE)


@dataclass(frozen=True)
class Footprint:
    """What one process held at one moment.

    anonymous_kb: memory of its own, on the disk or not (RssAnon and VmSwap)
    resident_kb:  all that it had in memory, with what it shares (VmRSS)
    """

    anonymous_kb: int
    resident_kb: int
    descriptors: int
    threads: int


def read_footprint(pid: int) -> Footprint | None:
    """Return what the process holds, or None where it has ended."""
    process = Path("/proc") / str(pid)
    try:
        status = dict(FIELD.findall((process / "status").read_text()))
        descriptors = len(list((process / "fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    if "RssAnon" not in status:  # a zombie has none
        return None
    own = int(status["RssAnon"]) + int(status.get("VmSwap", 0))
    return Footprint(own, int(status["VmRSS"]), descriptors, int(status["Threads"]))


def growth(times_s: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """Return the growth in units an hour and its 95 % interval.

    The median of the slopes between all pairs (Theil 1950, Sen 1968): an allocator grows in steps.
    """
    slope, _, low, high = theilslopes(values, np.asarray(times_s) / 3600)
    return float(slope), float(low), float(high)
