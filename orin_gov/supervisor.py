"""The supervisor: one governed run, from the first look at the board to the summary."""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from orin_gov import __version__
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.conditions import read_conditions
from orin_gov.board.gpu import Gpu
from orin_gov.board.probe import Board
from orin_gov.caller import as_caller
from orin_gov.control import Control, stand_by, take_control
from orin_gov.deciding import as_trusted, load_policy, make_governor
from orin_gov.engine import Engine
from orin_gov.errors import BoardError
from orin_gov.helm import Helm, Lookout
from orin_gov.memory import settle_allocators
from orin_gov.meter import Meter
from orin_gov.metrics import serve_metrics
from orin_gov.observer import Observer, Subject
from orin_gov.policy.decider import Decider
from orin_gov.policy.tree import Policy
from orin_gov.policy.undisturbed import Undisturbed
from orin_gov.readying import (
    find_board,
    obstacle_to,
    operating_points,
    quicken,
    resolvable,
    restore_left,
    sensors_words,
    virtual_board,
)
from orin_gov.record.kept import kept_plan
from orin_gov.record.summary import summarize
from orin_gov.record.writer import RunWriter, create_run_directory
from orin_gov.running import announced
from orin_gov.settings import Settings, default_run_directory
from orin_gov.signals import Workload, block_signals, shell_code, wait_for
from orin_gov.standstill import Standstill
from orin_gov.tally import Tally
from orin_gov.view.lines import print_end, print_epoch, print_start, print_warning
from orin_gov.view.live import LiveView, live_view

logger = logging.getLogger(__name__)

SAMPLE_PERIOD_NS = 5_000_000
GAP_NS = 100_000_000
"""Readings further apart than this are not joined by a line: what lies between is missing."""

STALLED_NS = 10_000_000_000
"""An engine that has not ticked for so long hangs in a file of the board."""

VOLTAGE_EVERY = 2
"""Sweeps between two readings of a voltage: it changes once a conversion, and little."""

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
    settle_allocators()
    with as_caller(settings.caller if settings.policy else None):
        policy = load_policy(settings.policy)
    with ExitStack() as stack:
        virtual = stack.enter_context(virtual_board(settings.board, ring))
        board = find_board(virtual.root if virtual else settings.root)
        if not settings.dry_run and board.gpu and not board.gpu.unwritable_files():
            restore_left(board.root)
            board = find_board(board.root)
        points = operating_points(board)
        obstacle = obstacle_to(board, settings)
        advise = settings.dry_run or obstacle is not None
        if decide is None and obstacle is None:
            policy = as_trusted(policy, board)
        governor: Decider = (
            decide(board, points)
            if decide is not None
            else make_governor(board, points, policy, settings, advise)
        )
        path = settings.output or default_run_directory(name)
        with as_caller(settings.caller):
            create_run_directory(path)
        control, take = _take_over(stack, board, settings, obstacle)
        if settings.fast_sensors:
            board = quicken(board, control)
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


def _take_over(
    stack: ExitStack, board: Board, settings: Settings, obstacle: str | None
) -> tuple[Control | None, Callable[[Gpu], Control] | None]:
    """Take the GPU into control, or stand by for one that is yet to come; say what is in the way."""
    control, take = None, None
    if not obstacle and not settings.dry_run:
        assert board.gpu is not None
        control = stack.enter_context(take_control(board.root, board.gpu))
    elif board.awaits_gpu and not settings.dry_run:
        take = stack.enter_context(stand_by(board.root))
    if obstacle:
        so = "governed once it appears" if take else "measured but not governed"
        print_warning(f"{obstacle}; the script runs on, {so}")
    return control, take


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
