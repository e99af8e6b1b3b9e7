"""Jobs as tables: what a step takes at each operating point, segment by segment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orin_gov.counts import Counts
from orin_gov.policy.window import Surroundings

Target = int | None


@dataclass(frozen=True)
class Costs:
    """What one step takes (s, J) at one operating point, without noise; the rest where known."""

    time_s: float
    energy_j: float
    clock_hz: float
    load: float | None = None
    phase_s: Mapping[str, float] = field(default_factory=dict)
    phase_j: Mapping[str, float] = field(default_factory=dict)
    rail_j: Mapping[str, float] = field(default_factory=dict)
    range_w: tuple[float, float] | None = None


@dataclass(frozen=True)
class Segment:
    """So many equal steps; `at` has their costs at each allowed point (Hz), None being podgov.

    Before them there may be a `pause` (an evaluation: s and J by point) that belongs to no step.
    `told` is what a decider hears when the points are others than before. `counts` are what a step
    does, `surroundings` what the board tells of itself, where they are known.
    """

    steps: int
    work: float
    at: Mapping[Target, Costs]
    pause: Mapping[Target, tuple[float, float]] = field(default_factory=dict)
    told: str | None = None
    counts: Counts | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)

    @property
    def points_hz(self) -> tuple[int, ...]:
        """The operating points that are allowed, ascending."""
        return tuple(sorted(hz for hz in self.at if hz is not None))

    def costs(self, target: Target) -> Costs:
        """The costs at a target; one above a cap that has just moved is clamped by the board."""
        found = self.at.get(target)
        return found or self.at[max(self.points_hz)]

    def best(self, max_slowdown: float) -> Target:
        """The oracle's choice: the least energy within the slowdown budget, podgov included."""
        return min(self._allowed(max_slowdown), key=lambda target: self.at[target].energy_j)

    def best_point(self, max_slowdown: float) -> int:
        """The same among the operating points alone; the top one where none keeps the budget."""
        points = [hz for hz in self._allowed(max_slowdown) if hz is not None]
        return min(points, key=lambda hz: self.at[hz].energy_j, default=max(self.points_hz))

    def _allowed(self, max_slowdown: float) -> list[Target]:
        longest_s = self.at[None].time_s * (1 + max_slowdown)
        return [target for target, costs in self.at.items() if costs.time_s <= longest_s]


@dataclass(frozen=True)
class TableJob:
    """A named job: segments one after the other. `scale` is how many of its source's joules one
    joule of a step stands for, where it has a source."""

    name: str
    segments: Sequence[Segment]
    scale: float = 1.0

    @property
    def steps(self) -> int:
        """Steps of the whole job."""
        return sum(segment.steps for segment in self.segments)

    def each_step(self) -> Iterator[tuple[int, Segment, bool]]:
        """Every step: the number of its segment, the segment, whether it is the first there."""
        for index, segment in enumerate(self.segments):
            for step in range(segment.steps):
                yield index, segment, not step
