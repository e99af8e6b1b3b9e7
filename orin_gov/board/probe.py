"""One look at a board: what is there, what is missing, and the command that mends it."""

import os
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.averaging import SETTLED, SHORTEST_PHASE_S, Averaging, find_averaging
from orin_gov.board.conditions import is_cooled
from orin_gov.board.files import fault, read_text
from orin_gov.board.gpu import Gpu, Range, find_gpu
from orin_gov.board.identity import SAID, Identity, identify
from orin_gov.board.modules import family_of
from orin_gov.board.rails import Rail, find_rails, unreadable_labels
from orin_gov.errors import BoardError


@dataclass(frozen=True)
class Problem:
    """Something a governor needs and the board lacks; `mend` is what the user can do."""

    what: str
    mend: str


@dataclass(frozen=True)
class Board:
    """One machine: identity, rails, GPU frequency control (None where there is none yet)."""

    root: Path
    identity: Identity
    rails: tuple[Rail, ...]
    gpu: Gpu | None
    sensors: tuple[Averaging, ...]

    @property
    def total_rails(self) -> tuple[str, ...] | None:
        """Labels of the rails whose sum is the module's power; None where no table tells them."""
        family = family_of(self.identity.module)
        return family.total([rail.label for rail in self.rails]) if family else None

    @property
    def gpu_rail(self) -> str | None:
        """Label of the rail that feeds the GPU; None where no table tells it."""
        family = family_of(self.identity.module)
        return family.gpu_rail([rail.label for rail in self.rails]) if family else None

    @property
    def averaging(self) -> int | None:
        """How many conversions the slowest sensor averages, or None where none of them tells."""
        return max((each.samples for each in self.sensors if each.samples), default=None)

    @property
    def time_constant_s(self) -> float | None:
        """Seconds by which the slowest sensor lags, or None without a sensor."""
        return max((each.time_constant_s for each in self.sensors), default=None)

    @property
    def cycle_s(self) -> float:
        """One conversion cycle of the sensors; 0 where averaging hides when a reading was taken."""
        if any((each.samples or 1) > 1 for each in self.sensors):
            return 0.0
        return max((each.cycle_s for each in self.sensors), default=0.0)

    @property
    def resolves_phases(self) -> bool:
        """Whether the sensors are quick enough to tell the phases of a step apart."""
        return SETTLED * (self.time_constant_s or 0.0) <= SHORTEST_PHASE_S

    @property
    def can_be_quicker(self) -> bool:
        """Whether the averaging of the sensors can be changed at all: JetPack 4 fixes it."""
        return any(each.file for each in self.sensors)

    @property
    def awaits_gpu(self) -> bool:
        """Whether the GPU's frequency control, or its table, is still to appear."""
        return self.gpu is None or not self.gpu.table_hz

    def problems(self) -> list[Problem]:
        """Return what keeps a governor from working here, worst first."""
        return [*_gpu_problems(self), *_rail_problems(self)]


def open_board(root: Path) -> Board:
    """Look at the board whose file system starts at `root`; nothing is written.

    Raises:
        BoardError: this is no Jetson.
    """
    rails, gpu = tuple(find_rails(root)), find_gpu(root)
    return Board(
        root=root,
        identity=identify(root, has_parts=bool(rails or gpu)),
        rails=rails,
        gpu=gpu,
        sensors=find_averaging(root),
    )


def _gpu_problems(board: Board) -> list[Problem]:
    gpu = board.gpu
    if gpu is None:
        return [
            Problem(
                "no GPU under /sys/class/devfreq (it appears when the GPU first powers on)",
                "python3 -c 'import torch; torch.cuda.init()', then try again",
            )
        ]
    if len(gpu.table_hz) < 2:
        table = gpu.directory / "available_frequencies"
        return [
            Problem(
                f"{table} holds {read_text(table)!r}, a governor needs at least 2 clocks in Hz",
                "check that the BSP supports GPU frequency scaling (nvpmodel -q)",
            )
        ]
    try:
        limits = gpu.read_range()
    except BoardError as error:
        return [Problem(str(error), "see the kernel's log: sudo dmesg | grep -i -e gpu -e devfreq")]
    if files := gpu.unwritable_files():
        return [_unwritable(files)]
    if is_cooled(board.root, gpu):
        return [
            Problem(
                "the GPU is too hot, its clock capped, and what its limits are otherwise hidden",
                "let it cool, then try again",
            )
        ]
    if len(gpu.points(Range(0, limits.max_hz))) < 2:
        return [
            Problem(
                f"the board's cap of {limits.max_hz / 1e6:g} MHz leaves no choice of GPU clocks",
                "sudo nvpmodel -m MODE; nvpmodel -p --verbose lists what each mode caps",
            )
        ]
    return []


def _unwritable(files: list[Path]) -> Problem:
    names = " and ".join(str(file) for file in files)
    folder = files[0].parent
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return Problem(
            f"{names} lie on a read-only file system, as in a container",
            f"docker run --privileged, or -v {folder}:{folder}",
        )
    mend = "run it with sudo, or once and for all: sudo orin-gov setup --group video"
    return Problem(f"no right to write {names}", mend)


def _rail_problems(board: Board) -> list[Problem]:
    total = board.total_rails
    labels = {rail.label for rail in board.rails}
    missing = [label for label in total or () if label not in labels]
    if (missing or not labels) and (hidden := unreadable_labels(board.root)):
        return [_hidden(hidden)]
    if total is None:
        return [
            Problem(
                f"which rails make up the module's power is not known: {board.identity.name}",
                f"set {SAID} to the module it is wired like, for example p3701-0005",
            )
        ]
    if missing:
        return [
            Problem(
                f"power rail{'s' if len(missing) > 1 else ''} {', '.join(missing)} not found",
                "sudo modprobe ina3221",
            )
        ]
    return _reading_problems(board)


def _hidden(labels: list[Path]) -> Problem:
    """The rails are there, but as JetPack 4 and 5 have it their files are mode 0600 or 0400."""
    folders = sorted({label.parent for label in labels})
    files = " ".join(f"{folder}/{_readable_names(labels[0].name)}" for folder in folders)
    return Problem(f"{fault(labels[0])}, and its like", f"run as root, or sudo chmod a+r {files}")


def _readable_names(label: str) -> str:
    return (
        "{in,curr}[123]_*" if label.startswith("in") else "{rail_name_,in_voltage,in_current}[012]*"
    )


def _reading_problems(board: Board) -> list[Problem]:
    faults = {rail.label: why for rail in board.rails if (why := rail.fault())}
    needed = [label for label in board.total_rails or () if label in faults]
    if not needed:
        return []
    what = f"no reading of {', '.join(needed)}: {faults[needed[0]]}"
    files = [file for rail in board.rails for file in (rail.voltage_file, rail.current_file)]
    closed = [str(file) for file in files if file.exists() and not os.access(file, os.R_OK)]
    if closed:
        return [Problem(what, f"run as root, or sudo chmod a+r {' '.join(closed)}")]
    return [Problem(what, "look for the sensor in the kernel's log: sudo dmesg | grep -i ina")]
