"""The supervisor: one governed run, from the first look at the board to the summary."""

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from orin_gov import __version__
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.averaging import SETTLED, find_averaging
from orin_gov.board.conditions import read_conditions
from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.probe import Board, open_board
from orin_gov.board.recovery import restore_board
from orin_gov.caller import Caller, as_caller
from orin_gov.control import Control, stand_by, take_control
from orin_gov.engine import Engine
from orin_gov.errors import BoardError, PolicyError, UsageError
from orin_gov.helm import Helm, Lookout
from orin_gov.meter import Meter
from orin_gov.metrics import serve_metrics
from orin_gov.observer import Observer, Subject
from orin_gov.policy.card import OTHER_BOARD, differences
from orin_gov.policy.decider import Decider
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.policy_file import parse_policy
from orin_gov.policy.tree import Policy
from orin_gov.policy.undisturbed import Undisturbed
from orin_gov.policy.upkeep import BASELINE_SHARE
from orin_gov.record.kept import kept_plan
from orin_gov.record.summary import summarize
from orin_gov.record.writer import RunWriter, create_run_directory
from orin_gov.running import announced
from orin_gov.signals import Workload, block_signals, shell_code, wait_for
from orin_gov.standstill import Standstill
from orin_gov.tally import Tally
from orin_gov.view.lines import print_end, print_epoch, print_start, print_warning
from orin_gov.view.live import LiveView, live_view
from orin_gov.virtual.launch import BOARDS, VirtualBoard
from orin_gov.windows import Epoch

logger = logging.getLogger(__name__)

SAMPLE_PERIOD_NS = 5_000_000
GAP_NS = 100_000_000
"""Readings further apart than this are not joined by a line: what lies between is missing."""

STALLED_NS = 10_000_000_000
"""An engine that has not ticked for so long hangs in a file of the board."""

VOLTAGE_EVERY = 2
"""Sweeps between two readings of a voltage: it changes once a conversion, and little."""

VIRTUAL = "virtual:"


@dataclass(frozen=True)
class Settings:
    """What the user chose for a run; the defaults are those of the command line."""

    board: str | None = None
    root: Path = Path("/")
    objective: Objective = field(default_factory=Objective)
    epoch: Epoch = field(default_factory=Epoch)
    baseline_share: float = BASELINE_SHARE
    policy: Path | None = None
    dry_run: bool = False
    strict: bool = False
    fast_sensors: bool = False
    metrics_port: int | None = None
    live: bool | None = False  # None: where there is a terminal for it
    output: Path | None = None
    caller: Caller | None = None


Start = Callable[[int], Workload]


Decide = Callable[[Board, tuple[int, ...]], Decider]
"""Makes what decides in the governor's place, from the board and its operating points."""


def supervise(
    settings: Settings,
    name: str,
    stepped: bool,
    start: Start,
    ring: int,
    decide: Decide | None = None,
) -> int:
    """Run the workload that `start` starts, governed; return the exit code to end with.

    `name` is the script's, for the run directory; `stepped` tells whether it can mark its steps in
    the shared memory behind the descriptor `ring`, which `start` is given.

    Raises:
        OrinGovError: something the run cannot do without is missing. Nothing was started then.
    """
    with as_caller(settings.caller if settings.policy else None):
        policy = load_policy(settings.policy)
    with ExitStack() as stack:
        virtual = stack.enter_context(_virtual_board(settings.board, ring))
        board = _open_board(virtual.root if virtual else settings.root)
        if not settings.dry_run and board.gpu and not board.gpu.unwritable_files():
            _restore_left(board.root)
            board = _open_board(board.root)
        points = operating_points(board)
        obstacle = _obstacle(board, settings)
        advise = settings.dry_run or obstacle is not None
        if decide is None and obstacle is None:
            policy = _as_trusted(policy, board)
        governor: Decider = (
            decide(board, points)
            if decide is not None
            else _governor(board, points, policy, settings, advise)
        )
        path = settings.output or default_run_directory(name)
        with as_caller(settings.caller):
            create_run_directory(path)
        control, take = None, None
        if not obstacle and not settings.dry_run:
            assert board.gpu is not None
            control = stack.enter_context(take_control(board.root, board.gpu))
        elif board.awaits_gpu and not settings.dry_run:
            take = stack.enter_context(stand_by(board.root))
        if obstacle:
            so = "governed once it appears" if take else "measured but not governed"
            print_warning(f"{obstacle}; the script runs on, {so}")
        if settings.fast_sensors:
            board = _quicken(board, control)
        manifest = _manifest(settings, name, board, policy, control)
        with as_caller(settings.caller):
            writer = stack.enter_context(RunWriter(path, [rail.label for rail in board.rails]))
            writer.manifest(manifest)
        rails = [rail.label for rail in board.rails]
        meter = Meter(rails, board.total_rails, round(board.cycle_s * 1e9))
        answer = stack.enter_context(meter.served(ring))
        view = stack.enter_context(live_view(settings.live))
        stack.enter_context(announced(path))
        block_signals()
        workload = start(ring)
        answer()
        if virtual:
            virtual.adopt(workload.pid)
        run = _Run(settings, name, board, governor, points, control, take, writer, view)
        return run.see_through(workload, PhaseRing(ring), stepped, meter)


