"""From simulated steps to windows, by the rules of orin_gov.windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orin_gov.epoch import Epoch
from orin_gov.policy.line import relative_error
from orin_gov.policy.window import StepSample, Window
from orin_gov.virtual.counted import power_range_w
from orin_gov.virtual.job import StepKind

Floats = npt.NDArray[np.float64]


def counts_by_kind(kinds: Sequence[StepKind]) -> Floats:
    """Return operations, bytes and launches by phase of each kind, [kinds, 3, phases]; NaN where a
    phase has no counts."""
    return np.array(
        [
            [
                [count.get(phase, np.nan) for phase in kind.laws]
                for count in (kind.counts.operations, kind.counts.moved, kind.counts.launches)
            ]
            for kind in kinds
        ]
    )


@dataclass(frozen=True)
class Part:
    """Some steps in a row: their work, their counts (of counts_by_kind), time and energy by phase,
    energy by rail, busy seconds and cycles; [steps], [steps, phases or rails] or [steps, 3, phases].
    """

    work: Floats
    counts: Floats
    phase_s: Floats
    phase_j: Floats
    rail_j: Floats
    busy_s: Floats
    cycles: Floats


class Gathering:
    """The steps of one window, until its decision epoch is over."""

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._parts: list[Part] = []
        self.steps = 0
        self.duration_s = 0.0

    def until_over(self, durations_s: Floats) -> int | None:
        """How many of the steps ahead, of such durations, end the epoch; None where none does."""
        total_s = self.duration_s + np.cumsum(durations_s)
        over = total_s >= max(self._epoch.least_s, self._epoch.seconds or 0.0)
        if not self._epoch.seconds:
            over &= np.arange(1, len(total_s) + 1) >= (self._epoch.steps or 1) - self.steps
        first = int(over.argmax())
        return first + 1 if over[first] else None

    def is_over_with(self, steps: int, duration_s: float) -> bool:
        """Whether so many steps and seconds more end the epoch."""
        return self._epoch.is_over(self.steps + steps, self.duration_s + duration_s)

    def add(self, part: Part) -> bool:
        """Take steps in; whether the epoch is over with them."""
        self._parts.append(part)
        self.steps += len(part.work)
        self.duration_s += float(part.phase_s.sum())
        return self.is_over_with(0, 0.0)

    def window(
        self,
        phases: tuple[str, ...],
        rails: tuple[str, ...],
        target_hz: int | None,
        begin_s: float,
        end_s: float,
    ) -> Window:
        """The window of all steps taken in."""
        joined = {
            name: np.concatenate([getattr(part, name) for part in self._parts])
            for name in Part.__dataclass_fields__
        }
        durations_s, work = joined["phase_s"].sum(axis=1), joined["work"]
        step_j = joined["phase_j"].sum(axis=1)
        phase_j = joined["phase_j"].sum(axis=0).tolist()
        operations, moved, launches = (
            {phase: count for phase, count in zip(phases, row, strict=True) if count == count}
            for row in joined["counts"].mean(axis=0).tolist()
        )
        span_w = (joined["phase_j"] / np.maximum(joined["phase_s"], 1e-12)).ravel()
        return Window(
            start_ns=round(begin_s * 1e9),
            end_ns=round(end_s * 1e9),
            duration_s=self.duration_s,
            target_hz=target_hz,
            steps=self.steps,
            work=float(work.sum()),
            unit="unit of work",
            energy_j=sum(phase_j),
            rail_energy_j=dict(zip(rails, joined["rail_j"].sum(axis=0).tolist(), strict=True)),
            phase_time_s=dict(zip(phases, joined["phase_s"].sum(axis=0).tolist(), strict=True)),
            phase_energy_j=dict(zip(phases, phase_j, strict=True)),
            frequency_hz=float(joined["cycles"].sum() / self.duration_s),
            load=float(joined["busy_s"].sum() / self.duration_s),
            noise=relative_error(work.tolist(), durations_s.tolist()),
            samples=[
                StepSample(*row)
                for row in zip(work.tolist(), durations_s.tolist(), step_j.tolist(), strict=True)
            ],
            operations_per_step=operations,
            bytes_per_step=moved,
            launches_per_step=launches,
            power_range_w=power_range_w(span_w, joined["phase_s"].ravel()),
        )
