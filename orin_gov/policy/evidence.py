"""The evidence: all that a run has measured so far, against the board's own governor.

The first baseline windows freeze the reference. From then on every window is a pair of log ratios
to it, with standard errors, that the belief takes in. Baseline windows that come later tell how far
the machine itself has moved since; they never change the reference, so budgets cannot compound.
"""

import math
from dataclasses import dataclass, replace

from orin_gov.policy.answer import Answer
from orin_gov.policy.belief import STEADY_WALK, Belief, Scatter, log_ratio
from orin_gov.policy.decision import LEAST_NOISE, Outcome
from orin_gov.policy.line import relative_error
from orin_gov.policy.objective import Objective
from orin_gov.policy.promise import SURE
from orin_gov.policy.reference import Reference, samples_of
from orin_gov.policy.tree import Leaf, Policy
from orin_gov.policy.window import Window

OTHER_WORK = 1.25
"""Steps this many times smaller or larger than any in the reference are another kind of work."""

SURPRISE = 4.0
"""A window that lies so many standard deviations off is a sign of change, or chance."""

RECALL_ERROR = 0.002
"""How well what was measured is known when it is told to a new belief."""

FLUKE = 0.4
"""A first window that is off by so much (logarithm) is rather a fault than what the point does."""

LESSON = 0.7
"""How much of what a job taught about the policy holds for its next phase, by rule of thumb."""

CLEAR = 2.0
"""So many standard deviations off, a baseline window tells that the machine has really moved."""

WALK_MEMORY = 0.85
"""How much of its idea of the machine's pace is kept at each baseline window."""


@dataclass(frozen=True)
class Ratios:
    """A window against the reference: logarithms and their standard errors; None where missing."""

    energy: float | None
    time: float | None
    energy_error: float
    time_error: float


