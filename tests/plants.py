"""Analytic plants for the tests of the governor, and policies that expect them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from orin_gov.policy.decision import Decision, State
from orin_gov.policy.governor import BASELINE_WINDOWS, Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import Leaf, Node, Policy
from orin_gov.policy.window import StepSample, Window

POINTS = (306_000_000, 408_000_000, 510_000_000, 714_000_000, 918_000_000, 1_122_000_000)
TOP = POINTS[-1]
SHARES = tuple(hz / TOP for hz in POINTS)
WORK = 100.0  # of a step


@dataclass(frozen=True)
class Plant:
    """Time and power over the clock; the board's own governor runs at the top."""

    floor_s: float = 0.10
    compute_s: float = 0.08
    static_w: float = 12.0
    dynamic_w: float = 25.0

    def step_s(self, target_hz: int | None) -> float:
        share = (target_hz or TOP) / TOP
        return float((self.floor_s**4 + (self.compute_s / share) ** 4) ** 0.25)

    def power_w(self, target_hz: int | None) -> float:
        share = (target_hz or TOP) / TOP
        return self.static_w + self.dynamic_w * max(0.7, 0.4 + 0.6 * share) ** 2 * share

    def slowdown(self, target_hz: int | None) -> float:
        return self.step_s(target_hz) / self.step_s(None) - 1

    def energy(self, target_hz: int | None) -> float:
        """Energy of a step against the board's own governor: 1 is as much."""
        taken, base = (self.power_w(hz) * self.step_s(hz) for hz in (target_hz, None))
        return taken / base

    def window(self, target_hz: int | None, steps: int = 3, **changes: object) -> Window:
        """Return a window without noise, with `changes`."""
        return self.noisy(target_hz, np.ones(steps), np.ones(steps), **changes)

    def noisy(
        self,
        target_hz: int | None,
        times: Sequence[float] | np.ndarray,
        energies: Sequence[float] | np.ndarray,
        **changes: object,
    ) -> Window:
        """Return a window whose steps took so many times the plant's time and energy."""
        step_s = self.step_s(target_hz) * np.asarray(times, dtype=float)
        step_j = self.power_w(target_hz) * self.step_s(target_hz) * np.asarray(energies)
        n = len(step_s)
        total_s = float(step_s.sum())
        error = float(step_s.std(ddof=1) / n**0.5 / step_s.mean()) if n > 1 else None
        window = Window(
            start_ns=0,
            end_ns=round(total_s * 1e9),
            duration_s=total_s,
            target_hz=target_hz,
            steps=n,
            work=WORK * n,
            unit="unit of work",
            energy_j=float(step_j.sum()),
            phase_time_s={"forward": 0.4 * total_s, "backward": 0.6 * total_s},
            frequency_hz=float(target_hz or TOP),
            load=0.9,
            noise=error,
            samples=[
                StepSample(WORK, *pair)
                for pair in zip(step_s.tolist(), step_j.tolist(), strict=True)
            ],
        )
        return scaled(window, **changes)

    def leaf(self, points_hz: Sequence[int] = POINTS, spread: float = 1.0) -> Leaf:
        """Return the leaf that expects just this plant."""
        return Leaf(
            tuple(self.energy(hz) for hz in points_hz),
            tuple(1 + self.slowdown(hz) for hz in points_hz),
            spread,
            7,
        )


def scaled(window: Window, slower: float = 1.0, dearer: float = 1.0, **changes: object) -> Window:
    """Return the window with all its times and energies times a factor, and with `changes`."""
    energy_j = None if window.energy_j is None else dearer * window.energy_j
    whole = replace(
        window,
        duration_s=slower * window.duration_s,
        energy_j=energy_j,
        samples=[
            StepSample(
                each.work,
                slower * each.time_s,
                None if each.energy_j is None else dearer * each.energy_j,
            )
            for each in window.samples
        ],
    )
    if changes.keys() & {"duration_s", "energy_j", "work", "steps"}:
        changes.setdefault("samples", ())
    return replace(whole, **changes)  # type: ignore[arg-type]


