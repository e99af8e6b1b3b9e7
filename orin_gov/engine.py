"""The engine: the thread that carries what was measured to the governor, and its decisions to the board.

samples and marks -> steps -> window -> governor -> decision -> actuator
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from orin_gov._actuator import Transition
from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.probe import Board
from orin_gov.control import Control
from orin_gov.energy import CYCLE_NS, EnergyTimeline
from orin_gov.policy.governor import Decision, Governor, Outcome, State
from orin_gov.policy.window import Window
from orin_gov.record.writer import RunWriter
from orin_gov.windows import Epoch, MeasuredStep, WindowBuilder, measure_step
from orin_gov.workload.tracker import MARK, Step, StepTracker

logger = logging.getLogger(__name__)

TICK_S = 0.05
SENSOR_PATIENCE_NS = 1_000_000_000
"""A step waits this long for samples that cover it; after that its energy is missing."""

QUIET_START_NS = 30_000_000_000
"""A script that could mark its steps is judged by time alone only after this long without a mark."""


@dataclass(frozen=True)
class EpochRecord:
    """One decision epoch: the window, the state it was measured in, and what was decided then."""

    number: int
    state: State
    window: Window
    outcome: Outcome
    decision: Decision


@dataclass
class Tally:
    """What the whole run adds up to."""

    epochs: list[EpochRecord] = field(default_factory=list)
    steps: int = 0
    step_time_s: float = 0.0
    step_energy_j: float | None = 0.0
    clock_s: Counter[int] = field(default_factory=Counter)
    transitions: list[Transition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_step(self, measured: MeasuredStep) -> None:
        """Count a step; one whose energy is missing makes the energy of all steps missing."""
        self.steps += 1
        self.step_time_s += measured.step.duration_s
        known = self.step_energy_j is not None and measured.energy_j is not None
        self.step_energy_j = self.step_energy_j + measured.energy_j if known else None  # type: ignore[operator]


class Engine(threading.Thread):
    """Measures, decides and acts until `finish` is called. Owns the window, the tally and the control.

    With `control` None it only measures and advises. `stepped` tells whether the script can mark its
    steps. `tell` is called with each finished epoch.
    """

    def __init__(
        self,
        board: Board,
        ring: PhaseRing,
        sampler: Sampler,
        governor: Governor,
        control: Control | None,
        epoch: Epoch,
        writer: RunWriter,
        stepped: bool,
        tell: Callable[[EpochRecord], None],
    ) -> None:
        super().__init__(name="orin_gov-engine", daemon=True)
        self.tally = Tally()
        self._board, self._ring, self._sampler = board, ring, sampler
        self._governor, self._control, self._writer, self._tell = governor, control, writer, tell
        self._timeline = EnergyTimeline(tuple(rail.label for rail in board.rails), CYCLE_NS)
        self._builder = WindowBuilder(epoch, self._timeline, board.total_rails)
        self._tracker = StepTracker()
        self._waiting: deque[Step] = deque()
        self._decision = governor.first()
        self._stepped = stepped
        self._ending = threading.Event()
        self._started_ns = self._polled_ns = time.monotonic_ns()

    def finish(self, timeout_s: float = 5.0) -> bool:
        """Take in what is still to be measured and end the thread; True when it ended."""
        self._ending.set()
        self.join(timeout_s)
        return not self.is_alive()

    def run(self) -> None:
        """Tick until told to finish."""
        if not self._stepped:
            self._builder.begin(None, self._started_ns)
        while not self._ending.wait(TICK_S):
            self._tick()
        time.sleep(self._timeline.lag_ns * 1e-9)  # the last step is yet to be read
        self._tick()

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        clock_hz = self._poll(now_ns)
        samples = self._sampler.drain()
        self._timeline.append(samples)
        self._writer.samples(samples, clock_hz)
        self._see_transitions()
        marks = np.frombuffer(self._ring.drain(), dtype=MARK)
        self._waiting.extend(self._tracker.feed(marks))
        while self._waiting and self._is_covered(self._waiting[0], now_ns):
            self._take_step(self._waiting.popleft())
        self._watch_time(now_ns)

    def _poll(self, now_ns: int) -> int | None:
        gpu = self._board.gpu
        clock_hz = gpu.read_frequency_hz() if gpu else None
        load = gpu.read_load() if gpu else None
        if clock_hz is not None:
            self.tally.clock_s[clock_hz] += (now_ns - self._polled_ns) * 1e-9  # type: ignore[assignment]
        self._polled_ns = now_ns
        self._builder.poll(now_ns, clock_hz, load)
        return clock_hz

    def _is_covered(self, step: Step, now_ns: int) -> bool:
        covered_ns = self._timeline.covered_until_ns
        late = now_ns - step.end_ns > SENSOR_PATIENCE_NS
        return late or (covered_ns is not None and covered_ns >= step.end_ns)

    def _take_step(self, step: Step) -> None:
        if not step.number and not self._stepped:
            self._stepped = True
            self._builder.begin(self._builder.target_hz, step.begin_ns)
        measured = measure_step(step, self._timeline, self._board.total_rails)
        self.tally.add_step(measured)
        self._writer.step(measured, self._builder.target_hz, len(self.tally.epochs))
        if window := self._builder.add(measured):
            self._end_epoch(window)

    def _watch_time(self, now_ns: int) -> None:
        """End an epoch by time where no steps are seen."""
        if self._stepped and not self._ring.marks and now_ns - self._started_ns > QUIET_START_NS:
            self._stepped = False
            self._builder.begin(self._builder.target_hz, now_ns)
        covered_ns = self._timeline.covered_until_ns or now_ns
        if not self._stepped and (window := self._builder.close_by_time(covered_ns)):
            self._end_epoch(window)

    def _end_epoch(self, window: Window) -> None:
        outcome = self._governor.outcome(window)
        measured_in = self._decision.state
        self._decision = self._respect_others() or self._governor.decide(window)
        record = EpochRecord(len(self.tally.epochs), measured_in, window, outcome, self._decision)
        self.tally.epochs.append(record)
        self._writer.decision(as_json(record))
        self._tell(record)
        self._apply(window)

    def _apply(self, window: Window) -> None:
        target_hz = self._decision.target_hz
        if self._control is None or target_hz == self._builder.target_hz:
            self._builder.begin(self._builder.target_hz, window.end_ns)
            return
        self._control.request(target_hz)
        self._builder.begin(target_hz, None)

    def _see_transitions(self) -> None:
        for transition in self._control.transitions() if self._control else ():
            self.tally.transitions.append(transition)
            if transition.achieved_ns is None:
                self._give_up(_refusal(transition))
            else:
                self._builder.begin(self._decision.target_hz, transition.achieved_ns)

    def _respect_others(self) -> Decision | None:
        """Leave the board to another writer: never fight, never lift its cap."""
        foreign = self._control.foreign_range() if self._control else None
        if foreign is None:
            return None
        told = f"another writer set {foreign.min_hz / 1e6:.0f}-{foreign.max_hz / 1e6:.0f} MHz"
        self._give_up(told)
        return Decision(State.FALLBACK, None, f"{told}; leaving the board to it")

    def _give_up(self, told: str) -> None:
        assert self._control is not None
        self._control.give_back()
        self._control = None
        self._governor.fall_back()
        self._builder.begin(None, time.monotonic_ns())
        self._decision = Decision(State.FALLBACK, None, told)
        self.tally.warnings.append(f"{told}; the board governs itself from here on")


def _refusal(transition: Transition) -> str:
    asked = f"{transition.min_hz / 1e6:.0f}-{transition.max_hz / 1e6:.0f} MHz"
    if transition.errno:
        return f"the board refused {asked} (errno {transition.errno})"
    stays = f"{transition.achieved_hz / 1e6:.0f} MHz" if transition.achieved_hz else "unknown"
    return f"asked for {asked}, but the clock stays at {stays}"


def as_json(record: EpochRecord) -> dict[str, object]:
    """Return the epoch as what decisions.jsonl holds: SI units, shares, None for missing."""
    window, outcome, decision = record.window, record.outcome, record.decision
    return {
        "epoch": record.number,
        "measured": {
            "state": record.state.value,
            "target_hz": window.target_hz,
            "clock_hz": window.frequency_hz,
            "begin_ns": window.start_ns,
            "end_ns": window.end_ns,
            "duration_s": window.duration_s,
            "steps": window.steps,
            "work": window.work,
            "unit": window.unit,
            "energy_j": window.energy_j,
            "load": window.load,
            "phase_time_s": dict(window.phase_time_s),
            "phase_energy_j": dict(window.phase_energy_j),
            "rail_energy_j": dict(window.rail_energy_j),
            "slowdown": outcome.slowdown,
            "saving": outcome.saving,
        },
        "decision": {
            "state": decision.state.value,
            "target_hz": decision.target_hz,
            "reason": decision.reason,
            "path": list(decision.path),
            "predicted_saving": decision.predicted_saving,
            "predicted_slowdown": decision.predicted_slowdown,
        },
    }