class Evidence:
    """Reference, scatter and belief of one run, from one start to the next.

    `lesson` is how far off the policy was before, at the same operating points; `before` what was
    known of the same job under another governor of the board's own. Not thread-safe.
    """

    def __init__(self, lesson: Answer | None = None, before: "Evidence | None" = None) -> None:
        self._lesson = lesson
        # Where a cap moves twice before a baseline was measured, the earlier one knows.
        unknown = before is not None and before.belief is None
        self._before: Evidence | None = before._before if before and unknown else before
        if self._before is not None:
            self._before._before = None  # a run with heat has many, and one before is enough
        self.reference = Reference()
        self.belief: Belief | None = None
        self.measured: set[int] = set()
        self._scatter_s, self._scatter_j = Scatter(), Scatter()
        self._walk = STEADY_WALK
        self._since_baseline = 1
        if before is not None:
            self._scatter_s, self._scatter_j = before._scatter_s, before._scatter_j
            self._walk = before._walk

    def add_baseline(self, window: Window) -> None:
        """Add a window of the reference, which is not frozen yet."""
        self._scatter(window)
        self.reference.add(window)

    def believe(self, policy: Policy, leaf: Leaf, clocks: list[float]) -> None:
        """Freeze the reference, and expect what `leaf` says; what was measured stays known."""
        known, points = self.belief, self.measured
        steps = sum(window.steps for window in self.reference.windows)
        prior = policy.prior(leaf, clocks)
        if known is None and self._lesson is not None:
            prior = prior.shifted(self._lesson, LESSON)
        self.belief = Belief(prior, self._scatter_s.of(steps))
        if known is not None:
            self.belief.recall(known, points, RECALL_ERROR)

    def rebase(self) -> bool:
        """Freeze the reference, and tell what was known before against it; False where that cannot
        be: then nothing is known yet."""
        before, window = self._before, self.reference.windows[-1]
        if before is None or before.belief is None or before.is_other_work(window):
            return False
        ratios = before.ratios(window)
        if ratios.energy is None or ratios.time is None:
            return False
        self.belief, self.measured = before.belief, before.measured
        self.belief.pass_window(self._walk)
        self.belief.rebase(ratios.energy, ratios.time, ratios.energy_error, ratios.time_error)
        return True

    def observe(self, window: Window, point: int | None) -> float | None:
        """Take in a window at an operating point (None: the board's own governor).

        A window that fits nothing known is not taken in, since once is chance: returned is then how
        far it lies from what was expected, as a logarithm; otherwise None.
        """
        assert self.belief is not None
        ratios = self.ratios(window)
        told = (ratios.energy, ratios.time, ratios.energy_error, ratios.time_error)
        self.belief.pass_window(self._walk)
        deviations, off = self.belief.surprise(point, *told)
        if deviations > SURPRISE:
            if point is None or point in self.measured or off > FLUKE:
                return off
            # The policy is wrong about this job: what is measured counts, at its neighbours too.
            self.belief.widen_smoothly(off)
        self._scatter(window)
        if point is None:
            self._learn_walk(ratios)
        else:
            self.measured.add(point)
            self._since_baseline += 1
        self.belief.observe(point, *told)
        return None

    def ratios(self, window: Window) -> Ratios:
        """Compare a window with the reference."""
        error_j = math.hypot(self._scatter_j.of(window.steps), window.coarseness or 0.0)
        return Ratios(
            log_ratio(self.reference.relative_energy(window)),
            log_ratio(self.reference.relative_time(window)),
            error_j,
            self._scatter_s.of(window.steps),
        )

    def outcome(self, window: Window, objective: Objective) -> Outcome:
        """Compare a window with the board's own governor as it is now."""
        ratios = self.ratios(window)
        moved_j, moved_s = (0.0, 0.0) if self.belief is None else self.belief.machine
        energy = None if ratios.energy is None else math.exp(ratios.energy - moved_j)
        time = None if ratios.time is None else math.exp(ratios.time - moved_s)
        value = objective.combine(time, energy)
        return Outcome(
            slowdown=None if time is None else time - 1,
            saving=None if energy is None else 1 - energy,
            gain=None if value is None else 1 - value,
            margin=max(LEAST_NOISE, SURE * ratios.time_error),
        )

    def look_error(self, steps: int) -> float:
        """The relative standard error of a window of so many steps."""
        return math.hypot(self._scatter_j.of(steps), self._scatter_s.of(steps)) / math.sqrt(2)

    def is_other_unit(self, window: Window) -> bool:
        """Tell whether the window's work is counted otherwise than the reference's."""
        known = self.reference.windows
        return bool(known) and window.unit != known[-1].unit

    def is_other_work(self, window: Window) -> bool:
        """Tell whether the window's steps are larger or smaller than any that the reference saw."""
        if not window.work or not window.steps or not self.reference.windows:
            return False
        return self._is_other(window.work / window.steps)

    def other_work_of(self, window: Window) -> Window | None:
        """The steps of the window that are larger or smaller than any the reference saw, as a
        window; None where they were not seen one by one."""
        others = [each for each in window.samples if self._is_other(each.work)]
        if not others:
            return None
        energies = [each.energy_j for each in others if each.energy_j is not None]
        return replace(
            window,
            steps=len(others),
            work=sum(each.work for each in others),
            duration_s=sum(each.time_s for each in others),
            energy_j=sum(energies) if len(energies) == len(others) else None,
            samples=others,
            noise=None,
        )

    def _is_other(self, work: float) -> bool:
        seen = [each.work for known in self.reference.windows for each in samples_of(known)]
        return not min(seen) / OTHER_WORK <= work <= max(seen) * OTHER_WORK

    def baseline_power_w(self) -> float | None:
        """Mean power under the board's own governor as it is now; None where not measured."""
        powers = [each.power_w for each in self.reference.windows if each.power_w is not None]
        if not powers:
            return None
        moved_j, moved_s = (0.0, 0.0) if self.belief is None else self.belief.machine
        return sum(powers) / len(powers) * math.exp(moved_j - moved_s)

    @property
    def is_steady(self) -> bool:
        """Whether the machine itself has hardly moved from baseline window to baseline window."""
        return self._walk < 4 * STEADY_WALK

    def doubt(self, share: float) -> None:
        """Something has changed by about `share`: trust neither points nor the machine's pace."""
        assert self.belief is not None
        self.belief.widen_smoothly(share)
        self.belief.pass_window(share)

    def _scatter(self, window: Window) -> None:
        samples = samples_of(window)
        works = [sample.work for sample in samples]
        energies = [sample.energy_j for sample in samples if sample.energy_j is not None]
        self._scatter_s.add(window.noise, len(samples))
        if len(energies) == len(works) > 1 and all(works):
            self._scatter_j.add(relative_error(works, energies), len(samples))

    def _learn_walk(self, ratios: Ratios) -> None:
        """Learn from a baseline window how far the machine moves between two of them."""
        assert self.belief is not None
        if ratios.time is not None:
            moved = (ratios.time - self.belief.machine[1]) ** 2
            known = ratios.time_error**2 + self.belief.machine_error**2
            seen = max(0.0, moved - known) / self._since_baseline
            kept = WALK_MEMORY * self._walk**2 + (1 - WALK_MEMORY) * seen
            before, self._walk = self._walk, max(STEADY_WALK, math.sqrt(kept))
            # By chance alone a baseline window lies further off than this in one case of 20.
            if moved > CLEAR**2 * known and self._walk > before:
                # What was measured while the machine seemed steadier is less sure than it was said.
                self.belief.widen_smoothly(math.sqrt(self._walk**2 - before**2))
        self._since_baseline = 1
