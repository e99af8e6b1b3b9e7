"""The GPU's frequency control: its devfreq folder, found by its device, not by a fixed path."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import fault, parse_int, read_int, read_ints, read_now, read_text
from orin_gov.errors import BoardError

GPU_NODE_NAMES = frozenset({"gv11b", "gp10b", "ga10b", "gb10b", "gpu"})
"""What the device tree calls the GPU: by its chip, or on Nano and since JetPack 6 by its kind."""

GPU_FOLDER = re.compile(r"([0-9a-f]+\.(gpu|g[apvb]1?[0-9]b)|gpu-gpc-\d+)")
"""Its folder where that has no device node, as on Thor; gpu-nvd is the video engine there."""

LOAD_FILES = ("sys/devices/gpu.0/load", "sys/devices/platform/gpu.0/load")
"""Where the GPU's load may stand besides its own device."""

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
    load_file: Path | None = None

    def read_range(self) -> Range:
        """Return the effective range: where the limits cross, the maximum wins, as in the kernel.

        Raises:
            BoardError: a limit cannot be read.
        """
        files = [self.directory / "max_freq", self.directory / "min_freq"]
        max_hz, min_hz = map(_settled, files, read_ints(files))
        return Range(min(min_hz, max_hz), max_hz)

    def points(self, limits: Range) -> tuple[int, ...]:
        """Return the clocks of the table within `limits`: what a governor may choose from."""
        return tuple(hz for hz in self.table_hz if limits.min_hz <= hz <= limits.max_hz)

    def read_frequency_hz(self) -> int | None:
        """Return the current clock in Hz, or None where it cannot be read."""
        clock_hz = read_now(f"{self.directory}/cur_freq")
        return clock_hz if clock_hz is not None and clock_hz >= 0 else None

    def read_load(self) -> float | None:
        """Return the GPU's busy share, 0 to 1, or None where the board does not tell."""
        permille = read_now(self.load_file) if self.load_file else None
        return permille / 1000 if permille is not None and 0 <= permille <= 1000 else None

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
        if node in GPU_NODE_NAMES or GPU_FOLDER.fullmatch(folder.name):
            directory = folder.resolve()
            return Gpu(directory, _read_table(directory), _load_file(root, directory))
    return None


def _read_table(folder: Path) -> tuple[int, ...]:
    words = (read_text(folder / "available_frequencies") or "").split()
    values = [parse_int(word.encode()) for word in words]
    if not all(value is not None and value > 0 for value in values):
        return ()  # a board that cannot be governed; `Board.problems` says what stands there
    return tuple(sorted({value for value in values if value is not None}))


def _load_file(root: Path, directory: Path) -> Path | None:
    candidates = (directory / "device/load", *(root / path for path in LOAD_FILES))
    return next((path for path in candidates if path.exists()), None)


def _settled(path: Path, value: int | None) -> int:
    """Return the `value` that was read of a limit, read again for a moment where it is none."""
    deadline = time.monotonic() + READ_AGAIN_S
    while value is None or value < 0:
        if time.monotonic() > deadline:
            held = f"{path} holds {read_text(path)!r}, expected a frequency in Hz"
            raise BoardError(fault(path) or held)
        time.sleep(0.001)
        value = read_int(path)
    return value
