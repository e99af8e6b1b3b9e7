"""The engine after a pause: what went by meanwhile is neither a clock's time nor a step."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from plants import POINTS, policy_of
from trees import AGX_CLOCKS, build_tree

from orin_gov._phases import STEP, PhaseRing
from orin_gov._sampler import Sampler, Samples
from orin_gov.board.probe import open_board
from orin_gov.engine import Engine
from orin_gov.epoch import Epoch
from orin_gov.helm import Helm
from orin_gov.lookout import Lookout
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.record.run import read_run
from orin_gov.record.writer import RunWriter
from orin_gov.tally import Tally
from orin_gov.workload.ring import make_ring

MS, S = 1_000_000, 1_000_000_000
TRAIN = (DATA, FORWARD, BACKWARD, OPTIMIZER, STEP)


@pytest.fixture
def ring() -> PhaseRing:
    memory = make_ring()
    made = PhaseRing(memory)
    os.close(memory)
    assert made.claim()
    return made


@pytest.fixture
def engine(tmp_path: Path, ring: PhaseRing) -> Iterator[Engine]:
    """An engine on plain files that never reads a sensor; a step waits a second for them."""
    board = open_board(build_tree(tmp_path / "root"))
    governor = Governor(policy_of(), POINTS, Objective("energy"), True)
    tally, sampler = Tally(), Sampler([], 5 * MS, S)
    rails = [rail.label for rail in board.rails]
    (tmp_path / "run").mkdir()
    with RunWriter(tmp_path / "run", rails) as writer:
        helm, lookout = Helm(None, governor, POINTS, tally.warnings), Lookout(board.root, None)
        yield Engine(
            board, ring, sampler, governor, helm, lookout, tally, Epoch(), writer, True, print
        )  # fmt: skip


def test_the_time_of_a_pause_is_no_clocks(engine: Engine) -> None:
    began_ns = engine.ticked_ns
    for after_s in (0.1, 0.2, 60.2, 60.3):
        engine._poll(began_ns + round(after_s * S))
    assert engine.tally.clock_s == {AGX_CLOCKS[0]: pytest.approx(0.3)}


def test_a_step_whose_marks_were_dropped_is_none(engine: Engine, ring: PhaseRing) -> None:
    now_ns = time.monotonic_ns() - 3600 * S

    def put(*kinds: int) -> None:
        nonlocal now_ns
        for kind in kinds:
            ring.put(now_ns := now_ns + MS, kind, 1.0)

    put(*TRAIN, DATA, FORWARD)
    while not ring.dropped:
        ring.put(now_ns, FORWARD, 0.0)
    engine._tick()
    assert engine.tally.steps == 1
    put(BACKWARD, OPTIMIZER, STEP)
    engine._tick()
    assert engine.tally.steps == 1
    put(*TRAIN)
    engine._tick()
    assert engine.tally.steps == 2


def test_samples_are_kept_for_as_long_as_a_step_is_under_way(
    engine: Engine, ring: PhaseRing
) -> None:
    begin_ns, rails = time.monotonic_ns() - 300 * S, len(engine.board.rails)

    class Recorded:
        """What a sampler has drained, a half at a time."""

        def __init__(self, *halves: range) -> None:
            self._halves = list(halves)

        def drain(self) -> Samples:
            t_ns = begin_ns + np.array(self._halves.pop(0) if self._halves else [], np.int64)
            ones = np.ones((len(t_ns), rails))
            return Samples(t_ns, ones, ones * 1e-9 * t_ns[:, None], 0 * ones)

    for number, kind in enumerate((*TRAIN, DATA, FORWARD)):
        ring.put(begin_ns + number, kind, 1.0)
    engine._tick()
    assert engine.tally.steps == 1
    engine._sampler = Recorded(  # type: ignore[assignment]
        range(-2 * S, 150 * S, S // 10), range(150 * S, 300 * S, S // 10)
    )
    engine._tick()
    engine._tick()
    joules = engine._timeline.between(np.array([(begin_ns, begin_ns + 290 * S)]))
    assert joules == pytest.approx(290.0)


def test_a_step_is_recorded_under_the_clock_that_it_began_under(
    engine: Engine, ring: PhaseRing, tmp_path: Path
) -> None:
    began_ns = time.monotonic_ns() - 60 * S
    engine._builder.begin(306_000_000, began_ns + S)
    for second in (0, 2, 4):
        for number, kind in enumerate(TRAIN):
            ring.put(began_ns + second * S + number * MS, kind, 1.0)
    engine._tick()
    with engine._writer:
        pass  # what was recorded is on the disk
    # The second goes on from the first, before the change.
    steps = read_run(tmp_path / "run").steps
    assert steps["target_hz"].to_pylist() == [None, None, 306_000_000]
