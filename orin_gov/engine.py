"""The engine: the thread that carries measurements to the governor and decisions to the board.

samples and marks -> steps -> window -> governor -> decision -> actuator
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler, Samples
from orin_gov.board.conditions import read_over_current, risen
from orin_gov.board.probe import Board
from orin_gov.disturbances import Disturbances
from orin_gov.ending import Ending
from orin_gov.energy import EnergyTimeline
from orin_gov.epoch import Epoch
from orin_gov.helm import Helm, has_come
from orin_gov.intake import Intake
from orin_gov.lookout import Lookout
from orin_gov.measured import MeasuredStep
from orin_gov.policy.decider import Decider
from orin_gov.policy.decision import Decision
from orin_gov.policy.history import History
from orin_gov.policy.window import Window
from orin_gov.record.decisions import as_json
from orin_gov.record.writer import RunWriter
from orin_gov.sight import Sight
from orin_gov.standstill import STOOD_NS, Standstill
from orin_gov.surroundings import Lookaround
from orin_gov.tally import EpochRecord, Tally, told_once
from orin_gov.windows import WindowBuilder

TICK_S = 0.1

PAUSES_TOLD = 20
"""A run on a machine that is suspended every night has more; they are all alike."""


class Engine(threading.Thread):
    """Measures, decides and acts until `finish` is called. Owns the window, and the helm's use.

    Without a helm that holds it only measures and advises. `stepped` tells whether the script can
    mark its steps. `tell` is called with each finished epoch, `watch` with each tick's samples and
    clock.
    """

    def __init__(
        self,
        board: Board,
        ring: PhaseRing,
        sampler: Sampler,
        governor: Decider,
        helm: Helm,
        lookout: Lookout,
        tally: Tally,
        epoch: Epoch,
        writer: RunWriter,
        stepped: bool,
        tell: Callable[[EpochRecord], None],
    ) -> None:
        super().__init__(name="orin_gov-engine", daemon=True)
        self.board, self.tally = board, tally
        self._sampler = sampler
        self._governor, self._helm, self._lookout = governor, helm, lookout
        self._writer, self._tell = writer, tell
        rails = tuple(rail.label for rail in board.rails)
        self._timeline = EnergyTimeline(rails, round(board.cycle_s * 1e9))
        quanta_w = {rail.label: rail.quantum_w() for rail in board.rails}
        self._builder = WindowBuilder(epoch, self._timeline, board.total_rails, quanta_w)
        self._history = History()
        self._lookaround = Lookaround()
        self._decision = governor.first()
        self.sight = Sight(self._decision)
        self._ending = Ending()
        self._started_ns = self._polled_ns = self.ticked_ns = time.monotonic_ns()
        self._intake = Intake(
            board, ring, self._timeline, self._builder, stepped, self._started_ns,
            self._note_step, helm.note,
        )  # fmt: skip
        self._clock_hz: int | None = None
        self.watch: Callable[[Samples, int | None], None] = lambda samples, clock_hz: None
        self._events: Mapping[str, int | None] = {}
        self._disturbances = Disturbances(board.root, board.gpu, self._started_ns)
        self._standstill = Standstill(self._started_ns)
        self._pauses, self._asleep_s = 0, 0.0

    def finish(self, timeout_s: float = 5.0) -> bool:
        """Take in what is still to be measured and end the thread; True when it ended."""
        self._ending.set()
        self.join(timeout_s)
        return not self.is_alive()

    def abandon(self) -> None:
        """Have the thread end when it can: one that hangs in a file is left behind."""
        self._ending.set()

    def run(self) -> None:
        """Tick until told to finish."""
        self._events = read_over_current(self.board.root)
        while not self._ending.wait(TICK_S):
            self._tick()
        time.sleep(self._timeline.lag_ns * 1e-9)  # the last step is yet to be read
        self._tick()

    def _tick(self) -> None:
        now_ns = self.ticked_ns = time.monotonic_ns()
        self._seek_gpu(now_ns)
        self._lookaround.look(self.board, now_ns)
        clock_hz = self._clock_hz = self._poll(now_ns)
        self._disturbances.look(now_ns)
        samples = self._sampler.drain()
        self._timeline.append(samples, self._intake.open_since_ns)
        self.sight.samples(samples)
        self._writer.samples(samples, clock_hz)
        self.watch(samples, clock_hz)
        self._see_transitions()
        if decision := self._helm.look(now_ns):
            self._follow(decision, now_ns)
        self._intake.drain()
        self._look_back(time.monotonic_ns())  # after what was drained, before it is judged
        for window in self._intake.windows(now_ns):
            self._end_epoch(window)

    def _look_back(self, now_ns: int) -> None:
        """Begin anew after a pause: the window that it falls into was not measured."""
        pause = self._standstill.look(now_ns)
        if pause is None:
            return
        self._builder.begin_again(now_ns)
        if pause.suspended:
            self._helm.wake(now_ns)
            self._asleep_s += pause.seconds
        self._pauses += 1
        if self._pauses <= PAUSES_TOLD:
            self._helm.note(f"{pause.told}: the window around it does not count")

    def _poll(self, now_ns: int) -> int | None:
        gpu = self.board.gpu
        clock_hz = gpu.read_frequency_hz() if gpu else None
        load = gpu.read_load() if gpu else None
        if clock_hz is not None and now_ns - self._polled_ns < STOOD_NS:
            self.tally.clock_s[clock_hz] += (now_ns - self._polled_ns) * 1e-9  # type: ignore[assignment]
        self._polled_ns = now_ns
        self._builder.poll(now_ns, clock_hz, load)
        self.sight.poll(clock_hz, load)
        return clock_hz

    def _note_step(self, measured: MeasuredStep) -> None:
        self.tally.add_step(measured)
        self.sight.step(measured)
        target_hz = self._builder.target_at(measured.step.begin_ns)
        self._writer.step(measured, target_hz, self.tally.epochs)

    def _end_epoch(self, window: Window) -> None:
        window = self._mark(window)
        surroundings = self._lookaround.surroundings(self.board, self._helm.limits_hz)
        window = self._history.complete(window, surroundings)
        elapsed_s = (window.end_ns - self._started_ns) * 1e-9
        progress = self.tally.progress(elapsed_s, self.spent_j(), self._asleep_s)
        window = replace(window, progress=progress)
        outcome = self._governor.outcome(window)
        measured_in = self._decision.state
        decision = self._helm.respect_others() or self._governor.decide(window)
        if decision.notice:
            told_once(self.tally.warnings, decision.notice)
        number, events = self.tally.epochs, self._count_events()
        record = EpochRecord(number, measured_in, window, outcome, decision, events)
        self.tally.add_epoch(record)
        # First of all: the longer after the look at the limits, the likelier another writer's.
        self._follow(decision, window.end_ns)
        self._writer.decision(as_json(record))
        self._tell(record)

    def spent_j(self) -> float | None:
        """Return the module's energy since the start; None where a rail of it is not measured."""
        rails = [rail.label for rail in self.board.rails]
        return self.sight.module_energy_j(rails, self.board.total_rails)

    def _mark(self, window: Window) -> Window:
        """Return the window with what disturbed it; the one before is told of late."""
        if recent := self.tally.recent:
            last = recent[-1].window
            self.tally.disturb_last(self._disturbances.within(last.start_ns, last.end_ns))
        told = self._disturbances.within(window.start_ns, window.end_ns)
        if warning := self._disturbances.judge(told):
            told_once(self.tally.warnings, warning)
        return replace(window, disturbed=told)

    def _count_events(self) -> dict[str, int | None]:
        """Return the over-current events since the last call, None for a counter that was lost."""
        before, self._events = self._events, read_over_current(self.board.root)
        return {name: risen(before.get(name), count) for name, count in self._events.items()}

    def _follow(self, decision: Decision, since_ns: int) -> None:
        """Carry a decision out, and begin the window it is measured in."""
        self._decision = self.sight.decision = decision
        target_hz = decision.target_hz if self._helm.holds else None
        if not self._helm.holds or target_hz == self._builder.target_hz:
            self._builder.begin(target_hz, since_ns, decision.state)
            return
        if instead := self._helm.request(target_hz, self._clock_hz):
            self._decision = self.sight.decision = instead
            self._builder.begin(None, time.monotonic_ns(), instead.state)
        else:
            self._builder.begin(target_hz, None, decision.state)

    def _see_transitions(self) -> None:
        for transition in self._helm.transitions():
            self.tally.add_transition(transition)
            if instead := self._helm.judge(transition):
                self._follow(instead, time.monotonic_ns())
            elif has_come(transition):
                came_ns = transition.achieved_ns or transition.issued_ns
                self._builder.begin(self._decision.target_hz, came_ns, self._decision.state)

    def _seek_gpu(self, now_ns: int) -> None:
        gpu = self._lookout.look(now_ns) if self.board.awaits_gpu else None
        if gpu is None:
            return
        self.board = replace(self.board, gpu=gpu)
        self._disturbances = Disturbances(self.board.root, gpu, now_ns)
        problems = self.board.problems()
        obstacle = f"{problems[0].what}; {problems[0].mend}" if problems else None
        if decision := self._lookout.hand_over(gpu, obstacle, self._helm):
            self._follow(decision, now_ns)
