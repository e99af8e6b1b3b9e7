"""The figures of bench.counting, from rounds that are known."""

import pytest

pytest.importorskip("torch", reason="the bench counts steps of torch, which is not installed")

from bench.counting import Round, figures_of
from orin_gov.workload.schedule import COST, EVERY


def test_the_cost_is_the_extra_time_over_the_steps_until_the_next_count() -> None:
    figures = {each.name: each for each in figures_of([Round(0.1, 0.15, EVERY)] * 3)}
    cost = figures["counting_cost_percent"]
    assert cost.value == pytest.approx(100 * 0.05 / (0.1 * EVERY))
    assert (cost.bar, cost.ok) == ("<= 0.2", True)
    assert figures["first_count_repaid_after"].value == pytest.approx(0.05 / (COST * 0.1))
    assert figures["counted_step_extra_ms"].value == pytest.approx(50.0)


def test_counting_too_often_misses_the_bar() -> None:
    figures = {each.name: each for each in figures_of([Round(0.1, 0.4, EVERY)] * 3)}
    assert figures["counting_cost_percent"].ok is False
