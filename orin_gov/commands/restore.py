"""Put a board back that a run left changed because all of its processes were killed at once."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov restore`."""
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the board's file system starts (default /)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Restore; return 0 also where there was nothing to do."""
    from orin_gov.board.recovery import restore_board

    restored = restore_board(arguments.root)
    if arguments.json:
        limits = restored and {"min_hz": restored.min_hz, "max_hz": restored.max_hz}
        print(json.dumps({"restored": limits}))
    elif restored is None:
        print("nothing to restore: no run was cut off")
    else:
        print(f"restored: GPU {restored.min_hz / 1e6:.0f}-{restored.max_hz / 1e6:.0f} MHz")
    return 0
