"""Making the board of a run ready: found or played, put back where it was left, and its limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orin_gov.board.averaging import SETTLED, find_averaging
from orin_gov.board.gpu import Range
from orin_gov.board.probe import Board, open_board
from orin_gov.board.recovery import restore_board
from orin_gov.control import Control
from orin_gov.epoch import Epoch
from orin_gov.errors import BoardError, UsageError
from orin_gov.settings import Settings
from orin_gov.view.lines import print_warning
from orin_gov.virtual.launch import BOARDS, VirtualBoard

VIRTUAL = "virtual:"


@contextmanager
def virtual_board(name: str | None, ring: int) -> Iterator[VirtualBoard | None]:
    """Play the board of that name while the block runs; None where it is a real one.

    Raises:
        UsageError: there is none of that name.
    """
    if name is None:
        yield None
        return
    if not name.startswith(VIRTUAL):
        raise UsageError(f"board is {name!r}, expected {VIRTUAL} and one of {', '.join(BOARDS)}")
    with VirtualBoard.start(name.removeprefix(VIRTUAL), ring) as virtual:
        yield virtual


def find_board(root: Path) -> Board:
    """Return the board.

    Raises:
        UsageError: there is none; the message names a virtual one.
    """
    try:
        return open_board(root)
    except BoardError as error:
        raise UsageError(
            f"{error}; to try it on a virtual board: orin-gov run --board {VIRTUAL}{BOARDS[0]} ..."
        ) from error


def restore_left(root: Path) -> None:
    """Put back what a killed run left, before the limits are taken for the board's own cap."""
    if restored := restore_board(root):
        print_warning(
            "an earlier run was killed; the GPU is back at "
            f"{restored.min_hz / 1e6:.0f}-{restored.max_hz / 1e6:.0f} MHz"
        )


def operating_points(board: Board) -> tuple[int, ...]:
    """Return the clocks a governor may choose: the board's own, up to the cap as it stands."""
    if board.awaits_gpu or board.problems():
        return ()
    assert board.gpu is not None
    return board.gpu.points(Range(0, board.gpu.read_range().max_hz))


def obstacle_to(board: Board, settings: Settings) -> str | None:
    """Return what keeps us from governing, or None.

    Raises:
        BoardError: something does, under --strict.
    """
    problems = board.problems()
    told = f"{problems[0].what}; to mend it: {problems[0].mend}" if problems else None
    if settings.dry_run:
        return None
    if told and settings.strict:
        raise BoardError(told)
    return told


def quicken(board: Board, control: Control | None) -> Board:
    """Switch the sensors' averaging off for this run, where it governs; return the board."""
    if control is None:
        print_warning("--fast-sensors changes the board, and this run only measures; left as it is")
        return board
    try:
        control.quicken(board.sensors)
    except BoardError as error:
        print_warning(f"--fast-sensors: {error}; it takes root")
    return replace(board, sensors=find_averaging(board.root))


def resolvable(epoch: Epoch, board: Board) -> Epoch:
    """Lengthen the epoch to what the sensors can resolve: three of their time constants."""
    least_s = SETTLED * (board.time_constant_s or 0.0)
    return Epoch(epoch.steps, epoch.seconds, max(epoch.least_s, least_s))


def sensors_words(epoch: Epoch, board: Board) -> str | None:
    """Return what the sensors' averaging costs this run, or None where they are quick enough."""
    if board.resolves_phases:
        return None
    least_s = resolvable(epoch, board).least_s
    mend = "; to change that for a run: --fast-sensors, as root" if board.can_be_quicker else ""
    return (
        f"the sensors lag by {board.time_constant_s:.2g} s, averaging {board.averaging} readings: "
        f"phases cannot be told apart, a decision epoch lasts {least_s:.2g} s or more{mend}"
    )
