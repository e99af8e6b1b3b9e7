"""Putting a board back: at the end of a run, and after one whose processes were all killed."""

import logging
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

from orin_gov.board.gpu import Range, find_gpu
from orin_gov.board.journal import Journal, forget_journal, journal_path, load_journal, restore
from orin_gov.board.lock import exclusive
from orin_gov.errors import BoardError

logger = logging.getLogger(__name__)

RESTORE_S = 3.0
"""How long a restore is waited for: a board that hangs must not hold up the end of the run."""


def restore_in_time(journal: Journal, for_good: bool = True) -> None:
    """Restore, in a thread that is left behind where the board hangs.

    Where it is not `for_good` the journal stays, for another time.

    Raises:
        BoardError: it could not be restored, or not in time.
    """
    faults: list[BoardError] = []
    done = threading.Event()

    def work() -> None:
        try:
            restore(journal, for_good)
        except BoardError as error:
            faults.append(error)
        done.set()

    threading.Thread(target=work, name="orin_gov-restore", daemon=True).start()
    if not done.wait(RESTORE_S):
        raise BoardError(f"{journal.gpu.directory} does not answer; later: orin-gov restore")
    if faults:
        raise faults[0]


def restore_stale(root: Path) -> None:
    """Restore what an earlier, killed run left, under the lock, and say so."""
    if stale := load_journal(root):
        found = restore(stale)
        logger.warning(
            "an earlier run was killed; restored %s to %.0f-%.0f MHz",
            stale.gpu.directory.name,
            found.min_hz / 1e6,
            found.max_hz / 1e6,
        )


def restore_board(root: Path) -> Range | None:
    """Restore what a killed run left on the board under `root`; None where there is nothing to do.

    Raises:
        BoardError: a governor is running, or the board could not be restored.
    """
    journal = load_journal(root)
    if journal is None:
        _sweep(root)
        return None
    with exclusive(journal.gpu):
        # Read again under the lock: a warden may have restored in between.
        journal = load_journal(root)
        return restore(journal) if journal else None


def _sweep(root: Path) -> None:
    """Remove the draft of a journal, where a run was killed while it wrote its first."""
    path = journal_path(root)
    if path.parent.is_dir() and any(path.parent.iterdir()):
        gpu = find_gpu(root)
        with suppress(BoardError), exclusive(gpu) if gpu else nullcontext():
            forget_journal(path)
