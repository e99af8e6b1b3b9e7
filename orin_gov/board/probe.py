"""One look at a board: what is there, what is missing, and the command that mends it."""

from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.files import read_text
from orin_gov.board.gpu import Gpu, find_gpu
from orin_gov.board.identity import Identity, identify
from orin_gov.board.rails import (
    Rail,
    find_rails,
    gpu_rail,
    sensor_averaging,
    total_rails,
    unreadable_labels,
)
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
    averaging: int | None

    @property
    def total_rails(self) -> tuple[str, ...]:
        """Labels of the rails whose sum is the module's power."""
        return total_rails(self.identity.module)

    @property
    def gpu_rail(self) -> str:
        """Label of the rail that feeds the GPU."""
        return gpu_rail(self.identity.module)

    def problems(self) -> list[Problem]:
        """Return what keeps a governor from working here, worst first."""
        return [*_gpu_problems(self.gpu), *_rail_problems(self)]


def open_board(root: Path) -> Board:
    """Look at the board whose file system starts at `root`; nothing is written.

    Raises:
        BoardError: this is no Jetson, or one that is not in the tables.
    """
    return Board(
        root=root,
        identity=identify(root),
        rails=tuple(find_rails(root)),
        gpu=find_gpu(root),
        averaging=sensor_averaging(root),
    )


def _gpu_problems(gpu: Gpu | None) -> list[Problem]:
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
    if files := gpu.unwritable_files():
        names = " and ".join(str(file) for file in files)
        return [
            Problem(f"no right to write {names}", f"sudo chmod a+w {' '.join(map(str, files))}")
        ]
    return []


def _rail_problems(board: Board) -> list[Problem]:
    labels = {rail.label for rail in board.rails}
    missing = [label for label in board.total_rails if label not in labels]
    if missing and (hidden := unreadable_labels(board.root)):
        folders = " ".join(f"{folder}/{{in,curr}}[123]_*" for folder in _folders(hidden))
        return [
            Problem(
                f"no right to read {hidden[0]} and its like (JetPack 5 makes them mode 0400)",
                f"run as root, or sudo chmod a+r {folders}",
            )
        ]
    if missing:
        return [
            Problem(
                f"power rail{'s' if len(missing) > 1 else ''} {', '.join(missing)} not found",
                "sudo modprobe ina3221",
            )
        ]
    unreadable = [rail for rail in board.rails if not _readable(rail)]
    if unreadable:
        files = " ".join(f"{rail.voltage_file} {rail.current_file}" for rail in unreadable)
        return [
            Problem(
                f"no right to read {', '.join(rail.label for rail in unreadable)}",
                f"sudo chmod a+r {files}",
            )
        ]
    return []


def _folders(files: list[Path]) -> list[Path]:
    return sorted({file.parent for file in files})


def _readable(rail: Rail) -> bool:
    try:
        return bool(rail.voltage_file.read_bytes() and rail.current_file.read_bytes())
    except OSError:
        return False


def require_gpu(board: Board) -> Gpu:
    """Return the board's GPU.

    Raises:
        BoardError: it has none.
    """
    if board.gpu is None:
        problem = board.problems()[0]
        raise BoardError(f"{problem.what}; {problem.mend}")
    return board.gpu
