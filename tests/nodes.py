"""A devfreq node of plain files for the tests of the actuator, and who watches it."""

import os
from pathlib import Path

MS = 1_000_000
TABLE = (306_000_000, 408_000_000, 510_000_000, 612_000_000, 1_300_500_000)
LOW, _, MIDDLE, HIGH, TOP = TABLE


def make_node(folder: Path, min_hz: int = LOW, max_hz: int = TOP, cur_hz: int = LOW) -> str:
    for name, value in (("min_freq", min_hz), ("max_freq", max_hz), ("cur_freq", cur_hz)):
        (folder / name).write_text(f"{value}\n")
    return str(folder)


def broken(folder: Path, name: str) -> str:
    """A node whose file `name` can be neither read nor written, for root neither."""
    node = make_node(folder)
    os.unlink(folder / name)
    os.mkdir(folder / name)
    return node
