"""What a governor says after each window, and what the window came to."""

from dataclasses import dataclass
from enum import Enum

LEAST_NOISE = 0.01
"""Differences within it decide nothing where a window's steps do not tell more."""


class State(Enum):
    """What the governor is about while the next window is measured."""

    WARMUP = "warm-up"
    BASELINE = "baseline"
    VERIFY = "verify"
    REFINE = "refine"
    HOLD = "hold"
    FALLBACK = "fallback"
    ADVISE = "advise"
    SWEEP = "sweep"


@dataclass(frozen=True)
class Decision:
    """What the next window is run at (`target_hz` None: the board's own governor), and why.

    `notice` is what the user must know besides, told once.
    """

    state: State
    target_hz: int | None
    reason: str
    path: tuple[str, ...] = ()
    predicted_saving: float | None = None
    predicted_slowdown: float | None = None
    notice: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A window against the board's own governor, per unit of work; shares, None where missing."""

    slowdown: float | None
    saving: float | None
    gain: float | None  # of the objective
    margin: float = LEAST_NOISE  # differences within it decide nothing
