"""The supervisor: one governed run, from the first look at the board to the summary."""

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from orin_gov import __version__
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.probe import Board, open_board
from orin_gov.control import Control, restore_board, take_control
from orin_gov.engine import Engine
from orin_gov.errors import BoardError, PolicyError, UsageError
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import Policy, parse_policy
from orin_gov.record.summary import summarize
from orin_gov.record.writer import RunWriter, create_run_directory
from orin_gov.signals import Workload, block_signals, shell_code, wait_for
from orin_gov.view.lines import print_end, print_epoch, print_start, print_warning
from orin_gov.virtual.launch import BOARDS, VirtualBoard
from orin_gov.windows import Epoch

logger = logging.getLogger(__name__)

SAMPLE_PERIOD_NS = 5_000_000
GAP_NS = 100_000_000
"""Readings further apart than this are not joined by a line: what lies between is missing."""

VOLTAGE_EVERY = 2
"""Sweeps between two readings of a voltage: it changes once a conversion, and little."""

CONVERSION_S = 0.0066
"""One conversion cycle of an INA3221 at its reset configuration (3 channels, 1.1 + 1.1 ms each)."""

TIME_CONSTANTS = 3
VIRTUAL = "virtual:"


@dataclass(frozen=True)
class Settings:
    """What the user chose for a run; the defaults are those of the command line."""

    board: str | None = None
    root: Path = Path("/")
    objective: Objective = field(default_factory=Objective)
    epoch: Epoch = field(default_factory=Epoch)
    policy: Path | None = None
    dry_run: bool = False
    strict: bool = False
    output: Path | None = None


Start = Callable[[int], Workload]


def supervise(settings: Settings, name: str, stepped: bool, start: Start, ring: int) -> int:
    """Run the workload that `start` starts, governed; return the exit code to end with.

    `name` is the script's, for the run directory; `stepped` tells whether it can mark its steps in
    the shared memory behind the descriptor `ring`, which `start` is given.

    Raises:
        OrinGovError: something the run cannot do without is missing. Nothing was started then.
    """
    policy = load_policy(settings.policy)
    with ExitStack() as stack:
        virtual = stack.enter_context(_virtual_board(settings.board, ring))
        board = _open_board(virtual.root if virtual else settings.root)
        if not settings.dry_run and not board.problems():
            _restore_left(board.root)
        points = operating_points(board)
        obstacle = _obstacle(board, settings)
        governor = Governor(
            policy,
            points or (1,),
            settings.objective,
            advise=settings.dry_run or obstacle is not None,
        )
        path = settings.output or default_run_directory(name)
        create_run_directory(path)
        if obstacle:
            print_warning(f"{obstacle}; the script runs on, measured but not governed")
        control = None
        if not obstacle and not settings.dry_run:
            assert board.gpu is not None
            control = stack.enter_context(take_control(board.root, board.gpu))
        block_signals()
        workload = start(ring)
        if virtual:
            virtual.adopt(workload.pid)
        writer = stack.enter_context(RunWriter(path, [rail.label for rail in board.rails]))
        writer.manifest(_manifest(settings, name, board, policy, control))
        run = _Run(settings, name, board, governor, control, writer)
        return run.see_through(workload, PhaseRing(ring), stepped)


