"""The GPU's frequency control: its devfreq folder, found by its device, not by a fixed path."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import read_int, read_text
from orin_gov.errors import BoardError

GPU_NODE_NAMES = frozenset({"gv11b", "gp10b", "ga10b", "gb10b", "gpu"})
GPU_FOLDER = re.compile(r"^([0-9a-f]+\.(gpu|g[apvb]1?[0-9]b)|gpu-gpc-\d+)$")

READ_AGAIN_S = 0.02
"""How long an empty file is read again: another writer may stand between truncating and writing."""


@dataclass(frozen=True)
class Range:
    """A pair of limits in Hz, as devfreq's min_freq and max_freq hold them."""

    min_hz: int
    max_hz: int


@dataclass(frozen=True)
class Gpu:
    """One devfreq folder and its ascending frequency table in Hz, empty where there is none."""

    directory: Path
    table_hz: tuple[int, ...]

    def read_range(self) -> Range:
        """Return the effective range.

        Raises:
            BoardError: a limit cannot be read.
        """
        return Range(
            _read_settled(self.directory / "min_freq"), _read_settled(self.directory / "max_freq")
        )

    def read_frequency_hz(self) -> int | None:
        """Return the current clock in Hz, or None where it cannot be read."""
        return read_int(self.directory / "cur_freq")

    def read_load(self) -> float | None:
        """Return the GPU's busy share, 0 to 1, or None where the board does not tell."""
        permille = read_int(self.directory / "device/load")
        return None if permille is None else permille / 1000

    def governor(self) -> str | None:
        """Return the name of the board's own governor."""
        return read_text(self.directory / "governor")

    def unwritable_files(self) -> list[Path]:
        """Return which of the two limit files this process may not write."""
        files = (self.directory / "min_freq", self.directory / "max_freq")
        return [file for file in files if not os.access(file, os.W_OK)]


def find_gpu(root: Path) -> Gpu | None:
    """Return the GPU's frequency control, or None: it appears only when the GPU first powers on."""
    for folder in sorted((root / "sys/class/devfreq").glob("*")):
        node = read_text(folder / "device/of_node/name")
        if node in GPU_NODE_NAMES or GPU_FOLDER.match(folder.name):
            return Gpu(folder.resolve(), _read_table(folder))
    return None


def _read_table(folder: Path) -> tuple[int, ...]:
    text = read_text(folder / "available_frequencies") or ""
    try:
        return tuple(sorted({int(word) for word in text.split()}))
    except ValueError:
        return ()  # a board that cannot be governed; `Board.problems` says what stands there


def _read_settled(path: Path) -> int:
    deadline = time.monotonic() + READ_AGAIN_S
    while (value := read_int(path)) is None:
        if time.monotonic() > deadline:
            raise BoardError(f"{path} holds {read_text(path)!r}, expected a frequency in Hz")
        time.sleep(0.001)
    return value
