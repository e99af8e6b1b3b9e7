"""What the simulation looks up: a job's steps by number, and what each kind costs at each clock."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orin_gov.virtual.job import Job
from orin_gov.virtual.plant import BoardModel

Floats = npt.NDArray[np.float64]

BLOCK = 256
"""Steps are drawn so many at a time."""


@dataclass(frozen=True)
class Table:
    """Each kind of step at one clock and the reference temperature.

    `time_s` and `load` are [kinds, phases], `power_w` is [kinds, phases, rails]. `rows_s` and
    `rows_load` hold the same as plain lists, from which single numbers come faster.
    """

    time_s: Floats
    load: Floats
    power_w: Floats
    rows_s: list[list[float]]
    rows_load: list[list[float]]


def tabulate(board: BoardModel, job: Job, clock_hz: int) -> Table:
    """The table of a job's kinds at a clock."""
    laws = [list(kind.laws.values()) for kind in job.kinds]
    # Phases that all kinds share are one object: worked out once.
    known = {id(law): law for row in laws for law in row}
    time_s = {key: board.time_s(law, clock_hz) for key, law in known.items()}
    load = {key: board.load(law, clock_hz) for key, law in known.items()}
    power_w = {key: [*board.rail_power_w(law, clock_hz).values()] for key, law in known.items()}
    rows_s = [[time_s[id(law)] for law in row] for row in laws]
    rows_load = [[load[id(law)] for law in row] for row in laws]
    rows_w = [[power_w[id(law)] for law in row] for row in laws]
    return Table(np.array(rows_s), np.array(rows_load), np.array(rows_w), rows_s, rows_load)


@dataclass(frozen=True)
class Steps:
    """So many steps in a row: the kind of each, its time's factor, its wait for data (s)."""

    kinds: npt.NDArray[np.int64]
    factors: Floats
    stalls_s: Floats


class StepStream:
    """The steps of a job, by number; what a step is depends on the seed and its number alone."""

    def __init__(self, job: Job, seed: int) -> None:
        self._job = job
        self._seed = seed
        self._blocks: dict[int, Steps] = {}

    def take(self, start: int, n: int) -> Steps:
        """The steps from number `start` on, n of them."""
        first, last = start // BLOCK, (start + n - 1) // BLOCK
        blocks = [self._block(index) for index in range(first, last + 1)]
        self._blocks = {index: self._blocks[index] for index in range(first, last + 1)}
        part = slice(start - first * BLOCK, start - first * BLOCK + n)
        if len(blocks) == 1:
            one = blocks[0]
            return Steps(one.kinds[part], one.factors[part], one.stalls_s[part])
        return Steps(
            np.concatenate([block.kinds for block in blocks])[part],
            np.concatenate([block.factors for block in blocks])[part],
            np.concatenate([block.stalls_s for block in blocks])[part],
        )

    def _block(self, index: int) -> Steps:
        if index not in self._blocks:
            job, rng = self._job, np.random.default_rng((self._seed, index))
            stalled = rng.random(BLOCK) < job.stall_share
            self._blocks[index] = Steps(
                kinds=job.draw(rng, BLOCK),
                factors=np.exp(job.noise * rng.standard_normal(BLOCK)),
                stalls_s=stalled * rng.exponential(max(job.stall_s, 1e-12), BLOCK),
            )
        return self._blocks[index]
