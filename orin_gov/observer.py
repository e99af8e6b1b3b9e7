"""The observer: makes a snapshot of the run a few times a second, for the view and live.json."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orin_gov._phases import PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.probe import Board
from orin_gov.caller import Caller, as_caller
from orin_gov.ending import Ending
from orin_gov.engine import Engine
from orin_gov.errors import BoardError
from orin_gov.helm import Helm
from orin_gov.memory import trim_heap
from orin_gov.observed import (
    Comparison,
    Conditions,
    decision_in_short,
    last_effect,
    pace,
    phase_share,
    rail_states,
    total_state,
)
from orin_gov.policy.decision import Decision, State
from orin_gov.policy.objective import Objective
from orin_gov.record.live import LiveFile
from orin_gov.running import started_s
from orin_gov.view.state import SensorState, Snapshot

logger = logging.getLogger(__name__)

FILE_PERIOD_S = 0.5
"""How often live.json is written."""

SHOWN_EVERY = 2
"""Snapshots shown for each that is written, where there is a view."""

TRIM_EVERY = 120
"""Writings of live.json between two trims of the heap: a minute."""

STALLED_NS = 3_000_000_000

MODES = {
    State.WARMUP: "warm-up",
    State.BASELINE: "baseline",
    State.VERIFY: "verifying",
    State.REFINE: "verifying",
    State.HOLD: "governing",
    State.FALLBACK: "fallback",
    State.ADVISE: "measuring only",
    State.SWEEP: "characterizing",
}


@dataclass(frozen=True)
class Subject:
    """What a run is called and asked for: the part of a snapshot that stays."""

    name: str
    dry_run: bool
    objective: Objective
    caller: Caller | None = None


class Observer(threading.Thread):
    """Looks on and tells `show` until `finish` is called. It changes nothing of the run.

    Its reads of the board are its own: a file that hangs holds up the view and nothing else.
    """

    def __init__(
        self,
        subject: Subject,
        engine: Engine,
        helm: Helm,
        sampler: Sampler,
        ring: PhaseRing,
        folder: Path,
        show: Callable[[Snapshot], float | None] | None,
    ) -> None:
        super().__init__(name="orin_gov-observer", daemon=True)
        self._subject, self._engine, self._helm = subject, engine, helm
        self._sampler, self._ring, self._folder, self._show = sampler, ring, folder, show
        self._ending = Ending()
        self._began_ns = time.monotonic_ns()
        self._started_s = started_s(os.getpid()) or 0.0
        self._remaining_s: float | None = None
        self._file: LiveFile | None = None
        self._unwritable = False
        self._conditions = Conditions(engine.board)
        self._comparison = Comparison()

    def finish(self, timeout_s: float = 2.0) -> None:
        """End the thread; one that hangs in a file is left behind."""
        self._ending.set()
        self.join(timeout_s)

    def clear(self) -> None:
        """Remove live.json, once the summary stands for the run; after `finish`."""
        if self._file is None:
            return
        try:
            with as_caller(self._subject.caller):
                self._file.remove()
        except OSError as error:  # the script may have put anything in the folder's place
            logger.warning("live.json cannot be removed: %s", error)
        self._file = None

    def run(self) -> None:
        """Look, show and write until told to finish."""
        every = SHOWN_EVERY if self._show is not None else 1
        count = 0
        while not self._ending.wait(FILE_PERIOD_S / every):
            snapshot = self.look(time.monotonic_ns())
            if self._show is not None:
                self._remaining_s = self._show(snapshot)
            if count % every == 0:
                self._write(snapshot)
            if count % (TRIM_EVERY * every) == 0:
                trim_heap()
            count += 1

    def _write(self, snapshot: Snapshot) -> None:
        if self._unwritable:
            return
        try:
            # The folder is the caller's: what he puts there must not be opened with root's rights.
            with as_caller(self._subject.caller):
                self._file = self._file or LiveFile(self._folder)
            self._file.write(snapshot.as_json())
        except OSError as error:
            self._unwritable = True
            logger.warning("live.json cannot be written, so `orin-gov top` has no news: %s", error)

    def look(self, now_ns: int) -> Snapshot:
        """Return the present moment of the run."""
        engine, sight = self._engine, self._engine.sight
        self._conditions.look(engine.board, now_ns)
        self._comparison.look(engine.tally)
        rails = rail_states(engine.board, sight.power_w, sight.energy_j, sight.measured_s)
        floor_hz, cap_hz = self._limits(engine.board)
        decision, objective = sight.decision, self._subject.objective
        return Snapshot(
            pid=os.getpid(),
            started_s=self._started_s,
            t_ns=now_ns,
            name=self._subject.name,
            board=engine.board.identity.title,
            virtual=bool(engine.board.identity.virtual),
            mode=self._mode(decision),
            elapsed_s=(now_ns - self._began_ns) * 1e-9,
            steps=engine.tally.steps,
            steps_per_s=pace(sight.steps),
            remaining_s=self._remaining_s,
            table_hz=engine.board.gpu.table_hz if engine.board.gpu else (),
            floor_hz=floor_hz,
            cap_hz=cap_hz,
            clock_hz=sight.clock_hz,
            target_hz=decision.target_hz,
            governor=self._conditions.governor,
            load=sight.load,
            total=total_state(engine.board.total_rails, rails),
            rails=rails,
            phase_share=phase_share(sight.steps),
            temperature_c=self._conditions.temperature_c,
            alarms=[*self._conditions.alarms, *self._own_alarms(now_ns)],
            decision=decision_in_short(decision),
            path=decision.path,
            effect=last_effect(engine.tally.recent[-2:]),
            energy_change=self._comparison.energy,
            time_change=self._comparison.time,
            windows_governed=self._comparison.governed,
            windows_baseline=self._comparison.baseline,
            max_slowdown=objective.max_slowdown,
            steps_planned=objective.steps,
            deadline_s=objective.deadline_s,
            energy_budget_j=objective.energy_budget_j,
            sensors=self._sensors(),
        )

    def _mode(self, decision: Decision) -> str:
        if self._subject.dry_run:
            return "dry run"
        if not self._helm.holds and decision.state is not State.FALLBACK:
            return MODES[State.ADVISE]
        return MODES[decision.state]

    def _limits(self, board: Board) -> tuple[int | None, int | None]:
        try:
            limits = self._helm.limits or (board.gpu.read_range() if board.gpu else None)
        except BoardError:
            return None, None
        return (limits.min_hz, limits.max_hz) if limits else (None, None)

    def _own_alarms(self, now_ns: int) -> list[str]:
        late_ns = now_ns - self._engine.ticked_ns
        stalled = [f"the engine has stood still for {late_ns * 1e-9:.0f} s"]
        return (stalled if late_ns > STALLED_NS else []) + self._engine.tally.warnings[-1:]

    def _sensors(self) -> SensorState:
        quality = self._sampler.quality()
        return SensorState(
            rate_hz=self._sampler.rate_hz,
            reads=sum(rail.reads for rail in quality),
            repeats=sum(rail.repeats for rail in quality),
            gaps=sum(rail.gaps for rail in quality),
            errors=sum(rail.errors for rail in quality),
            overruns=self._sampler.overruns,
            dropped_marks=self._ring.dropped,
        )
