"""Say what was found of a board, what is missing, and the command that mends it.

Ends with 0 where a governor can work, with 1 where something is missing.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_gov.board.probe import Board


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov doctor`."""
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        help="where the board's file system starts (default /)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    from orin_gov.board.probe import open_board
    from orin_gov.errors import BoardError

    try:
        board = open_board(arguments.root)
    except BoardError as error:
        print(f"missing  {error}")
        print("  mend   without a Jetson: orin-gov run --board virtual:agx-orin-64gb train.py")
        return 1
    _print_found(board)
    problems = board.problems()
    for problem in problems:
        print(f"missing  {problem.what}")
        print(f"  mend   {problem.mend}")
    if not problems:
        print("ready    orin-gov run train.py")
    return 1 if problems else 0


def _print_found(board: "Board") -> None:
    identity = board.identity
    print(f"board    {identity.title}, module {identity.module}")
    release = f"L4T {identity.l4t}" if identity.l4t else "unknown (no /etc/nv_tegra_release)"
    print(f"release  {release}")
    if board.gpu is not None:
        limits = board.gpu.read_range()
        print(f"gpu      {board.gpu.directory.name}, governor {board.gpu.governor()}")
        table = " ".join(f"{hz / 1e6:g}" for hz in board.gpu.table_hz)
        print(f"clocks   {table} MHz; limits {limits.min_hz / 1e6:g}-{limits.max_hz / 1e6:g} MHz")
    for rail in board.rails:
        inside = (
            "" if rail.label in board.total_rails else ", inside another rail: not in the total"
        )
        print(f"rail     {rail.label} ({rail.chip} channel {rail.channel}{inside})")
    print(f"total    {' + '.join(board.total_rails)}")
    if board.averaging and board.averaging > 1:
        print(f"sensors  average {board.averaging} conversions: phases cannot be told apart")
