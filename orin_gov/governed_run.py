"""A governed run, from the script's start to the summary after its end."""

import time
from collections.abc import Callable

from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.conditions import read_conditions
from orin_gov.board.gpu import Gpu
from orin_gov.board.probe import Board
from orin_gov.caller import as_caller
from orin_gov.control import Control
from orin_gov.engine import Engine
from orin_gov.errors import BoardError
from orin_gov.helm import Helm
from orin_gov.lookout import Lookout
from orin_gov.meter import Meter
from orin_gov.metrics import serve_metrics
from orin_gov.observer import Observer, Subject
from orin_gov.policy.decider import Decider
from orin_gov.policy.undisturbed import Undisturbed
from orin_gov.readying import resolvable, sensors_words
from orin_gov.record.kept import kept_plan
from orin_gov.record.summary import summarize
from orin_gov.record.writer import RunWriter
from orin_gov.settings import Settings
from orin_gov.signals import Workload, shell_code, wait_for
from orin_gov.standstill import Standstill
from orin_gov.tally import Tally
from orin_gov.view.lines import print_end, print_epoch, print_start, print_warning
from orin_gov.view.live import LiveView

SAMPLE_PERIOD_NS = 5_000_000
GAP_NS = 100_000_000
"""Readings further apart than this are not joined by a line: what lies between is missing."""

STALLED_NS = 10_000_000_000
"""An engine that has not ticked for so long hangs in a file of the board."""

VOLTAGE_EVERY = 2
"""Sweeps between two readings of a voltage: it changes once a conversion, and little."""


class GovernedRun:
    """The part of a run in which the script is alive, and the summary after it.

    Not thread-safe: the main thread's.
    """

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
        self._lookout = Lookout(board.root, take and self._noting(take))
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
        began_s, booted_s = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        sampler.start()
        engine.start()
        observer.start()
        code = wait_for(workload, lambda: self._look_after(engine))
        lasted_s = time.clock_gettime(time.CLOCK_BOOTTIME) - booted_s  # a deadline does not sleep
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

    def _noting(self, take: Callable[[Gpu], Control]) -> Callable[[Gpu], Control]:
        """Return `take`, for the engine's thread; what it takes is ours to give back as well."""

        def taken(gpu: Gpu) -> Control:
            control = self._control = take(gpu)
            with as_caller(self._settings.caller):
                self._writer.amend({"governing": True, "table_hz": list(gpu.table_hz)})
            return control

        return taken

    def _observer(self, engine: Engine, sampler: Sampler, ring: PhaseRing) -> Observer:
        settings = self._settings
        subject = Subject(self._name, settings.dry_run, settings.objective, settings.caller)
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
