"""The decision epoch: how long a window lasts before something is decided."""

import math
from dataclasses import dataclass, replace

from orin_gov.errors import UsageError
from orin_gov.policy.decision import State

HOLD_STRETCH = 5
"""A decision epoch lasts so many times longer while an operating point is held."""

MOST_SPAN_S = 600.0
"""A window by time is no longer than this: samples of so long are kept for its energy."""


@dataclass(frozen=True)
class Epoch:
    """How long a decision epoch lasts: so many steps or so many seconds, and never under `least_s`.

    `least_s` is the shortest span the sensors can resolve. Where it is steps, and none are seen, it
    lasts `stepless_s`.
    """

    steps: int | None = 3
    seconds: float | None = None
    least_s: float = 1.0
    stepless_s: float = 5.0

    def during(self, state: State) -> "Epoch":
        """Return the epoch in a state: while holding, nothing is decided that could not wait."""
        if state is not State.HOLD:
            return self
        return replace(
            self,
            steps=self.steps and self.steps * HOLD_STRETCH,
            seconds=self.seconds and self.seconds * HOLD_STRETCH,
            least_s=self.least_s * HOLD_STRETCH,
            stepless_s=self.stepless_s * HOLD_STRETCH,
        )

    @property
    def span_s(self) -> float:
        """Seconds of a window where no steps are seen."""
        return min(max(self.seconds or self.stepless_s, self.least_s), MOST_SPAN_S)

    def is_over(self, steps: int, duration_s: float) -> bool:
        """Tell whether a window of so many steps and seconds is complete."""
        if duration_s < self.least_s:
            return False
        return duration_s >= self.seconds if self.seconds else steps >= (self.steps or 1)


def parse_epoch(text: str) -> Epoch:
    """Return the epoch that `text` names: `20` is steps, `5s` is seconds.

    Raises:
        UsageError: it is neither, or not positive.
    """
    try:
        epoch = Epoch(None, float(text[:-1])) if text.endswith("s") else Epoch(int(text))
    except ValueError:
        epoch = Epoch(0)
    if not (epoch.seconds or epoch.steps or 0) > 0 or math.isinf(epoch.seconds or 0):
        raise UsageError(f"epoch is {text!r}, expected steps as in 20, or seconds as in 5s")
    return epoch
