"""From marks to steps: what belongs to a step, and what a script may write without harm."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov._phases import BREAK, STEP
from orin_gov.phases import (
    BACKWARD,
    CHECKPOINT,
    DATA,
    EPOCH_END,
    EVAL,
    FORWARD,
    IDLE,
    OPTIMIZER,
    PHASES,
)
from orin_gov.workload.tracker import MARK, MOST_SPANS, Span, Step, StepTracker

NAN = float("nan")
TRAIN = [DATA, FORWARD, BACKWARD, OPTIMIZER]


def marks(*kinds: int, begin_ns: int = 0, work: float = NAN) -> npt.NDArray[np.void]:
    """Return one mark every 10 ns, a step's with `work`."""
    rows = [(begin_ns + 10 * i, kind, work) for i, kind in enumerate(kinds)]
    return np.array(rows, dtype=MARK)


def steps_of(*kinds: int, **options: float) -> list[Step]:
    return StepTracker().feed(marks(*kinds, **options))  # type: ignore[arg-type]


def phases(step: Step) -> list[int]:
    return [span.phase for span in step.spans]


def test_a_loop_of_steps_is_cut_at_each_step_mark() -> None:
    first, second = steps_of(*TRAIN, STEP, *TRAIN, STEP, work=64.0)
    assert (first.number, second.number) == (0, 1)
    assert phases(first) == TRAIN
    # Whatever runs on from the step mark belongs to the next step.
    assert phases(second) == [OPTIMIZER, *TRAIN]
    assert (first.begin_ns, first.end_ns, second.begin_ns, second.end_ns) == (0, 40, 40, 90)
    assert first.duration_s == pytest.approx(40e-9)
    assert first.work == second.work == 64.0


def test_what_was_under_way_when_marks_were_lost_is_no_step() -> None:
    tracker = StepTracker()
    (first,) = tracker.feed(marks(*TRAIN, STEP, DATA, FORWARD, work=1.0))
    tracker.break_off()
    # Hours may lie between, and the first marks after them may be the midst of a step.
    late = marks(BACKWARD, OPTIMIZER, STEP, *TRAIN, STEP, begin_ns=10**15, work=2.0)
    (second,) = tracker.feed(late)
    assert (first.number, second.number) == (0, 1)
    assert second.duration_s == pytest.approx(50e-9)
    assert second.work == 2.0


def test_a_step_does_not_go_from_one_process_to_another() -> None:
    found = steps_of(*TRAIN, STEP, FORWARD, BREAK, *TRAIN, STEP, *TRAIN, STEP)
    assert [phases(step) for step in found] == [TRAIN, [OPTIMIZER, *TRAIN]]


def test_marks_may_come_in_any_portions() -> None:
    whole = marks(IDLE, *TRAIN, IDLE, STEP, *TRAIN, IDLE, STEP, *TRAIN, STEP, work=3.0)
    expected = StepTracker().feed(whole)
    for cut in range(len(whole) + 1):
        tracker = StepTracker()
        assert tracker.feed(whole[:cut]) + tracker.feed(whole[cut:]) == expected


def test_host_gaps_inside_a_step_are_idle_time_of_it() -> None:
    (step,) = steps_of(DATA, IDLE, FORWARD, IDLE, BACKWARD, OPTIMIZER, IDLE, STEP)
    assert phases(step) == [DATA, IDLE, FORWARD, IDLE, BACKWARD, OPTIMIZER, IDLE]


def test_gradient_accumulation_is_one_step_with_several_forwards() -> None:
    micro = [DATA, FORWARD, BACKWARD]
    (step,) = steps_of(*micro, *micro, *micro, OPTIMIZER, STEP)
    assert phases(step) == [*micro, *micro, *micro, OPTIMIZER]


def test_what_precedes_the_very_first_step_is_not_part_of_it() -> None:
    tracker = StepTracker()
    start_up = marks(IDLE)
    step = tracker.feed(np.concatenate([start_up, marks(*TRAIN, STEP, begin_ns=10**12)]))[0]
    assert step.begin_ns == 10**12
    assert phases(step) == TRAIN


