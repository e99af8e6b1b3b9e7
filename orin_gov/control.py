"""Control of the GPU's clock for one run: lock, journal, warden, actuator; given back as one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orin_gov._actuator import Actuator, Transition
from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.journal import Journal, begin_journal, exclusive, load_journal, restore
from orin_gov.board.warden import Warden
from orin_gov.errors import BoardError

logger = logging.getLogger(__name__)


class Control:
    """The right to set the GPU's frequency, from `take_control`. Not thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._range = journal.original
        self._settled = True
        gpu = journal.gpu
        limits = (journal.original.min_hz, journal.original.max_hz)
        self._actuator = Actuator(str(gpu.directory), sorted({*gpu.table_hz, *limits}))
        self._started = False
        self._restored = False

    @property
    def original(self) -> Range:
        """The limits as they were found."""
        return self._journal.original

    def request(self, target_hz: int | None) -> None:
        """Ask for an operating point, or with None for the board's own range; never blocks."""
        wanted = self.original if target_hz is None else Range(target_hz, target_hz)
        self._journal = self._journal.note(wanted)
        if not self._started:
            self._actuator.start()
            self._started = True
        self._range = wanted
        self._settled = False
        self._actuator.request(wanted.min_hz, wanted.max_hz)

    def transitions(self) -> list[Transition]:
        """Return the frequency changes that have finished since the last call."""
        finished = self._actuator.drain()
        self._settled = self._settled or bool(finished and not self._actuator.pending)
        return finished

    def foreign_range(self) -> Range | None:
        """Return the board's limits where another writer changed them since our last request."""
        if not self._settled:
            return None
        now = self._journal.gpu.read_range()
        return None if now == self._range else now

    def give_back(self) -> None:
        """Put the board back as it was found; a second call does nothing.

        Raises:
            BoardError: it could not be put back; the journal stays for `orin-gov restore`.
        """
        if self._restored:
            return
        if self._started and not self._actuator.stop(timeout_s=1.0):
            logger.warning("a frequency write is hanging; restoring beside it")
        restore(self._journal)
        self._restored = True


@contextmanager
def take_control(root: Path, gpu: Gpu) -> Iterator[Control]:
    """Take control of `gpu`; on leaving, the board is as it was found, whatever happened.

    Where it cannot be put back, that is logged, and the journal stays for `orin-gov restore`.

    Call it before any thread is started: it forks the warden. What an earlier, killed run left is
    restored first.

    Raises:
        BoardError: another governor holds the GPU, or its limits cannot be read.
    """
    with exclusive(gpu) as lock:
        if stale := load_journal(root):
            found = restore(stale)
            logger.warning(
                "an earlier run was killed; restored %s to %.0f-%.0f MHz",
                stale.gpu.directory.name,
                found.min_hz / 1e6,
                found.max_hz / 1e6,
            )
        control = Control(begin_journal(root, gpu))
        warden = Warden.fork(root, (lock,))
        try:
            yield control
        finally:
            _end(control, warden)


def _end(control: Control, warden: Warden) -> None:
    try:
        control.give_back()
    except BoardError as error:
        # Said, not raised: what the script ended with is what the run must end with.
        logger.error("%s", error)
        warden.abandon()
    else:
        warden.dismiss()


def restore_board(root: Path) -> Range | None:
    """Restore what a killed run left on the board under `root`; None where there is nothing to do.

    Raises:
        BoardError: a governor is running, or the board could not be restored.
    """
    journal = load_journal(root)
    if journal is None:
        return None
    with exclusive(journal.gpu):
        # Read again under the lock: a warden may have restored in between.
        journal = load_journal(root)
        return restore(journal) if journal else None
