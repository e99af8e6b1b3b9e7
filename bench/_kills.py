"""Seeded kills: which processes of a governed run, by which signal, at which moment."""

import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window

VICTIMS = ("supervisor", "warden", "workload", "board")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV)


@dataclass(frozen=True)
class Kill:
    """What is done to one run. `oom` stands for whichever process holds the most memory.

    The moment is `after_s` from the start or, where `wakes` is given, the so-many-th change of the
    limits, the sensors' setting or the journal, and then `delay_s`.
    """

    seed: int
    victims: tuple[str, ...]
    number: signal.Signals
    after_s: float
    wakes: int | None
    delay_s: float
    gap_s: float
    full_disk: bool
    foreign: bool
    foreign_after_s: float
    new_start: bool


def draw(seed: int) -> Kill:
    """Return the kill of that seed."""
    rng = random.Random(seed)
    how_many = rng.choice((1, 1, 2, 2, 4))
    victims = tuple(rng.sample(VICTIMS, how_many))
    if how_many == 1 and rng.random() < 0.15:
        victims = ("oom",)
    return Kill(
        seed=seed,
        victims=victims,
        number=signal.SIGKILL if victims == ("oom",) else rng.choice(SIGNALS),
        after_s=rng.uniform(0.0, 1.2),
        wakes=rng.randint(1, 40) if rng.random() < 0.6 else None,
        delay_s=rng.choice((0.0, rng.uniform(0, 0.001), rng.uniform(0, 0.02))),
        gap_s=rng.choice((0.0, 0.0, rng.uniform(0, 0.02))),
        full_disk=rng.random() < 0.15,
        foreign=rng.random() < 0.1,
        foreign_after_s=rng.uniform(0.005, 0.15),
        new_start=rng.random() < 0.3,
    )


class Restless:
    """A decider that chooses another clock at every window, now and then the board's own."""

    def __init__(self, points_hz: Sequence[int], seed: int) -> None:
        self._points = tuple(points_hz)
        self._rng = random.Random(seed)

    def first(self) -> Decision:
        """Begin with a clock: the first write comes at once."""
        return self._any()

    def decide(self, window: Window) -> Decision:
        """Go somewhere else."""
        return self._any()

    def outcome(self, window: Window) -> Outcome:
        """Nothing is compared."""
        return Outcome(None, None, None)

    def fall_back(self) -> None:
        """Nothing to remember."""

    def set_points(
        self, points_hz: Sequence[int], told: str, advise: bool | None = None
    ) -> Decision:
        """Go on within these."""
        self._points = tuple(points_hz)
        return self._any()

    def _any(self) -> Decision:
        return Decision(State.SWEEP, self._rng.choice((None, *self._points)), "restless")
