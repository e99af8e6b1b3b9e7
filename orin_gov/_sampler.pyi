from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

class RailQuality(NamedTuple):
    reads: int
    errors: int
    repeats: int
    gaps: int
    last_errno: int

class Samples(NamedTuple):
    t_ns: NDArray[np.int64]
    power_w: NDArray[np.float64]
    energy_j: NDArray[np.float64]
    missing_ns: NDArray[np.float64]

@final
class Sampler:
    def __init__(
        self,
        rails: Sequence[tuple[str, str]],
        period_ns: int,
        gap_ns: int,
        capacity: int = 16384,
        voltage_every: int = 1,
    ) -> None: ...
    @property
    def sweeps(self) -> int: ...
    @property
    def overruns(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def thread_cpu_s(self) -> float: ...
    @property
    def rate_hz(self) -> float | None: ...
    @property
    def grid_ns(self) -> int: ...
    def start(self) -> None: ...
    def stop(self, timeout_s: float = 1.0) -> bool: ...
    def drain(self) -> Samples: ...
    def quality(self) -> list[RailQuality]: ...
