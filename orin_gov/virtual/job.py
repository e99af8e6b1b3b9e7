"""Jobs: what the simulation runs. Kinds of step, what comes between them, how they scatter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from orin_gov.counts import Counts
from orin_gov.virtual.phase_law import PhaseLaw

Draw = Callable[[np.random.Generator, int], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class StepKind:
    """One kind of step: its units of work, the law of each phase in order (times in s), and what
    its kernels count, where that is known."""

    work: float
    laws: Mapping[str, PhaseLaw]
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class Pause:
    """What happens after every `every` steps and belongs to none: an evaluation or a checkpoint."""

    phase: str
    law: PhaseLaw
    repeat: int
    every: int


def _always_the_first(rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
    return np.zeros(n, dtype=np.int64)


@dataclass(frozen=True)
class Job:
    """A training job of `steps` steps, whose kinds `draw` picks.

    All kinds have the same phases. `noise` is the relative standard deviation of a step's time at
    equal work. A share `stall_share` of the steps waits for data, `stall_s` seconds on average.
    """

    name: str
    kinds: tuple[StepKind, ...]
    steps: int
    draw: Draw = _always_the_first
    noise: float = 0.0
    stall_share: float = 0.0
    stall_s: float = 0.0
    pauses: tuple[Pause, ...] = ()

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases of a step, in order."""
        return tuple(self.kinds[0].laws)
