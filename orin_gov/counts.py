"""What one step did, counted: operations, bytes moved and launches; and the marks that carry it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orin_gov.phases import BACKWARD, FORWARD, PHASES

OPERATIONS, BYTES, LAUNCHES, SHAPED_OPERATIONS = range(4)
"""What is counted. Shaped operations were told from the shapes, where a model is compiled."""

_FIRST_KIND, _QUANTITIES = 200, 4

GROWS = (PHASES[FORWARD], PHASES[BACKWARD])
"""The phases whose operations and bytes grow with the work of a step."""


def kind_of(phase: int, quantity: int) -> int:
    """Return the kind of the mark that carries a count of a phase."""
    return _FIRST_KIND + phase * _QUANTITIES + quantity


def parse_kind(kind: int) -> tuple[int, int] | None:
    """Return the phase and the quantity that a mark's kind stands for, None for any other kind."""
    if not 0 <= kind - _FIRST_KIND < len(PHASES) * _QUANTITIES:
        return None
    return divmod(kind - _FIRST_KIND, _QUANTITIES)


@dataclass(frozen=True)
class Counts:
    """The counts of one step by phase name: FLOP, bytes read and written, kernels launched.

    A phase that was not counted is in none of them. `work` is the step's, in tokens or samples;
    `by_shapes` tells that operations come from shapes, and bytes and launches are not known.
    """

    operations: Mapping[str, float] = field(default_factory=dict)
    moved: Mapping[str, float] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)
    work: float | None = None
    by_shapes: bool = False

    def at_work(self, work: float | None) -> "Counts":
        """Return what a step of so much work does.

        Forward and backward grow in proportion, which leaves out that attention grows faster and
        weights are read once for any batch; the optimizer and the launches stay.
        """
        if not work or not self.work:
            return self
        share = work / self.work
        return Counts(
            operations=_grown(self.operations, share),
            moved=_grown(self.moved, share),
            launches=self.launches,
            work=work,
            by_shapes=self.by_shapes,
        )


def _grown(counts: Mapping[str, float], share: float) -> dict[str, float]:
    return {phase: value * (share if phase in GROWS else 1.0) for phase, value in counts.items()}


def counts_of(marks: Mapping[tuple[int, int], float], work: float | None) -> Counts | None:
    """Return the counts that one step's marks, by phase and quantity, add up to; None of none."""
    if not marks:
        return None
    found: list[dict[str, float]] = [{}, {}, {}, {}]
    for (phase, quantity), value in marks.items():
        found[quantity][PHASES[phase]] = value
    operations, moved, launches, shaped = found
    return Counts({**shaped, **operations}, moved, launches, work, by_shapes=bool(shaped))
