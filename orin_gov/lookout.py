"""The lookout for a GPU that is not there yet: it appears when it first powers on."""

import time
from collections.abc import Callable
from pathlib import Path

from orin_gov.board.gpu import Gpu, Range, find_gpu
from orin_gov.control import Control
from orin_gov.errors import BoardError
from orin_gov.helm import Helm
from orin_gov.policy.decision import Decision

SEEK_FIRST_NS, SEEK_RAREST_NS = 500_000_000, 30_000_000_000
"""A GPU that is not there yet is looked for after half a second, then ever more rarely."""


class Lookout:
    """Looks for a GPU that was not there at the start: it appears when it first powers on.

    `take` gives control of it, where the run may govern; it is called once.
    """

    def __init__(self, root: Path, take: Callable[[Gpu], Control] | None) -> None:
        self._root, self._take = root, take
        self._began_ns = self._looked_ns = time.monotonic_ns()
        self._patience_ns = SEEK_FIRST_NS

    def look(self, now_ns: int) -> Gpu | None:
        """Return the GPU once it is there; mostly returns None at once."""
        if now_ns - self._looked_ns < self._patience_ns:
            return None
        self._looked_ns = now_ns
        self._patience_ns = min(2 * self._patience_ns, SEEK_RAREST_NS)
        gpu = find_gpu(self._root)
        return gpu if gpu and gpu.table_hz else None

    def hand_over(self, gpu: Gpu, obstacle: str | None, helm: Helm) -> Decision | None:
        """Give `helm` control of the GPU that has appeared; None where it cannot be governed."""
        told = f"the GPU appeared {(self._looked_ns - self._began_ns) * 1e-9:.0f} s after the start"
        try:
            points = gpu.points(Range(0, gpu.read_range().max_hz))
            if obstacle is None and len(points) < 2:
                obstacle = "the board's cap leaves a single GPU clock"
            if obstacle is None and self._take is not None:
                return helm.take(self._take(gpu), gpu.table_hz, points, told)
        except BoardError as error:
            obstacle = str(error)
        helm.note(f"{told}, but is not governed: {obstacle}" if obstacle else told)
        return None
