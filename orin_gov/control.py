"""Control of the GPU's clock for one run: lock, journal, warden, actuator; given back as one."""

import errno
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from orin_gov._actuator import Actuator, Transition
from orin_gov.board.averaging import Averaging
from orin_gov.board.conditions import is_cooled
from orin_gov.board.files import read_int
from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.journal import Journal, Setting, begin_journal
from orin_gov.board.lock import exclusive
from orin_gov.board.recovery import restore_in_time, restore_stale
from orin_gov.board.warden import Warden
from orin_gov.errors import BoardError

logger = logging.getLogger(__name__)

NO_AVERAGING = 1
"""What `samples` of an INA3221 is set to where single phases are to be told apart."""


class Control:
    """The right to set the GPU's frequency, from `take_control`.

    Thread-safety: the engine's thread owns it; `give_back` alone is for any thread, after which
    nothing is written any more, whatever is asked for.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._asked = journal.original  # what we wrote last
        self._range = journal.original  # what the limits should therefore read
        self._before = (journal.original, journal.original)  # both, before the last request
        self._floor_hz = 0  # the floor another writer raised; one that was found may be left
        self._settled = True
        gpu = journal.gpu
        limits = (journal.original.min_hz, journal.original.max_hz)
        self._allowed = {*gpu.table_hz, *limits}
        self._actuator = Actuator(str(gpu.directory), sorted(self._allowed))
        self._started = False
        self._closed = self._restored = self.hangs = False
        self._lock = threading.Lock()  # guards what is written, and the journal that tells it

    @property
    def original(self) -> Range:
        """The limits to put back: as they were found, or as another writer has set them since."""
        return self._journal.original

    def points(self, limits: Range) -> tuple[int, ...]:
        """Return the board's own clocks within `limits`."""
        return self._journal.gpu.points(limits)

    def request(self, target_hz: int | None) -> None:
        """Ask for an operating point, or with None for the board's own range; never blocks.

        Another writer's maximum is not written over: `foreign_range` finds it.

        Raises:
            BoardError: it cannot be noted in the journal.
        """
        wanted = self._own_range() if target_hz is None else Range(target_hz, target_hz)
        with self._lock:
            if not self._closed:
                self._journal = self._journal.note(wanted)
                self._write(wanted)

    def renew(self) -> bool:
        """Write again what was asked for, where the limits are as without us; tell whether so.

        A driver that comes back from a suspend may begin with the limits that it began with.

        Raises:
            BoardError: the limits cannot be read.
        """
        found, table_hz = self.foreign_range(), self._journal.gpu.table_hz
        if found not in (self.original, Range(table_hz[0], table_hz[-1])):
            return False
        with self._lock:
            if self._closed or self._asked == self._own_range():
                return False
            assert found is not None
            self._range = found
            self._write(self._asked)
        return True

    def _write(self, wanted: Range) -> None:
        if not self._started:
            self._actuator.start()
            self._started = True
        # Behind a request that is still under way, what the limits will read is not known.
        expected_hz = self._range.max_hz if self._settled else -1
        self._before = (self._asked, self._range)
        self._range = self._asked = wanted
        self._settled = False
        self._actuator.request(wanted.min_hz, wanted.max_hz, expected_hz)

    def _own_range(self) -> Range:
        """Return the board's own range; another writer's, off the table, is cut to the table.

        The driver rounds a limit between two clocks up: it would come out above the cap.
        """
        inside = self.points(self.original)
        off = {self.original.min_hz, self.original.max_hz} - self._allowed
        return Range(inside[0], inside[-1]) if off and inside else self.original

    def transitions(self) -> list[Transition]:
        """Return the frequency changes that have finished since the last call."""
        finished = self._actuator.drain()
        if finished and finished[-1].errno == errno.ECANCELED:
            self._asked, self._range = self._before
        self._settled = self._settled or bool(finished and not self._actuator.pending)
        return finished

    def foreign_range(self) -> Range | None:
        """Return the board's limits where another writer changed them since our last request.

        Raises:
            BoardError: they cannot be read.
        """
        if not self._settled or self._closed:
            return None
        now = self._journal.gpu.read_range()
        return None if now == self._range else now

    def adopt(self, found: Range) -> Range:
        """Take what `foreign_range` found for the board's own range; return what is left to us.

        It is what will be put back, unless it is a thermal cap, which lifts itself.
        """
        expected, self._range = self._range, found
        clamped = found.min_hz == found.max_hz < max(expected.min_hz, self._asked.min_hz)
        if clamped or found.min_hz in (expected.min_hz, self._asked.min_hz):
            min_hz = self.original.min_hz
        else:
            min_hz = found.min_hz
            self._floor_hz = found.min_hz if found.min_hz > self._asked.min_hz else 0
        with self._lock:
            if not self._closed and not self.is_cooled():
                self._journal = self._journal.adopt(Range(min(min_hz, found.max_hz), found.max_hz))
        return Range(min(self._floor_hz, found.max_hz), found.max_hz)

    def is_cooled(self) -> bool:
        """Tell whether the thermal framework caps the GPU now."""
        return is_cooled(self._journal.root, self._journal.gpu)

    def quicken(self, sensors: Sequence[Averaging]) -> None:
        """Switch the averaging of the sensors off, until the board is given back.

        Raises:
            BoardError: it could not be written, or did not take; what was changed is put back.
        """
        slow = [each for each in sensors if each.file and (each.samples or 1) > NO_AVERAGING]
        settings = [Setting(each.file, each.samples, NO_AVERAGING) for each in slow]  # type: ignore[arg-type]
        self._journal = self._journal.note_sensors(tuple(settings))
        for setting in settings:
            try:
                setting.file.write_text(f"{NO_AVERAGING}\n")
            except OSError as error:
                raise BoardError(f"cannot write {setting.file}: {error.strerror}") from error
            if read_int(setting.file) != NO_AVERAGING:
                raise BoardError(f"{setting.file} does not take {NO_AVERAGING}")

    def give_back(self) -> None:
        """Put the board back as it was found; a second call does nothing.

        Raises:
            BoardError: it could not be put back, or a write of ours hangs and may come after; the
                journal stays for a second call, the warden or `orin-gov restore`.
        """
        with self._lock:
            if self._restored:
                return
            self._closed = True
            self.hangs = self._started and not self._actuator.stop(timeout_s=1.0)
            restore_in_time(self._journal, for_good=not self.hangs)
            if self.hangs:
                raise BoardError(
                    "a frequency write hangs; it is put back once more when it is over"
                )
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
        restore_stale(root)
        warden = Warden.fork(root, (lock,))
        with ExitStack() as undo:
            undo.callback(warden.abandon)
            control = Control(begin_journal(root, gpu))
            undo.pop_all()  # from here on the board is put back instead
        try:
            yield control
        finally:
            _end(control, warden)


@contextmanager
def stand_by(root: Path) -> Iterator[Callable[[Gpu], Control]]:
    """Be ready to take control of a GPU that is not there yet: the block may, once, when it is.

    The warden must be forked before any thread is started, so it sleeps already; it cannot share a
    lock on files that do not exist yet. What is yielded raises as `take_control` does.
    """
    warden = Warden.fork(root, ())
    taken: list[Control] = []
    with ExitStack() as stack:

        def take(gpu: Gpu) -> Control:
            stack.enter_context(exclusive(gpu))
            restore_stale(root)
            taken.append(Control(begin_journal(root, gpu)))
            return taken[0]

        try:
            yield take
        finally:
            _end(taken[0] if taken else None, warden)


def _end(control: Control | None, warden: Warden) -> None:
    try:
        if control is not None:
            control.give_back()
    except BoardError as error:
        # Said, not raised: what the script ended with is what the run must end with.
        logger.error("%s", error)
        # While a write hangs this process cannot end, and its pipe to the warden stays open.
        if control is None or not control.hangs:
            warden.abandon()
    else:
        warden.dismiss()
