"""One moment of a run, as the live view and `orin-gov top` draw it: plain values, SI units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from orin_gov.errors import RunDirectoryError

VERSION = 2


@dataclass(frozen=True)
class Effect:
    """What a decision was expected to do to a step and what was measured; None: not known."""

    target_hz: int | None
    expected_saving: float | None
    expected_slowdown: float | None
    saving: float | None
    slowdown: float | None


@dataclass(frozen=True)
class RailState:
    """One rail: watts now and on average, joules since the start; None where not measured."""

    power_w: float | None
    mean_w: float | None
    energy_j: float | None


@dataclass(frozen=True)
class SensorState:
    """How well the sampler does: sweeps a second, and counts over all rails."""

    rate_hz: float | None
    reads: int
    repeats: int
    gaps: int
    errors: int
    overruns: int
    dropped_marks: int


@dataclass(frozen=True)
class Snapshot:
    """Everything the view draws. Missing is None; shares are of 1; `t_ns` is CLOCK_MONOTONIC.

    `pid` and `started_s` (since the boot) name the supervisor. The clock's
    `floor_hz` and `cap_hz` are the board's own limits, not what is written while governing. A job of
    so many `steps_planned` is to end `deadline_s` after its start, and to take no more energy than
    `energy_budget_j`; None where nothing of the kind is asked for.
    """

    pid: int
    started_s: float
    t_ns: int
    name: str
    board: str
    virtual: bool
    mode: str
    elapsed_s: float
    steps: int
    steps_per_s: float | None
    remaining_s: float | None
    table_hz: Sequence[int]
    floor_hz: int | None
    cap_hz: int | None
    clock_hz: int | None
    target_hz: int | None
    governor: str | None
    load: float | None
    total: RailState
    rails: Mapping[str, RailState]
    phase_share: Mapping[str, float]
    temperature_c: Mapping[str, float | None]
    alarms: Sequence[str]
    decision: str
    path: Sequence[str]
    effect: Effect | None
    energy_change: Mapping[str, float] | None
    time_change: Mapping[str, float] | None
    windows_governed: int
    windows_baseline: int
    max_slowdown: float
    steps_planned: int | None
    deadline_s: float | None
    energy_budget_j: float | None
    sensors: SensorState

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with the version that `from_json` expects."""
        # vars, where asdict would copy every list and number: this is done all day long.
        return {
            "version": VERSION,
            **vars(self),
            "total": vars(self.total),
            "rails": {name: vars(rail) for name, rail in self.rails.items()},
            "effect": self.effect and vars(self.effect),
            "sensors": vars(self.sensors),
        }


def from_json(content: object, source: str) -> Snapshot:
    """Return the snapshot that `as_json` made; `source` is what an error names.

    Raises:
        RunDirectoryError: it is of another version, or damaged.
    """
    version = content.get("version") if isinstance(content, dict) else None
    if not isinstance(content, dict) or version != VERSION:
        raise RunDirectoryError(
            f"{source} is of version {version}, this orin-gov reads {VERSION}; "
            "use the orin-gov that the run was started with"
        )
    try:
        values = {field.name: content[field.name] for field in fields(Snapshot)}
        values["total"] = RailState(**values["total"])
        values["rails"] = {name: RailState(**rail) for name, rail in values["rails"].items()}
        values["effect"] = Effect(**values["effect"]) if values["effect"] else None
        values["sensors"] = SensorState(**values["sensors"])
        return Snapshot(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise RunDirectoryError(f"{source} is damaged: {error}") from error