class _Run:
    """The part of a run in which the script is alive, and the summary after it."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        board: Board,
        governor: Decider,
        points: tuple[int, ...],
        control: Control | None,
        take: Callable[[Gpu], Control] | None,
        writer: RunWriter,
        view: LiveView | None,
    ) -> None:
        self._settings, self._name, self._board = settings, name, board
        self._governor, self._control, self._writer = governor, control, writer
        self._tally = Tally()
        self._helm = Helm(control, governor, points, self._tally.warnings)
        self._lookout = Lookout(board.root, take)
        self._view = view
        self._warned = False
        self._stood_until_ns = time.monotonic_ns()
        self._standstill = Standstill(self._stood_until_ns)

    def see_through(self, workload: Workload, ring: PhaseRing, stepped: bool, meter: Meter) -> int:
        """Measure and govern until the workload ends; put the board back; sum up."""
        rails = [rail.sampler_files for rail in self._board.rails]
        sampler = Sampler(rails, SAMPLE_PERIOD_NS, GAP_NS, voltage_every=VOLTAGE_EVERY)
        engine = Engine(
            self._board,
            ring,
            sampler,
            self._governor,
            self._helm,
            self._lookout,
            self._tally,
            resolvable(self._settings.epoch, self._board),
            self._writer,
            stepped,
            print_epoch if self._view is None else lambda record: None,
        )
        observer = self._observer(engine, sampler, ring)
        print_start(self._name, self._board, self._control is not None, self._settings.objective)
        if told := sensors_words(self._settings.epoch, self._board):
            print_warning(told)
        engine.watch = meter.feed
        port = self._settings.metrics_port
        metrics = serve_metrics(port, self._name, self._board, meter, self._tally)
        began_s = time.monotonic()
        sampler.start()
        engine.start()
        observer.start()
        code = wait_for(workload, lambda: self._look_after(engine))
        lasted_s = time.monotonic() - began_s
        self._give_back()  # before all else: what is yet to be measured and written can wait
        ended = engine.finish()
        metrics.close()
        observer.finish()
        if self._view is not None:
            self._view.close()
        sampler.stop()
        summary = summarize(
            self._tally,
            self._board,
            self._settings.objective,
            sampler.quality(),
            sampler.sweeps,
            time.monotonic() - began_s,
            ring.dropped,
            self._governor.believed_top() if isinstance(self._governor, Undisturbed) else None,
        )
        summary.update(
            kept_plan(self._settings.objective, lasted_s, engine.spent_j(), self._tally.steps)
        )
        if ended:
            conditions = read_conditions(engine.board.root, engine.board.gpu).as_json()
            found = {"conditions": conditions, "exit_code": shell_code(code)}
            with as_caller(self._settings.caller):
                self._writer.summary({**summary, **found})
        observer.clear()
        if self._writer.fault:
            print_warning(self._writer.fault)
        print_end(summary, self._writer.path, self._name)
        return shell_code(code)

    def _observer(self, engine: Engine, sampler: Sampler, ring: PhaseRing) -> Observer:
        settings = self._settings
        slowdown = settings.objective.max_slowdown
        subject = Subject(self._name, settings.dry_run, slowdown, settings.caller)
        show = self._view.show if self._view is not None else None
        return Observer(subject, engine, self._helm, sampler, ring, self._writer.path, show)

    def _look_after(self, engine: Engine) -> None:
        if self._view is not None:
            self._view.tend()
        now_ns = time.monotonic_ns()
        if self._standstill.look(now_ns):  # then the engine stood still as well
            self._stood_until_ns = now_ns
        stalled = now_ns - max(engine.ticked_ns, self._stood_until_ns) > STALLED_NS
        if (stalled or not engine.is_alive()) and not self._warned:
            # A fault of ours (its traceback is on stderr), or a file that hangs, must not cost the
            # user the training.
            self._warned = True
            engine.abandon()
            told = "the governor hangs in a file of the board" if stalled else "the governor failed"
            print_warning(f"{told}; putting the board back, the script runs on")
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


def _governor(
    board: Board, points: tuple[int, ...], policy: Policy, settings: Settings, advise: bool
) -> Decider:
    """Return the governor of a run; windows that heat or over-current disturb are kept from it."""
    top_hz = board.gpu.table_hz[-1] if board.gpu and board.gpu.table_hz else None
    governor = Governor(
        policy, points or (1,), settings.objective, advise, top_hz, settings.baseline_share
    )
    return Undisturbed(governor, points or (1,))


def _as_trusted(policy: Policy, board: Board) -> Policy:
    """Return the policy, trusted less where its card is of another board's state, and say so."""
    mode = read_conditions(board.root, board.gpu).power_mode
    top_hz = board.gpu.table_hz[-1] if board.gpu and board.gpu.table_hz else None
    module = board.identity.module
    found = differences(policy.card, module, top_hz, mode.name if mode else None)
    if not found:
        return policy
    print_warning(
        f"the policy was fitted {'; '.join(found)}: it is trusted less, and more is looked at"
    )
    return policy.doubted(OTHER_BOARD)


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
    if board.awaits_gpu or board.problems():
        return ()
    assert board.gpu is not None
    return board.gpu.points(Range(0, board.gpu.read_range().max_hz))


def _obstacle(board: Board, settings: Settings) -> str | None:
    """Return what keeps us from governing, or None; under --strict it is an error."""
    problems = board.problems()
    told = f"{problems[0].what}; to mend it: {problems[0].mend}" if problems else None
    if settings.dry_run:
        return None
    if told and settings.strict:
        raise BoardError(told)
    return told


def _quicken(board: Board, control: Control | None) -> Board:
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
        "jetpack": board.identity.jetpack,
        "table_hz": list(board.gpu.table_hz) if board.gpu else [],
        "rails": [rail.label for rail in board.rails],
        "total_rails": None if board.total_rails is None else list(board.total_rails),
        "time_constant_s": board.time_constant_s,
        "fast_sensors": settings.fast_sensors,
        "conditions": read_conditions(board.root, board.gpu).as_json(),
        "objective": vars(settings.objective),
        "governing": control is not None,
        "policy": dict(policy.card),
    }
