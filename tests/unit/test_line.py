"""Lines in the work, fitted from sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.policy.line import NO_STEPS, Line, line_through, relative_error, sums_of

works = st.floats(1.0, 1e4)
steps = st.lists(st.tuples(works, works), min_size=2, max_size=30)


@given(st.lists(st.tuples(works, works), min_size=2, max_size=30))
def test_neither_part_of_the_line_is_negative(pairs: list[tuple[float, float]]) -> None:
    line = line_through(sums_of(*zip(*pairs, strict=True)))
    assert line.per_step >= 0
    assert line.per_unit >= 0
    assert line.per_step + line.per_unit > 0


def test_equal_works_give_a_proportional_line() -> None:
    assert line_through(sums_of([10, 10, 10], [1, 2, 3])) == Line(0.0, pytest.approx(0.2))


def test_steps_without_work_take_all_the_same() -> None:
    assert line_through(sums_of([0, 0], [1, 3])) == Line(2.0, 0.0)


@given(st.floats(0.1, 10.0), st.floats(0.001, 0.1), st.lists(works, min_size=3, max_size=30))
def test_a_line_is_found_again(per_step: float, per_unit: float, xs: list[float]) -> None:
    found = line_through(sums_of(xs, [per_step + per_unit * x for x in xs]))
    for x in xs:
        assert found.of(1, x) == pytest.approx(per_step + per_unit * x, rel=1e-3)


@given(steps)
def test_it_is_the_line_of_least_squares(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T
    line = line_through(sums_of(x, y))
    if line.per_step and line.per_unit and np.ptp(x) > 1e-3 * x.max():
        slope, start = np.polyfit(x, y, 1)
        assert line.per_unit == pytest.approx(slope, rel=1e-5)
        assert line.per_step == pytest.approx(start, rel=1e-5, abs=1e-5 * y.max())


@given(steps, steps)
def test_sums_of_parts_add_up(
    some: list[tuple[float, float]], others: list[tuple[float, float]]
) -> None:
    parts = [sums_of(*zip(*pairs, strict=True)) for pairs in (some, others)]
    whole = sums_of(*zip(*some, *others, strict=True))
    assert NO_STEPS.and_of(parts[0]).and_of(parts[1]) == pytest.approx(whole)


def test_the_noise_is_what_the_line_does_not_explain() -> None:
    rng = np.random.default_rng(1)
    tokens = rng.uniform(10, 200, 400)
    times = 0.2 + 0.001 * tokens
    assert relative_error(tokens, times) == pytest.approx(0, abs=1e-9)
    noisy = times * rng.normal(1, 0.05, 400)
    assert relative_error(tokens, noisy) == pytest.approx(0.05 / 20, rel=0.15)
    assert relative_error([5.0], [1.0]) is None