@pytest.mark.parametrize("around", [EVAL, CHECKPOINT])
def test_evaluation_and_checkpoints_stand_between_steps(around: int) -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, IDLE, STEP))
    between = [DATA, around, IDLE, DATA, around, IDLE, around]
    (step,) = tracker.feed(marks(*between, *TRAIN, IDLE, STEP, begin_ns=60))
    assert phases(step) == [*TRAIN, IDLE]
    assert step.begin_ns == 60 + 10 * len(between)


def test_a_sanity_check_before_the_first_step_is_not_part_of_it() -> None:
    (step,) = steps_of(IDLE, DATA, EVAL, IDLE, *TRAIN, STEP)
    assert phases(step) == TRAIN


def test_a_checkpoint_after_the_forward_is_cut_out_of_the_step() -> None:
    (step,) = steps_of(DATA, FORWARD, CHECKPOINT, BACKWARD, OPTIMIZER, STEP)
    assert phases(step) == TRAIN
    assert step.duration_s == pytest.approx(40e-9)
    assert step.end_ns - step.begin_ns == 50


def test_a_teachers_forward_after_the_data_is_part_of_the_step() -> None:
    tracker = StepTracker()
    distil = [DATA, IDLE, EVAL, IDLE, FORWARD, BACKWARD, OPTIMIZER, STEP]
    assert phases(tracker.feed(marks(*distil))[0]) == [
        DATA,
        IDLE,
        FORWARD,
        IDLE,
        FORWARD,
        BACKWARD,
        OPTIMIZER,
    ]
    (second,) = tracker.feed(marks(*distil, begin_ns=80))
    assert EVAL not in phases(second)
    assert second.begin_ns == 70


def test_an_evaluation_is_not_taken_for_a_teacher() -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, STEP))
    (step,) = tracker.feed(marks(DATA, EVAL, DATA, EVAL, *TRAIN, STEP, begin_ns=50))
    assert phases(step) == TRAIN


END_OF_DATA = [DATA, EPOCH_END, IDLE]


@pytest.mark.parametrize("then", [TRAIN, [DATA, EVAL], [CHECKPOINT]])
def test_a_training_epoch_ends_after_the_step_before_the_end_of_its_data(then: list[int]) -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, IDLE, STEP, *TRAIN, STEP, *END_OF_DATA))
    assert tracker.epoch_ended_after == 0  # the data of a batch yet to be trained, perhaps
    (*_, last) = marks(*then, begin_ns=200)
    tracker.feed(marks(*then, begin_ns=200))
    assert last["kind"] != STEP
    assert tracker.epoch_ended_after == 2


def test_a_loader_that_fetches_ahead_ends_before_the_last_step() -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, STEP, *END_OF_DATA, FORWARD, BACKWARD, OPTIMIZER))
    assert tracker.epoch_ended_after == 0
    tracker.feed(marks(STEP, begin_ns=200))
    assert tracker.epoch_ended_after == 2
    tracker.feed(marks(*TRAIN, STEP, begin_ns=300))
    assert tracker.epoch_ended_after == 2


def test_the_end_of_an_evaluations_data_ends_no_training_epoch() -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, STEP, DATA, EVAL, IDLE, *END_OF_DATA, *TRAIN, STEP))
    assert (tracker.epoch_ended_after, tracker.steps) == (0, 2)


def test_data_that_end_before_any_step_end_no_training_epoch() -> None:
    tracker = StepTracker()
    tracker.feed(marks(*END_OF_DATA, *END_OF_DATA, *TRAIN, STEP))
    assert tracker.epoch_ended_after == 0


def test_two_step_marks_at_once_are_one_step() -> None:
    rows = [(0, FORWARD, NAN), (10, STEP, 5.0), (10, STEP, NAN)]
    (step,) = StepTracker().feed(np.array(rows, dtype=MARK))
    assert step.work == 5.0


@pytest.mark.parametrize("work", [NAN, 0.0, -1.0, float("inf"), float("-inf")])
def test_work_that_makes_no_sense_is_unknown(work: float) -> None:
    assert steps_of(FORWARD, STEP, work=work)[0].work is None