DEVIATIONS = np.array(
    [
        # All of time and energy tilt with the clock, as another share of compute would tilt them.
        np.concatenate([0.05 * (1 - np.array(SHARES)), 0.10 * (1 - np.array(SHARES))]),
        np.concatenate([0.05 * (1 - np.array(SHARES)), np.zeros(len(SHARES))]),
    ]
)


def policy_of(*nodes: Node, rest: float = 0.005) -> Policy:
    """Return a policy at our clocks whose workloads deviate by tilts of some percent."""
    return Policy(nodes or (Plant().leaf(),), SHARES, DEVIATIONS, rest, {})


@cache
def policy_of_all_plants() -> Policy:
    """Return the policy of one leaf that knows plants of all kinds, and how they deviate."""
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(300):
        plant = Plant(rng.uniform(0, 0.2), rng.uniform(0.02, 0.3), *rng.uniform(1, 60, 2))
        ratios = [(plant.energy(hz), 1 + plant.slowdown(hz)) for hz in POINTS]
        answers.append(np.log(np.array(ratios)).T.ravel())
    mean = np.mean(answers, axis=0)
    _, sizes, ways = np.linalg.svd((answers - mean) / len(answers) ** 0.5, full_matrices=False)
    rest = float(np.sqrt((sizes[5:] ** 2).sum() / len(mean)))
    energy, time = np.split(np.exp(mean), 2)
    leaf = Leaf(tuple(energy.tolist()), tuple(time.tolist()), 1.0, 300)
    return Policy((leaf,), SHARES, sizes[:5, None] * ways[:5], max(rest, 0.002), {})


def governor(
    policy: Policy | None = None,
    points_hz: Sequence[int] = POINTS,
    advise: bool = False,
    baseline_share: float = 0.05,
    **objective: object,
) -> Governor:
    """Return a governor of our points; the policy expects the default plant."""
    return Governor(
        policy or policy_of(),
        points_hz,
        Objective(**objective),  # type: ignore[arg-type]
        advise,
        TOP,
        baseline_share,
    )


Measure = Callable[[int | None], Window]


def drive(subject: Governor, windows: int, measure: Measure) -> list[Decision]:
    """Return the first decision and those after each of so many windows."""
    decisions = [subject.first()]
    for _ in range(windows):
        decisions.append(subject.decide(measure(decisions[-1].target_hz)))
    return decisions


def states(decisions: Sequence[Decision]) -> list[State]:
    return [decision.state for decision in decisions]


def holding(subject: Governor, measure: Measure) -> Decision:
    """Drive the governor until it holds; return that decision."""
    decision = subject.first()
    for _ in range(40):
        decision = subject.decide(measure(decision.target_hz))
        if decision.state is State.HOLD:
            return decision
    raise AssertionError(f"it never came to hold, but to {decision}")


PLANT = Plant()
"""The one that the policy expects."""


def stepless(hz: int | None) -> Window:
    """A window of a script in which no steps are seen."""
    changes = {"steps": 0, "phase_time_s": {}, "unit": "busy cycle", "work": 1e9}
    return scaled(PLANT.window(hz), **changes)


def best_within(plant: Plant, budget: float, points: Sequence[int] = POINTS) -> int | None:
    kept = [hz for hz in points if plant.slowdown(hz) <= budget and plant.energy(hz) < 1]
    return min(kept, key=plant.energy, default=None)


def asked(**options: object) -> Governor:
    """Return a governor after its baseline: it has just asked the tree."""
    options.setdefault("max_slowdown", 0.15)
    subject = governor(**options)  # type: ignore[arg-type]
    drive(subject, 1 + BASELINE_WINDOWS, PLANT.window)
    return subject
