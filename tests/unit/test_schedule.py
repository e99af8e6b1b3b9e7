"""When a step is counted: never at more cost than its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.workload.schedule import COST, EVERY, FIRST, RECENT, Schedule


def counted_steps(schedule: Schedule, steps: int, extra_s: float, step_s: float = 0.1) -> list[int]:
    """Return the numbers, from 1, of the steps that are counted, each `extra_s` longer."""
    found, counting = [], False
    for number in range(1, steps + 1):
        if counting:
            found.append(number)
        busy_s = step_s + extra_s * counting
        counting = schedule.end_step(busy_s, 64.0, extra_s if counting else None)
    return found


def test_the_first_count_comes_early_and_the_next_ones_rarely() -> None:
    expected = [FIRST + EVERY * i for i in range(4)]
    assert counted_steps(Schedule(), 2000, 0.01) == expected


def test_what_counting_costs_more_is_counted_more_rarely() -> None:
    # A step in which counting takes three times as long as the step itself.
    counted = counted_steps(Schedule(), 3200, 0.3)
    assert counted == pytest.approx([FIRST, FIRST + 1500, FIRST + 3000], abs=2)


@given(st.floats(1e-5, 1.0), st.floats(1e-3, 1.0))
def test_counting_costs_its_share_at_most_once_the_first_count_is_repaid(
    extra_s: float, step_s: float
) -> None:
    steps = 3000
    counted = counted_steps(Schedule(), steps, extra_s, step_s)
    repaid = [number for number in counted if number > FIRST]
    assert len(repaid) * extra_s <= COST * steps * step_s * (1 + 1e-6)


def test_an_extra_that_was_told_too_low_shows_in_the_steps_around() -> None:
    schedule = Schedule()
    for _ in range(FIRST - 1):
        schedule.end_step(0.1, 64.0, None)
    schedule.end_step(0.6, 64.0, 0.01)
    assert schedule.extra_s == pytest.approx(0.5)
    assert schedule.interval == pytest.approx(0.5 / (COST * 0.1), abs=1)


def steps_until_due(schedule: Schedule, work: float, at_most: int) -> int | None:
    for number in range(1, at_most):
        if schedule.end_step(0.1, work, None):
            return number
    return None


@pytest.mark.parametrize(("work", "due"), [(64.0, None), (90.0, None), (128.0, 50), (32.0, 50)])
def test_a_step_of_another_shape_is_counted_as_soon_as_the_last_count_is_repaid(
    work: float, due: int | None
) -> None:
    schedule = Schedule()
    for _ in range(FIRST - 1):
        schedule.end_step(0.1, 64.0, None)
    schedule.end_step(0.11, 64.0, 0.01)  # 10 % of a step: repaid after 50
    found = steps_until_due(schedule, work, 400)
    assert found == (due and pytest.approx(due, abs=2))


def test_lengths_that_vary_from_batch_to_batch_are_no_other_shape() -> None:
    schedule = Schedule()
    for _ in range(FIRST - 1):
        schedule.end_step(0.1, 64.0, None)
    schedule.end_step(0.1, 64.0, 1e-6)
    varied = (40.0, 64.0, 130.0, 64.0, 90.0)
    assert not any(schedule.end_step(0.1, work, None) for work in varied * (3 * RECENT))


def test_work_that_is_not_known_calls_for_nothing() -> None:
    schedule = Schedule()
    for _ in range(FIRST - 1):
        schedule.end_step(0.1, 0.0, None)
    schedule.end_step(0.1, 0.0, 1e-6)
    assert steps_until_due(schedule, 0.0, EVERY - 1) is None
