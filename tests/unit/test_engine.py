"""The engine after a pause: what went by meanwhile is neither a clock's time nor a step."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from plants import POINTS, policy_of
from trees import AGX_CLOCKS, build_tree

from orin_gov._phases import STEP, PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.probe import open_board
from orin_gov.engine import Engine
from orin_gov.epoch import Epoch
from orin_gov.helm import Helm
from orin_gov.lookout import Lookout
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
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
