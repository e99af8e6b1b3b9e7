"""A run that goes on for days: what the supervisor keeps in memory comes to an end."""

import gc
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from plants import POINTS, Plant, governor, policy_of
from runs import tally_of
from trees import build_tree

from orin_gov import compared
from orin_gov._phases import RING_BYTES, STEP, PhaseRing
from orin_gov._sampler import RailQuality, Samples
from orin_gov.board.probe import open_board
from orin_gov.engine import Engine
from orin_gov.epoch import Epoch
from orin_gov.helm import Helm
from orin_gov.lookout import Lookout
from orin_gov.meter import Meter
from orin_gov.observer import Observer, Subject
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.governor import Governor
from orin_gov.policy.history import History
from orin_gov.policy.objective import Objective
from orin_gov.policy.saving import saving
from orin_gov.policy.undisturbed import Undisturbed
from orin_gov.policy.window import StepSample, Surroundings, Window
from orin_gov.record import stream
from orin_gov.record.writer import RunWriter
from orin_gov.tally import EpochRecord, Tally
from orin_gov.workload.tracker import MOST_SPANS

MS = 1_000_000
PORTION_S, STEP_S, SAMPLE_S = 30.0, 5.0, 1.0


class Played:
    """A sampler whose time goes by in portions: some seconds of samples a drain."""

    rate_hz, overruns = 1 / SAMPLE_S, 0

    def __init__(self, begin_ns: int, rails: int) -> None:
        self.now_ns, self._rails, self._energy_j = begin_ns, rails, 0.0
        self._random = np.random.default_rng(0)

    def drain(self) -> Samples:
        n = round(PORTION_S / SAMPLE_S)
        t_ns = self.now_ns + round(SAMPLE_S * 1e9) * np.arange(1, n + 1, dtype=np.int64)
        power = self._random.normal(10.0, 0.2, (n, 1)) * np.ones(self._rails)
        energy = self._energy_j + np.cumsum(power * SAMPLE_S, axis=0)
        self.now_ns, self._energy_j = int(t_ns[-1]), float(energy[-1, 0])
        return Samples(t_ns, power, energy, np.zeros_like(power))

    def quality(self) -> list[RailQuality]:
        return [RailQuality(1, 0, 0, 0, 0)] * self._rails


def put_steps(ring: PhaseRing, begin_ns: int) -> None:
    """Mark the steps of one portion."""
    for step in range(round(PORTION_S / STEP_S)):
        at_ns = begin_ns + round(step * STEP_S * 1e9)
        for kind, ms in ((DATA, 0), (FORWARD, 100), (BACKWARD, 1500), (OPTIMIZER, 3500)):
            ring.put(at_ns + ms * MS, kind, 0.0)
        ring.put(at_ns + round(STEP_S * 1e9) - 1, STEP, 32.0)


def growth(portions: Iterator[None], number: int) -> float:
    """Return by how many bytes a portion memory grows, over so many after as many to settle.

    It is the peaks that are compared: buffers fill and are written all the time. What Python keeps
    of freed tuples, up to 2000 of a length, is no growth: a collection lets go of it.
    """
    gc.freeze()  # what is there already is looked at by no collection: they take no time
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(3):
            tracemalloc.reset_peak()
            for _ in range(number):
                next(portions)
                gc.collect()
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    return (peaks[2] - peaks[1]) / number


@pytest.fixture
def few_kept(monkeypatch) -> None:
    """Keep little, so that a short test comes to the point from which on it is no more."""
    monkeypatch.setattr(compared, "MOST_WINDOWS", 32)
    monkeypatch.setattr(stream, "LARGE_ROWS", 100)


@pytest.fixture
def portions(tmp_path: Path, few_kept) -> Iterator[Iterator[None]]:
    """An engine with its recorder, meter and observer, that plays a portion whenever asked."""
    board = open_board(build_tree(tmp_path / "root"))
    governor = Undisturbed(Governor(policy_of(), POINTS, Objective("energy"), True), POINTS)
    tally = Tally()
    descriptor = os.memfd_create("ring")
    os.ftruncate(descriptor, RING_BYTES)
    ring = PhaseRing(descriptor)
    assert ring.claim()
    (tmp_path / "run").mkdir()
    rails = [rail.label for rail in board.rails]
    with RunWriter(tmp_path / "run", rails) as writer:
        helm, lookout = Helm(None, governor, POINTS, tally.warnings), Lookout(board.root, None)
        sampler = Played(0, len(rails))
        engine = Engine(
            board, ring, sampler, governor, helm, lookout, tally, Epoch(), writer, True, print
        )  # fmt: skip
        sampler.now_ns = engine.ticked_ns
        engine._tell = lambda record: None
        engine.watch = Meter(rails, board.total_rails, 0).feed
        subject = Subject("train.py", False, Objective())
        observer = Observer(subject, engine, helm, sampler, ring, tmp_path / "run", None)

        def play() -> Iterator[None]:
            for number in count():
                put_steps(ring, sampler.now_ns)
                engine._tick()
                if number % 20 == 0:
                    observer.look(engine.ticked_ns)
                yield

        yield play()
        assert tally.steps > 800
        assert tally.epochs > 100


def test_what_the_supervisor_keeps_does_not_grow_with_the_hours(portions: Iterator[None]) -> None:
    assert growth(portions, 48) < 400


