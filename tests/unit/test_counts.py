"""Counts of a step: the marks that carry them, and what a step of other work does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov._phases import STEP
from orin_gov.counts import (
    BYTES,
    LAUNCHES,
    OPERATIONS,
    SHAPED_OPERATIONS,
    Counts,
    kind_of,
    parse_kind,
)
from orin_gov.phases import BACKWARD, DATA, FORWARD, OPTIMIZER, PHASES
from orin_gov.workload.tracker import MARK, StepTracker

NAN = float("nan")


def track(*rows: tuple[int, int, float]):
    return StepTracker().feed(np.array(list(rows), dtype=MARK))


@pytest.mark.parametrize("quantity", [OPERATIONS, BYTES, LAUNCHES, SHAPED_OPERATIONS])
@pytest.mark.parametrize("phase", range(len(PHASES)))
def test_a_marks_kind_tells_phase_and_quantity(phase: int, quantity: int) -> None:
    assert parse_kind(kind_of(phase, quantity)) == (phase, quantity)


def test_no_other_mark_is_taken_for_a_count() -> None:
    counts = {kind_of(phase, each) for phase in range(len(PHASES)) for each in range(4)}
    assert len(counts) == 4 * len(PHASES)
    for kind in (*range(len(PHASES)), STEP, min(counts) - 1, max(counts) + 1, -1, 2**62):
        assert parse_kind(kind) is None


def test_the_counts_between_two_steps_are_those_of_the_second() -> None:
    first, second, third = track(
        (0, FORWARD, NAN),
        (10, STEP, 4.0),
        (10, FORWARD, NAN),
        (15, kind_of(FORWARD, OPERATIONS), 1e9),
        (15, kind_of(FORWARD, BYTES), 2e6),
        (15, kind_of(OPTIMIZER, LAUNCHES), 7.0),
        (20, STEP, 8.0),
        (30, STEP, 8.0),
    )
    assert first.counts is None
    assert second.counts == Counts({"forward": 1e9}, {"forward": 2e6}, {"optimizer": 7.0}, 8.0)
    assert third.counts is None


def test_a_count_is_no_edge_of_a_span() -> None:
    (step,) = track((0, FORWARD, NAN), (5, kind_of(FORWARD, BYTES), 1.0), (10, STEP, NAN))
    assert [(span.begin_ns, span.end_ns) for span in step.spans] == [(0, 10)]


@pytest.mark.parametrize("value", [NAN, -1.0, math.inf, -math.inf])
def test_a_count_that_makes_no_sense_is_left_out(value: float) -> None:
    (step,) = track((0, FORWARD, NAN), (5, kind_of(FORWARD, BYTES), value), (10, STEP, NAN))
    assert step.counts is None


def test_operations_by_shapes_say_so() -> None:
    (step,) = track(
        (0, FORWARD, NAN), (5, kind_of(BACKWARD, SHAPED_OPERATIONS), 5.0), (10, STEP, NAN)
    )
    assert step.counts == Counts({"backward": 5.0}, by_shapes=True)


COUNTED = Counts(
    {"forward": 10.0, "backward": 20.0, "optimizer": 0.0},
    {"forward": 4.0, "backward": 8.0, "optimizer": 6.0},
    {"forward": 3.0, "backward": 5.0, "optimizer": 2.0},
    work=100.0,
)


def test_a_step_of_twice_the_work_does_twice_as_much_but_for_its_optimizer_and_launches() -> None:
    twice = COUNTED.at_work(200.0)
    assert twice.operations == {"forward": 20.0, "backward": 40.0, "optimizer": 0.0}
    assert twice.moved == {"forward": 8.0, "backward": 16.0, "optimizer": 6.0}
    assert twice.launches == COUNTED.launches


@given(st.none() | st.just(0.0) | st.floats(1e-3, 1e12))
def test_counts_of_any_work_come_back(work: float | None) -> None:
    there = COUNTED.at_work(work)
    back = there.at_work(100.0)
    assert back.operations == pytest.approx(dict(COUNTED.operations))
    assert back.moved == pytest.approx(dict(COUNTED.moved))


def test_data_has_no_counts_of_its_own() -> None:
    assert PHASES[DATA] not in COUNTED.operations
