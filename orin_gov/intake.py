"""The intake: the script's marks become steps, and steps windows, once the samples cover them."""

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from orin_gov._phases import PhaseRing
from orin_gov.board.probe import Board
from orin_gov.energy import EnergyTimeline
from orin_gov.measured import MeasuredStep, measure_steps
from orin_gov.policy.window import Window
from orin_gov.windows import WindowBuilder
from orin_gov.workload.tracker import MARK, Step, StepTracker

SENSOR_PATIENCE_NS = 1_000_000_000
"""A step waits this long for samples that cover it; after that its energy is missing.

So does the end of a window by time: a sampler that has stopped leaves it without energy, not open.
"""

QUIET_START_NS = 30_000_000_000
"""A script that could mark its steps is judged by time alone after this long without a mark."""

STEPLESS_START_NS = 300_000_000_000
"""And after this long where it marks phases, but no step: it only infers, or updates by itself."""

STEPLESS = (
    f"no optimizer step in {STEPLESS_START_NS // 10**9} s: windows are of time, and their work is "
    "the GPU's busy cycles, until a step comes"
)


class Intake:
    """Takes a script's steps in, and tells when a decision epoch ends with one, or by time.

    `stepped` tells whether the script can mark its steps; `took` is called with each measured step,
    before the window that ends with it; `note` with what the user must know. Not thread-safe.
    """

    def __init__(
        self,
        board: Board,
        ring: PhaseRing,
        timeline: EnergyTimeline,
        builder: WindowBuilder,
        stepped: bool,
        started_ns: int,
        took: Callable[[MeasuredStep], None],
        note: Callable[[str], None],
    ) -> None:
        self._total, self._resolved = board.total_rails, board.resolves_phases
        self._ring, self._timeline, self._builder = ring, timeline, builder
        self._stepped, self._started_ns, self._took = stepped, started_ns, took
        self._note = note
        self._tracker = StepTracker()
        self._waiting: deque[Step] = deque()
        self._dropped = self._taken = self._epoch_ended_after = 0
        if not stepped:
            builder.begin_at(started_ns)

    @property
    def open_since_ns(self) -> int | None:
        """Since when samples are needed: for the oldest step, or for the window by time."""
        if not self._stepped:
            return self._builder.begin_ns
        return self._waiting[0].begin_ns if self._waiting else self._tracker.open_since_ns

    def drain(self) -> None:
        """Take the marks out of the ring."""
        self._waiting.extend(self._tracker.feed(np.frombuffer(self._ring.drain(), dtype=MARK)))
        # The ring is full while we stand still: the step under way is not whole.
        dropped, self._dropped = self._dropped, self._ring.dropped
        if self._dropped > dropped:
            self._tracker.break_off()

    def windows(self, now_ns: int) -> Iterator[Window]:
        """Take in the steps that are covered; yield each window that is complete.

        Whoever asks begins the builder's next window before asking on.
        """
        covered = []
        while self._waiting and self._is_covered(self._waiting[0], now_ns):
            covered.append(self._waiting.popleft())
        for measured in measure_steps(covered, self._timeline, self._total, self._resolved):
            yield from self._take(measured)
        yield from self._at_epoch_end()
        yield from self._by_time(now_ns)

    def _is_covered(self, step: Step, now_ns: int) -> bool:
        covered_ns = self._timeline.covered_until_ns
        late = now_ns - step.end_ns > SENSOR_PATIENCE_NS
        return late or (covered_ns is not None and covered_ns >= step.end_ns)

    def _take(self, measured: MeasuredStep) -> Iterator[Window]:
        step = measured.step
        if not self._stepped:
            self._stepped = True
            self._builder.begin_again(step.begin_ns)
        self._took(measured)
        self._taken = step.number + 1
        if window := self._builder.add(measured):
            yield window
        yield from self._at_epoch_end()

    def _at_epoch_end(self) -> Iterator[Window]:
        """The decision epoch ends with a training epoch, when its last step was taken."""
        ended = self._tracker.epoch_ended_after
        if ended > self._epoch_ended_after and self._taken >= ended:
            self._epoch_ended_after = ended
            if self._taken == ended and (window := self._builder.close()):
                yield window

    def _by_time(self, now_ns: int) -> Iterator[Window]:
        """The decision epoch ends by time where no steps are seen."""
        if self._stepped and self._is_stepless(now_ns - self._started_ns):
            self._stepped = False
            self._builder.begin_again(now_ns)
            if self._ring.marks:
                self._note(STEPLESS)
        covered_ns = self._timeline.covered_until_ns
        if covered_ns is None or now_ns - covered_ns > SENSOR_PATIENCE_NS:
            covered_ns = now_ns
        if not self._stepped and (window := self._builder.close_by_time(covered_ns)):
            yield window

    def _is_stepless(self, age_ns: int) -> bool:
        """Tell whether no step is expected any more; after a first one, an evaluation may take hours.

        A step that comes all the same is taken, and those after it.
        """
        patience_ns = STEPLESS_START_NS if self._ring.marks else QUIET_START_NS
        return not self._tracker.steps and age_ns > patience_ns