def windows_of_a_run() -> Iterator[tuple[Window, Decision, Decision]]:
    """Yield each window of a governed run with the decision it was measured under, and the next."""
    governor = Undisturbed(Governor(policy_of(), POINTS, Objective("energy")), POINTS)
    random, plant, history = np.random.default_rng(1), Plant(), History()
    decision, at_ns = governor.first(), 0
    while True:
        times, energies = random.normal(1.0, 0.01, (2, 3))
        window = plant.noisy(decision.target_hz, times, energies)
        span_ns = window.end_ns - window.start_ns
        window = replace(window, start_ns=at_ns, end_ns=at_ns + span_ns)
        window = history.complete(window, Surroundings())
        before, decision = decision, governor.decide(window)
        yield window, before, decision
        at_ns += span_ns


def test_what_is_known_of_all_windows_does_not_grow_with_the_hours(few_kept) -> None:
    tally = Tally()

    def play() -> Iterator[None]:
        for number, (window, before, decision) in enumerate(windows_of_a_run()):
            outcome = Outcome(0.0, 0.1, 0.1)
            events = {"oc1": 1, "oc3": 0}
            tally.add_epoch(EpochRecord(number, before.state, window, outcome, decision, events))
            yield

    assert growth(play(), 300) < 100
    assert tally.epochs == 900
    assert sum(tally.counts()) > 880
    assert tally.over_current == {"oc1": 900, "oc3": 0}


def test_what_was_known_before_each_move_of_a_cap_does_not_add_up() -> None:
    subject, plant = governor(), Plant()

    def play() -> Iterator[None]:
        target_hz = subject.first().target_hz
        for move in count():
            for _ in range(8):
                target_hz = subject.decide(plant.window(target_hz)).target_hz
            target_hz = subject.set_points(POINTS[: -1 - move % 2], "heat").target_hz
            yield

    assert growth(play(), 60) < 100


def record(number: int, disturbed: str | None = None) -> EpochRecord:
    """Return an epoch of a machine that drifts; every tenth is one of the baseline."""
    own = number % 10 == 0
    random = np.random.default_rng(number)
    samples = [
        StepSample(work, 0.01 * work * scale, 0.3 * work * scale * (1.0 if own else 0.9))
        for work, scale in zip(
            random.uniform(20, 40, 3),
            (1 + 1e-5 * number) * random.normal(1.0, 0.03, 3),
            strict=True,
        )
    ]
    duration_s = sum(each.time_s for each in samples)
    window = Window(
        start_ns=number * 10**9,
        end_ns=(number + 1) * 10**9,
        duration_s=duration_s,
        target_hz=None if own else 918_000_000,
        steps=3,
        work=sum(each.work for each in samples),
        unit="unit of work",
        energy_j=sum(each.energy_j or 0.0 for each in samples),
        rail_energy_j={"VDD_GPU_SOC": duration_s, "VDD_CPU_CV": duration_s},
        samples=samples,
        disturbed=disturbed,
    )
    state = State.BASELINE if own else State.HOLD
    return EpochRecord(number, state, window, Outcome(0.0, 0.1, 0.1), Decision(state, None, "", ()))


def split(records: list[EpochRecord]) -> tuple[list[Window], list[Window]]:
    windows = [each.window for each in records if not each.window.disturbed]
    governed = [each for each in windows if each.target_hz is not None]
    return governed, [each for each in windows if each.target_hz is None]


def test_as_long_as_all_windows_are_kept_they_are_compared_one_by_one() -> None:
    records = [record(number, "heat" if number % 7 == 3 else None) for number in range(270)]
    tally = tally_of(records)
    governed, baseline = split(records)
    assert saving(*tally.windows()) == saving(governed, baseline)
    assert tally.counts() == (len(governed), len(baseline))
    assert tally.disturbed == sum(bool(each.window.disturbed) for each in records)


def test_windows_joined_to_others_tell_the_same_saving() -> None:
    records = [record(number) for number in range(8000)]
    tally = tally_of(records)
    whole, joined = saving(*split(records)), saving(*tally.windows())
    assert len(tally.windows()[0]) < 300
    assert tally.counts() == (7200, 800)
    for of_all, of_some in (
        (whole.energy, joined.energy),
        (whole.time, joined.time),
        (whole.two_rail_energy, joined.two_rail_energy),
    ):
        assert of_all is not None
        assert of_some is not None
        width = of_all.high - of_all.low
        assert abs(of_some.value - of_all.value) < 0.1 * width
        assert of_some.high - of_some.low == pytest.approx(width, rel=0.3)


def test_what_is_told_late_of_a_window_keeps_it_out() -> None:
    tally = tally_of([record(number) for number in range(20)])
    tally.disturb_last("heat")
    assert tally.disturbed == 1
    assert 19 * 10**9 not in [window.start_ns for window in tally.windows()[0]]


def test_a_script_that_never_steps_costs_no_memory_and_may_step_later() -> None:
    from test_tracker import marks

    from orin_gov.workload.tracker import StepTracker

    tracker = StepTracker()
    portion = marks(*[FORWARD, DATA] * 500)
    for number in range(2 * MOST_SPANS // 1000 + 1):
        portion["t_ns"] += 10_000
        assert tracker.feed(portion) == []
        assert len(tracker._spans) <= MOST_SPANS, number
    after = marks(DATA, FORWARD, BACKWARD, OPTIMIZER, STEP, begin_ns=10**10)
    assert tracker.feed(after) == []  # what led up to this one is not known
    after["t_ns"] += 1000
    assert len(tracker.feed(after)) == 1
