"""A job on a virtual board, at whatever clock is on: its steps and pauses, and what they take.

Within a span of constant clock and phase everything has a closed form, so nothing is stepped
through but podgov's own polls, and those only while it governs.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from orin_gov.epoch import Epoch
from orin_gov.virtual.clock import VirtualClock
from orin_gov.virtual.gathering import Gathering, Part, counts_by_kind
from orin_gov.virtual.job import Job
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.tables import BLOCK, Floats, StepStream, Table
from orin_gov.virtual.thermal import ThermalState


class Execution:
    """A job under way, with the sums of what it took so far.

    `steps_s` and `steps_j` leave evaluations and checkpoints out, `paused_j` is theirs; joules are
    by rail, and `module` tells which of the rails add up to the module's. Not thread-safe.
    """

    def __init__(self, board: BoardModel, job: Job, clock: VirtualClock, seed: int) -> None:
        self._board, self._job, self.clock = board, job, clock
        self._stream = StepStream(job, seed)
        self._tables: dict[int, Table] = {}
        self.rails = tuple(rail.label for rail in board.rails)
        self.module = np.array([float(rail.inside is None) for rail in board.rails])
        self._leaks = np.array([rail.shares.get("leakage", 0.0) for rail in board.rails])
        self._work = np.array([kind.work for kind in job.kinds])
        self._counts = counts_by_kind(job.kinds)
        idle_w = board.module_power_w(board.laws["idle"], clock.hz)
        self._thermal = ThermalState(board, idle_w)
        self.steps = self._paused_at = 0
        self.steps_s = 0.0
        self.steps_j = np.zeros(len(self.rails))
        self.paused_j = np.zeros(len(self.rails))
        self.clock_s: defaultdict[int, float] = defaultdict(float)

    @property
    def temperature_c(self) -> float:
        """The die's temperature."""
        return self._thermal.temperature_c

    @property
    def goes_on(self) -> bool:
        """Whether there are steps left."""
        return self.steps < self._job.steps

    def steps_of(self, gathering: Gathering, epoch: Epoch) -> Part:
        """Steps that end the decision epoch, or come before a pause."""
        if self.clock.is_settled:
            return self._pinned_steps(epoch, gathering)
        return self.free_steps(gathering.is_over_with)

    def _pinned_steps(self, epoch: Epoch, gathering: Gathering) -> Part:
        """Steps at a pinned clock, as many as end the decision epoch, or come before a pause."""
        clock, table = self.clock, self._table(self.clock.hz)
        ahead = min(self._until_pause(), self._guess(epoch, gathering, table))
        steps = self._stream.take(self.steps, ahead)
        table.need(steps.kinds)
        phase_s = table.time_s[steps.kinds] * steps.factors[:, None]
        phase_s[:, 0] += steps.stalls_s
        n = gathering.until_over(phase_s.sum(axis=1)) or ahead
        kinds, phase_s = steps.kinds[:n], phase_s[:n]
        power_w = table.power_w[kinds] + self._leak_w(clock.hz)
        busy_s = (table.load[kinds] * phase_s).sum(axis=1)
        spent_s = float(phase_s.sum())
        clock.pass_over(spent_s)
        clock.pinned_load = float(busy_s.sum()) / spent_s
        self.clock_s[clock.hz] += spent_s
        return self._took(
            Part(
                work=self._work[kinds],
                counts=self._counts[kinds],
                phase_s=phase_s,
                phase_j=phase_s * (power_w @ self.module),
                rail_j=np.einsum("sp,spr->sr", phase_s, power_w),
                busy_s=busy_s,
                cycles=clock.hz * phase_s.sum(axis=1),
            )
        )

    def free_steps(self, is_over: Callable[[int, float], bool]) -> Part:
        """Steps through which the clock may change, until (steps, seconds) are enough, or a pause.

        Each is a chain of spans (step, phase, clock, seconds) of constant clock and phase.
        """
        clock, ahead = self.clock, min(self._until_pause(), BLOCK)
        steps = self._stream.take(self.steps, ahead)
        rows = zip(
            steps.kinds.tolist(), steps.factors.tolist(), steps.stalls_s.tolist(), strict=True
        )
        spans: list[tuple[int, int, int, float]] = []
        begin_s, n, phases = clock.now_s, 0, range(len(self._job.phases))
        for kind, factor, stall_s in rows:
            for phase in phases:
                left, wait_s = 1.0, 0.0 if phase else stall_s
                while left > 0.0:
                    hz = clock.hz
                    times_s, loads = self._table(hz).row(kind)
                    whole_s = times_s[phase] * factor + wait_s
                    span_s, until_s = left * whole_s, clock.next_s - clock.now_s
                    left = 0.0 if span_s <= until_s else left - until_s / whole_s
                    span_s = min(span_s, until_s)
                    spans.append((n, phase, hz, span_s))
                    clock.go_on(span_s, loads[phase])
            n += 1
            if is_over(n, clock.now_s - begin_s):
                break
        return self._took(self._part_of(steps.kinds[:n], np.array(spans)))

    def _part_of(self, kinds: npt.NDArray[np.int64], spans: Floats) -> Part:
        """Steps of such kinds, that spent their time as `spans` tell: [spans, 4], see above."""
        n, phases = len(kinds), len(self._job.phases)
        step, phase = spans[:, 0].astype(np.int64), spans[:, 1].astype(np.int64)
        clocks, place = np.unique(spans[:, 2], return_inverse=True)
        seconds, at = spans[:, 3], (place, kinds[step], phase)
        tables = {int(hz): self._table(int(hz)) for hz in clocks}
        power_w = np.stack([each.power_w + self._leak_w(hz) for hz, each in tables.items()])
        load = np.stack([each.load for each in tables.values()])[at]
        joules = power_w[at] * seconds[:, None]
        for hz, spent_s in zip(tables, np.bincount(place, seconds).tolist(), strict=True):
            self.clock_s[hz] += spent_s

        def by_phase(values: Floats) -> Floats:
            return _sums(step * phases + phase, values, n * phases).reshape(n, phases)

        return Part(
            work=self._work[kinds],
            counts=self._counts[kinds],
            phase_s=by_phase(seconds),
            phase_j=by_phase(joules @ self.module),
            rail_j=np.stack([_sums(step, rail, n) for rail in joules.T], axis=1),
            busy_s=_sums(step, load * seconds, n),
            cycles=_sums(step, spans[:, 2] * seconds, n),
        )

    def _took(self, part: Part) -> Part:
        """Add steps to the run's sums, and let the die take their heat."""
        seconds, joules = float(part.phase_s.sum()), part.rail_j.sum(axis=0)
        self.steps += len(part.work)
        self.steps_s += seconds
        self.steps_j += joules
        self._thermal.step(seconds, float(joules @ self.module) / seconds)
        return part

    def pause(self) -> None:
        """Evaluate and save where that is due after the steps so far."""
        if self.steps == self._paused_at:
            return
        self._paused_at = self.steps
        for pause in self._job.pauses:
            if self.steps % pause.every == 0:
                for _ in range(pause.repeat):
                    self._pass_time(pause.law)

    def _pass_time(self, law: PhaseLaw) -> None:
        """Let one go of an evaluation or a checkpoint pass."""
        clock, board, left = self.clock, self._board, 1.0
        while left > 0.0:
            hz, whole_s = clock.hz, board.time_s(law, clock.hz)
            span_s = min(left * whole_s, max(0.0, clock.next_s - clock.now_s))
            left = left - span_s / whole_s if span_s < left * whole_s else 0.0
            power_w = board.rail_power_w(law, hz, temperature_c=self.temperature_c)
            joules = span_s * np.array([power_w[label] for label in self.rails])
            self.paused_j += joules
            self.clock_s[hz] += span_s
            clock.go_on(span_s, board.load(law, hz))
            self._thermal.step(span_s, float(sum(joules * self.module)) / max(span_s, 1e-12))

    def _until_pause(self) -> int:
        """Steps until the next pause or the job's end."""
        left = [pause.every - self.steps % pause.every for pause in self._job.pauses]
        return min([*left, self._job.steps - self.steps])

    def _guess(self, epoch: Epoch, gathering: Gathering, table: Table) -> int:
        """A few steps more than will end the decision epoch."""
        least_s = max(epoch.least_s, epoch.seconds or 0.0) - gathering.duration_s
        next_s = sum(table.row(int(self._stream.take(self.steps, 1).kinds[0]))[0])
        by_time = int(1.2 * max(0.0, least_s) / next_s) + 1
        return max(by_time, 0 if epoch.seconds else (epoch.steps or 1) - gathering.steps, 1)

    def _table(self, hz: int) -> Table:
        table = self._tables.get(hz)
        if table is None:
            table = self._tables[hz] = Table(self._board, self._job, hz)
        return table

    def _leak_w(self, hz: int) -> Floats:
        """What each rail leaks beyond the table's reference temperature."""
        board = self._board
        reference_w = self._table(hz).leakage_w
        return self._leaks * (board.leakage_w(hz, self.temperature_c) - reference_w)


def _sums(places: npt.NDArray[np.int64], values: Floats, n: int) -> Floats:
    """The sum of the values at each of n places."""
    return np.bincount(places, values, n).astype(np.float64)
