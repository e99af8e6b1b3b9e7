"""The pace of a job: what a step takes under the board's own governor, and what lies between steps.

Windows at other operating points count as what the reference expects of their work.
"""

import math

from orin_gov.policy.evidence import Evidence
from orin_gov.policy.reference import Reference
from orin_gov.policy.saving import t_quantile
from orin_gov.policy.window import Progress, Window

TELLING_WINDOWS = 5
"""Fewer windows than this, one of which may have waited for data, tell little of a job."""


class Pace:
    """Learns from the windows of a run; what comes before the second one is no guide.

    `step_s` and `step_j` are the means of a step as the reference was, `between_s` and `between_j`
    what goes into evaluation and the like for each step. The longest such pause may come once more
    at the end. Not thread-safe.
    """

    def __init__(self) -> None:
        self.last: Progress | None = None
        self.longest_pause_s = self.largest_pause_j = 0.0
        self._first: Progress | None = None
        self._reference: Reference | None = None
        self._begin()

    def _begin(self) -> None:
        self._steps = self._steps_with_energy = self._windows = 0
        self._s = self._j = self._squares = 0.0

    def see(self, window: Window, evidence: Evidence) -> None:
        """Take in a window, before the evidence has it."""
        progress, before = window.progress, self.last
        if progress is None:
            return
        self.last = progress
        if before is None or not before.steps:  # imports may take several windows
            self._first = progress
            return
        self.longest_pause_s = max(self.longest_pause_s, _pause_s(before, progress))
        self.largest_pause_j = max(self.largest_pause_j, _pause_j(before, progress) or 0.0)
        if evidence.reference is not self._reference:  # the job, or the board, is another one now
            self._reference = evidence.reference
            self._begin()
        if window.steps and window.work:
            self._add(window, evidence)

    def _add(self, window: Window, evidence: Evidence) -> None:
        ratios, own = evidence.ratios(window), window.target_hz is None
        if ratios.time is not None or own:
            seconds = window.duration_s / math.exp(ratios.time or 0.0)
            self._s += seconds
            self._squares += seconds**2 / window.steps
            self._steps += window.steps
            self._windows += 1
        if window.energy_j is not None and (ratios.energy is not None or own):
            self._j += window.energy_j / math.exp(ratios.energy or 0.0)
            self._steps_with_energy += window.steps

    @property
    def is_known(self) -> bool:
        """Whether a step's time is known at all."""
        return self._steps > 0

    @property
    def step_s(self) -> float:
        """Seconds of a step under the board's own governor, as the reference was."""
        return self._s / self._steps

    @property
    def step_j(self) -> float | None:
        """Joules of a step under the board's own governor; None where never measured."""
        return self._j / self._steps_with_energy if self._steps_with_energy else None

    @property
    def error(self) -> float:
        """How far a step's mean may be off, with 95 %, from how windows differ; relative.

        Infinite before `TELLING_WINDOWS`.
        """
        if self._windows < TELLING_WINDOWS:
            return math.inf
        variance = max(0.0, self._squares / self._steps - self.step_s**2)
        freedom = self._windows - 1
        return t_quantile(freedom) * math.sqrt(variance / freedom) / self.step_s

    @property
    def between_s(self) -> float:
        """Seconds between steps, for each of them."""
        if self._first is None or self.last is None or self.last.steps <= self._first.steps:
            return 0.0
        return _pause_s(self._first, self.last) / (self.last.steps - self._first.steps)

    @property
    def between_j(self) -> float:
        """Joules between steps, for each of them; 0 where they are not known."""
        if self._first is None or self.last is None or self.last.steps <= self._first.steps:
            return 0.0
        joules = _pause_j(self._first, self.last) or 0.0
        return joules / (self.last.steps - self._first.steps)


def _pause_s(one: Progress, other: Progress) -> float:
    return max(0.0, other.elapsed_s - one.elapsed_s - (other.steps_s - one.steps_s))


def _pause_j(one: Progress, other: Progress) -> float | None:
    values = (one.spent_j, other.spent_j, one.steps_j, other.steps_j)
    if any(value is None for value in values):
        return None
    spent_a, spent_b, steps_a, steps_b = (float(value or 0.0) for value in values)
    return max(0.0, spent_b - spent_a - (steps_b - steps_a))
