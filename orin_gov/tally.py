"""What a run adds up to, in memory that does not grow with it: a run may last for weeks."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orin_gov._actuator import Transition
from orin_gov.compared import Series
from orin_gov.measured import MeasuredStep
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Progress, Window

KEPT_WHOLE = 4
"""Epochs of which all is kept in memory; the run directory has the rest."""

MOST_LATENCIES = 10_000

OWN = (State.BASELINE, State.FALLBACK, State.HOLD)
"""States in which a window under the board's own governor is one to compare with: after a fallback,
or where nothing is better, it rules again."""


@dataclass(frozen=True)
class EpochRecord:
    """One decision epoch: the window, the state it was measured in, and what was decided then.

    `over_current` counts the events by counter while it lasted: cur_freq does not show them.
    """

    number: int
    state: State
    window: Window
    outcome: Outcome
    decision: Decision
    over_current: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def is_compared(self) -> bool:
        """Whether its window is one for the saving: of the warm-up none is, nor one disturbed."""
        governed = self.window.target_hz is not None
        return not self.window.disturbed and (governed or self.state in OWN)


@dataclass
class Tally:
    """What the whole run adds up to.

    Thread-safety: the engine's thread alone writes; any may read.
    """

    epochs: int = 0
    recent: list[EpochRecord] = field(default_factory=list)
    steps: int = 0
    step_time_s: float = 0.0
    steps_with_energy: int = 0
    step_energy_j: float = 0.0
    clock_s: Counter[int] = field(default_factory=Counter)
    clock_changes: int = 0
    warnings: list[str] = field(default_factory=list)
    over_current: dict[str, int | None] = field(default_factory=dict)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_LATENCIES))
    _disturbed: int = 0
    _series: dict[tuple[str, int | None, bool, bool], "Series"] = field(default_factory=dict)

    def add_epoch(self, record: EpochRecord) -> None:
        """Take in an epoch."""
        self.epochs += 1
        for name, count in record.over_current.items():
            before = self.over_current.get(name, 0)
            self.over_current[name] = None if before is None or count is None else before + count
        for old in self.recent[: 1 - KEPT_WHOLE]:
            self._put_away(old)
        self.recent = [*self.recent[1 - KEPT_WHOLE :], record]

    def disturb_last(self, told: str | None) -> None:
        """Say of the last epoch what is known of late to have disturbed it."""
        if self.recent and told:
            last = self.recent[-1]
            window = replace(last.window, disturbed=last.window.disturbed or told)
            self.recent = [*self.recent[:-1], replace(last, window=window)]

    def add_step(self, measured: MeasuredStep) -> None:
        """Count a step, and its energy where it was measured."""
        self.steps += 1
        self.step_time_s += measured.step.duration_s
        if measured.energy_j is not None:
            self.steps_with_energy += 1
            self.step_energy_j += measured.energy_j

    def progress(self, elapsed_s: float, spent_j: float | None, asleep_s: float) -> Progress:
        """Return what the run has come to, `elapsed_s` after its start and `asleep_s` besides."""
        energy_j = (
            self.step_energy_j / self.steps_with_energy * self.steps
            if self.steps_with_energy
            else None
        )
        return Progress(self.steps, self.step_time_s, elapsed_s, energy_j, spent_j, asleep_s)

    def add_transition(self, transition: Transition) -> None:
        """Count a change of the clock, and how long it took from request to effect."""
        self.clock_changes += 1
        if transition.achieved_ns is not None:
            self.latencies_s.append((transition.achieved_ns - transition.requested_ns) * 1e-9)

    @property
    def disturbed(self) -> int:
        """Windows that heat or over-current has touched: they are in no comparison."""
        return self._disturbed + sum(bool(each.window.disturbed) for each in self.recent)

    def windows(self) -> tuple[list[Window], list[Window]]:
        """Return the governed windows and the baseline windows, in order; warm-up is in neither.

        Where the unit of work has changed, only windows of the last unit can be compared.
        """
        if not self.recent:
            return [], []
        unit = self.recent[-1].window.unit
        kept = [series for (its, *_), series in list(self._series.items()) if its == unit]
        windows = [window for series in kept for window in series.windows]
        # Last: what is put away meanwhile may be missing for a moment, and must not count twice.
        windows += [
            each.window for each in self.recent if each.is_compared and each.window.unit == unit
        ]
        windows.sort(key=lambda window: window.start_ns)
        return (
            [window for window in windows if window.target_hz is not None],
            [window for window in windows if window.target_hz is None],
        )

    def counts(self) -> tuple[int, int]:
        """Return how many governed and how many baseline windows went into `windows`."""
        found = [0, 0]
        if self.recent:
            unit = self.recent[-1].window.unit
            for (its, target_hz, *_), series in list(self._series.items()):
                found[target_hz is None] += series.count if its == unit else 0
            for each in self.recent:
                found[each.window.target_hz is None] += (
                    each.is_compared and each.window.unit == unit
                )
        return found[0], found[1]

    def _put_away(self, record: EpochRecord) -> None:
        """Keep of an epoch what the saving compares."""
        window = record.window
        self._disturbed += bool(window.disturbed)
        if record.is_compared:
            key = (window.unit, window.target_hz, window.energy_j is None, not window.work)
            if key not in self._series:
                self._series[key] = Series(window.unit, window.target_hz)
            self._series[key].add(window)


def told_once(warnings: list[str], told: str) -> None:
    """Add a warning as the last one; what is told again and again stands there once."""
    if told in warnings:
        warnings.remove(told)
    warnings.append(told)