class _Run:
    """The part of a run in which the script is alive, and the summary after it."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        board: Board,
        governor: Governor,
        control: Control | None,
        writer: RunWriter,
    ) -> None:
        self._settings, self._name, self._board = settings, name, board
        self._governor, self._control, self._writer = governor, control, writer
        self._warned = False

    def see_through(self, workload: Workload, ring: PhaseRing, stepped: bool) -> int:
        """Measure and govern until the workload ends; put the board back; sum up."""
        rails = [(str(rail.voltage_file), str(rail.current_file)) for rail in self._board.rails]
        sampler = Sampler(rails, SAMPLE_PERIOD_NS, GAP_NS, voltage_every=VOLTAGE_EVERY)
        engine = Engine(
            self._board,
            ring,
            sampler,
            self._governor,
            self._control,
            _resolvable(self._settings.epoch, self._board.averaging),
            self._writer,
            stepped,
            lambda record: print_epoch(record),
        )
        print_start(self._name, self._board, self._control is not None, self._settings.objective)
        began_s = time.monotonic()
        sampler.start()
        engine.start()
        code = wait_for(workload, lambda: self._look_after(engine))
        ended = engine.finish()
        self._give_back()
        sampler.stop()
        summary = summarize(
            engine.tally,
            self._board,
            self._settings.objective,
            sampler.quality(),
            sampler.sweeps,
            time.monotonic() - began_s,
            ring.dropped,
        )
        if ended:
            self._writer.summary({**summary, "exit_code": shell_code(code)})
        print_end(summary, self._writer.path, self._name, self._board)
        return shell_code(code)

    def _look_after(self, engine: Engine) -> None:
        if not engine.is_alive() and not self._warned:
            # A fault of ours (its traceback is on stderr) must not cost the user the training.
            self._warned = True
            print_warning("the governor failed; putting the board back, the script runs on")
            self._give_back()

    def _give_back(self) -> None:
        try:
            if self._control is not None:
                self._control.give_back()
        except BoardError as error:
            print_warning(str(error))


def load_policy(path: Path | None) -> Policy:
    """Return the policy in `path`, or the one that ships.

    Raises:
        PolicyError: it cannot be read or is not a policy.
    """
    if path is None:
        shipped = resources.files("orin_gov.policy") / "default.json"
        return parse_policy(shipped.read_text(encoding="utf-8"), "the policy that ships")
    try:
        return parse_policy(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"cannot read the policy {path}: {error}") from error


@contextmanager
def _virtual_board(name: str | None, ring: int) -> Iterator[VirtualBoard | None]:
    if name is None:
        yield None
        return
    if not name.startswith(VIRTUAL):
        raise UsageError(f"board is {name!r}, expected {VIRTUAL} and one of {', '.join(BOARDS)}")
    with VirtualBoard.start(name.removeprefix(VIRTUAL), ring) as virtual:
        yield virtual


def _open_board(root: Path) -> Board:
    try:
        return open_board(root)
    except BoardError as error:
        raise UsageError(
            f"{error}; to try it on a virtual board: orin-gov run --board {VIRTUAL}{BOARDS[0]} ..."
        ) from error


def _restore_left(root: Path) -> None:
    """Put back what a killed run left, before the limits are taken for the board's own cap."""
    if restored := restore_board(root):
        print_warning(
            "an earlier run was killed; the GPU is back at "
            f"{restored.min_hz / 1e6:.0f}-{restored.max_hz / 1e6:.0f} MHz"
        )


def operating_points(board: Board) -> tuple[int, ...]:
    """Return the clocks a governor may choose: the board's own, up to the cap as it stands."""
    if board.gpu is None:
        return ()
    cap_hz = board.gpu.read_range().max_hz
    return tuple(hz for hz in board.gpu.table_hz if hz <= cap_hz)


def _obstacle(board: Board, settings: Settings) -> str | None:
    """Return what keeps us from governing, or None; under --strict it is an error."""
    problems = board.problems()
    told = f"{problems[0].what}; to mend it: {problems[0].mend}" if problems else None
    if told is None and len(operating_points(board)) < 2:
        told = "the board's cap leaves a single GPU clock, there is nothing to choose"
    if settings.dry_run:
        return None
    if told and settings.strict:
        raise BoardError(told)
    return told


def _resolvable(epoch: Epoch, averaging: int | None) -> Epoch:
    """Lengthen the epoch to what the sensors can resolve: three of their time constants."""
    least_s = TIME_CONSTANTS * CONVERSION_S * (averaging or 1)
    return Epoch(epoch.steps, epoch.seconds, max(epoch.least_s, least_s))


def default_run_directory(name: str) -> Path:
    """Return a new name for a run directory below the working directory."""
    stem = re.sub(r"[^\w.-]", "_", name.removesuffix(".py")) or "run"
    return Path("orin_gov_runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _manifest(
    settings: Settings, name: str, board: Board, policy: Policy, control: Control | None
) -> dict[str, object]:
    return {
        "orin_gov": __version__,
        "name": name,
        "argv": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "clock_ns": time.monotonic_ns(),
        "board": board.identity.title,
        "module": board.identity.module,
        "virtual": board.identity.virtual,
        "l4t": board.identity.l4t,
        "table_hz": list(board.gpu.table_hz) if board.gpu else [],
        "rails": [rail.label for rail in board.rails],
        "total_rails": list(board.total_rails),
        "objective": vars(settings.objective),
        "governing": control is not None,
        "policy": dict(policy.card),
    }
