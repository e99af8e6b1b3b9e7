"""What the simulation looks up: a job's steps by number, and what each kind costs at each clock."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orin_gov.virtual.job import Job
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel

Floats = npt.NDArray[np.float64]

BLOCK = 256
"""Steps are drawn so many at a time."""

_KEPT = 3
"""So many blocks stay at hand, while steps are taken in order."""


class Table:
    """Each kind of step at one clock and the reference temperature, worked out when first needed.

    `time_s` and `load` are [kinds, phases], `power_w` is [kinds, phases, rails]; `rows` holds times
    and loads of a kind as plain lists, from which single numbers come faster.

    Thread-safety: none; one caller.
    """

    def __init__(self, board: BoardModel, job: Job, clock_hz: int) -> None:
        self._board, self._job, self._clock_hz = board, job, clock_hz
        self.leakage_w = board.leakage_w(clock_hz)
        shape = len(job.kinds), len(job.phases)
        self.time_s, self.load = np.zeros(shape), np.zeros(shape)
        self.power_w = np.zeros((*shape, len(board.rails)))
        self.rows: dict[int, tuple[list[float], list[float]]] = {}
        self._costs: dict[int, tuple[float, float, list[float]]] = {}

    def need(self, kinds: npt.NDArray[np.int64]) -> None:
        """Make sure that the arrays hold these kinds."""
        for kind in set(kinds.tolist()) - self.rows.keys():
            self.row(kind)

    def row(self, kind: int) -> tuple[list[float], list[float]]:
        """Seconds and loads of a kind's phases."""
        found = self.rows.get(kind)
        if found is None:
            costs = [self._cost(law) for law in self._job.kinds[kind].laws.values()]
            times, loads, powers = zip(*costs, strict=True)
            self.time_s[kind], self.load[kind], self.power_w[kind] = times, loads, powers
            found = self.rows[kind] = list(times), list(loads)
        return found

    def _cost(self, law: PhaseLaw) -> tuple[float, float, list[float]]:
        # Phases that all kinds share are one object, worked out once.
        cost = self._costs.get(id(law))
        if cost is None:
            board, hz = self._board, self._clock_hz
            power_w = [*board.rail_power_w(law, hz).values()]
            cost = self._costs[id(law)] = board.time_s(law, hz), board.load(law, hz), power_w
        return cost


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
            self._blocks.pop(index - _KEPT, None)
            job, rng = self._job, np.random.default_rng((self._seed, index))
            stalled = rng.random(BLOCK) < job.stall_share
            self._blocks[index] = Steps(
                kinds=job.draw(rng, BLOCK),
                factors=np.exp(job.noise * rng.standard_normal(BLOCK)),
                stalls_s=stalled * rng.exponential(max(job.stall_s, 1e-12), BLOCK),
            )
        return self._blocks[index]
