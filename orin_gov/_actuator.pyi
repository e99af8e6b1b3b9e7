from collections.abc import Sequence
from typing import NamedTuple, final

class Transition(NamedTuple):
    requested_ns: int
    begun_ns: int
    issued_ns: int
    achieved_ns: int | None
    min_hz: int
    max_hz: int
    achieved_hz: int | None
    errno: int

def write_range(directory: str, min_hz: int, max_hz: int) -> None: ...

@final
class Actuator:
    def __init__(
        self, directory: str, allowed: Sequence[int], timeout_ns: int = 100_000_000
    ) -> None: ...
    @property
    def pending(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self, timeout_s: float = 1.0) -> bool: ...
    def request(self, min_hz: int, max_hz: int, expected_max_hz: int = -1) -> None: ...
    def drain(self) -> list[Transition]: ...
