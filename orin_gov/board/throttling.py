"""Whether the board slows itself now: zones at their trip, the GPU's cooling, over-current events.

None of it shows in cur_freq. Files are found once; a look reads a dozen small ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orin_gov.board.conditions import (
    COOLING,
    NOT_MEASURED,
    ZONE,
    celsius,
    find_counters,
    read_counters,
)
from orin_gov.board.files import read_int, read_ints, read_text
from orin_gov.board.gpu import Gpu

ACTS = frozenset({"passive", "hot", "critical"})
"""Trips at which something is slowed or shut; an active one turns a fan on."""


@dataclass(frozen=True)
class Zone:
    """A thermal zone with the lowest temperature at which it slows something."""

    name: str
    file: Path
    trip_c: float


class Throttling:
    """What slows the board under `root`. Thread-safety: none; one caller."""

    def __init__(self, root: Path, gpu: Gpu | None) -> None:
        self._root = root
        self._zones = _find_zones(root)
        self._cooling = _find_cooling(root, gpu) if gpu else []
        self._counters = find_counters(root)
        self._events = read_counters(self._counters)

    def heat(self) -> str | None:
        """Return in words what is too hot now, or None."""
        values = read_ints([*self._cooling, *(zone.file for zone in self._zones)])
        if any((state or 0) > 0 for state in values[: len(self._cooling)]):
            return "the GPU is being cooled, its clock capped"
        for zone, value in zip(self._zones, values[len(self._cooling) :], strict=True):
            now_c = celsius(value)
            if now_c is not None and now_c >= zone.trip_c:
                return f"{zone.name} has {now_c:.0f} deg C, its limit is {zone.trip_c:.0f}"
        return None

    def events(self) -> Mapping[str, int]:
        """Return the over-current events since the last call, by counter that has moved."""
        before, self._events = self._events, read_counters(self._counters)
        if None in self._events.values():  # a chip that comes back has another number
            self._counters = find_counters(self._root)
        return {
            name: now - was
            for name, now in self._events.items()
            if now is not None and (was := before.get(name)) is not None and now > was
        }


def _find_zones(root: Path) -> list[Zone]:
    zones = []
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = read_text(folder / "type") or ""
        trips = [
            trip_c
            for file in sorted(folder.glob("trip_point_*_type"))
            if read_text(file) in ACTS
            and (trip_c := celsius(read_int(file.with_name(_temperature_of(file.name)))))
        ]
        if trips and kind not in NOT_MEASURED:
            match = ZONE.fullmatch(kind)
            zones.append(Zone((match[1] if match else kind)[:64], folder / "temp", min(trips)))
    return zones


def _temperature_of(name: str) -> str:
    return name.removesuffix("type") + "temp"


def _find_cooling(root: Path, gpu: Gpu) -> list[Path]:
    return [
        device / "cur_state"
        for device in sorted((root / "sys/class/thermal").glob("cooling_device*"))
        if (match := COOLING.fullmatch(read_text(device / "type") or ""))
        and match[1] in gpu.directory.parts
    ]
