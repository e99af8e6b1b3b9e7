"""The decision epoch: how long a window lasts before something is decided."""

import math
from dataclasses import dataclass

from orin_gov.errors import UsageError
from orin_gov.policy.decision import State

HOLD_STRETCH = 5
"""A decision epoch lasts so many times longer while an operating point is held."""


@dataclass(frozen=True)
class Epoch:
    """How long a decision epoch lasts: so many steps or so many seconds, and never under `least_s`.

    `least_s` is the shortest span the sensors can resolve.
    """

    steps: int | None = 3
    seconds: float | None = None
    least_s: float = 1.0

    def during(self, state: State) -> "Epoch":
        """Return the epoch in a state: while holding, nothing is decided that could not wait."""
        if state is not State.HOLD:
            return self
        return Epoch(
            self.steps and self.steps * HOLD_STRETCH,
            self.seconds and self.seconds * HOLD_STRETCH,
            self.least_s * HOLD_STRETCH,
        )

    @property
    def span_s(self) -> float:
        """Seconds of a window where no steps are seen."""
        return max(self.seconds or 5.0, self.least_s)

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