def test_an_unknown_kind_is_skipped() -> None:
    (step,) = steps_of(FORWARD, 57, -1, STEP + 9, len(PHASES), STEP)
    assert step.spans == (Span(FORWARD, 0, 50),)


def test_a_mark_that_goes_back_in_time_is_skipped() -> None:
    rows = [(100, FORWARD, NAN), (50, BACKWARD, NAN), (200, OPTIMIZER, NAN), (300, STEP, NAN)]
    (step,) = StepTracker().feed(np.array(rows, dtype=MARK))
    assert step.spans == (Span(FORWARD, 100, 200), Span(OPTIMIZER, 200, 300))


def test_a_step_without_any_time_is_no_step() -> None:
    tracker = StepTracker()
    assert tracker.feed(marks(STEP)) == []
    assert tracker.feed(marks(IDLE, STEP, begin_ns=10)) == []
    assert tracker.steps == 0


def test_an_evaluation_without_end_is_not_kept_and_the_step_after_it_counts() -> None:
    tracker = StepTracker()
    tracker.feed(marks(DATA, FORWARD, BACKWARD, STEP))
    after_ns = 10**6
    for _ in range(30):
        rounds = marks(*[EVAL, DATA] * 5000, begin_ns=after_ns)
        after_ns = int(rounds["t_ns"][-1]) + 1
        assert tracker.feed(rounds) == []
        assert len(tracker._spans) <= MOST_SPANS
    (step,) = tracker.feed(marks(EVAL, DATA, FORWARD, BACKWARD, STEP, begin_ns=after_ns))
    assert phases(step) == [DATA, FORWARD, BACKWARD]


def test_a_step_of_more_phases_than_are_kept_is_no_step() -> None:
    tracker = StepTracker()
    rounds = marks(*[FORWARD, BACKWARD] * MOST_SPANS)
    assert tracker.feed(rounds) == []
    after = int(rounds["t_ns"][-1])
    assert tracker.feed(marks(FORWARD, STEP, begin_ns=after + 1)) == []
    (step,) = tracker.feed(marks(FORWARD, STEP, begin_ns=after + 10**6))
    assert step.number == 0


KINDS = st.sampled_from([*range(len(PHASES)), STEP]) | st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(0, 1000) | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(TIMES, KINDS, st.floats()), max_size=60), st.integers(0, 60))
@settings(max_examples=300, deadline=None)
def test_no_marks_break_the_tracker_or_the_order_of_time(
    rows: list[tuple[int, int, float]], cut: int
) -> None:
    tracker = StepTracker()
    steps = [
        step
        for part in (rows[:cut], rows[cut:])
        for step in tracker.feed(np.array(part, dtype=MARK))
    ]
    spans = [span for step in steps for span in step.spans]
    assert all(span.begin_ns < span.end_ns for span in spans)
    assert all(a.end_ns <= b.begin_ns for a, b in pairwise(spans))
    assert all(span.phase not in (EVAL, CHECKPOINT) for span in spans)
    assert [step.number for step in steps] == list(range(len(steps)))
    assert all(step.work is None or 0 < step.work < float("inf") for step in steps)


@given(st.lists(st.sampled_from([IDLE, *TRAIN, EVAL, CHECKPOINT, STEP]), max_size=40))
@settings(max_examples=300, deadline=None)
def test_a_step_does_not_begin_before_it_was_said_to_be_open(kinds: list[int]) -> None:
    tracker = StepTracker()
    for mark in marks(*kinds, STEP):
        open_ns = tracker.open_since_ns
        for step in tracker.feed(np.array([mark])):
            assert open_ns is not None
            assert open_ns <= step.begin_ns


def test_an_evaluation_of_hours_is_no_open_step() -> None:
    tracker = StepTracker()
    tracker.feed(marks(*TRAIN, STEP, *[DATA, EVAL, IDLE] * 1000, DATA, begin_ns=100))
    assert tracker.open_since_ns is not None
    assert tracker.open_since_ns > 100 + 10 * 2990
