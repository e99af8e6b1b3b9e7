"""The sweep: every point once a round, warmed up, cooled down, and gone on with."""

from collections import Counter

import pytest

from orin_gov.policy.decision import State
from orin_gov.policy.sweep import ALL_MEASURED, WARM_UP, Stop, Sweep, plan
from orin_gov.policy.window import Window

POINTS = (None, 306, 612, 1300)


def window(target_hz):
    return Window(0, 10**9, 1.0, target_hz, 10, 100.0, "tokens", 20.0)


class Board:
    """Does what the sweep asks, at temperatures that are given."""

    def __init__(self, stops, done=(), temperatures=()):
        self.taken, self.asked = [], []
        self._temperatures = list(temperatures)
        self.sweep = Sweep(stops, done, 306, self._temperature, self._record)

    def _temperature(self):
        return self._temperatures.pop(0) if self._temperatures else 50.0

    def _record(self, stop, found, temperature_c):
        self.taken.append((stop, found.target_hz))

    def run(self, most=1000):
        decision = self.sweep.first()
        while self.sweep.ended is None and len(self.asked) < most:
            assert decision.state is State.SWEEP
            self.asked.append(decision.target_hz)
            decision = self.sweep.decide(window(decision.target_hz))
        return decision


def test_every_round_visits_every_point_once_in_an_order_of_its_own():
    stops = plan(POINTS, 5, seed=0)
    rounds = [[stop.target_hz for stop in stops if stop.round == n] for n in range(5)]
    assert all(Counter(each) == Counter(POINTS) for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert [stop.round for stop in stops] == sorted(stop.round for stop in stops)
    assert stops == plan(POINTS, 5, seed=0) != plan(POINTS, 5, seed=1)


def test_all_is_measured_at_the_point_that_was_asked_for_and_the_board_given_back():
    board = Board(plan(POINTS, 3, seed=0))
    last = board.run()
    assert [stop for stop, _ in board.taken] == plan(POINTS, 3, seed=0)
    assert all(stop.target_hz == target for stop, target in board.taken)
    assert (board.sweep.ended, board.sweep.left, last.target_hz) == (ALL_MEASURED, 0, None)


def test_the_first_windows_warm_up_and_are_no_measurements():
    board = Board(plan(POINTS, 1, seed=0))
    board.run()
    assert len(board.asked) == WARM_UP + len(POINTS)
    assert len(set(board.asked[: WARM_UP + 1])) == 1


def test_what_was_measured_before_is_left_out():
    stops = plan(POINTS, 2, seed=0)
    board = Board(stops, done=set(stops[:5]))
    board.run()
    assert [stop for stop, _ in board.taken] == stops[5:]


def test_with_nothing_left_it_asks_for_nothing():
    stops = plan(POINTS, 1, seed=0)
    sweep = Board(stops, done=set(stops)).sweep
    assert sweep.ended == ALL_MEASURED
    assert sweep.first().target_hz is None


def test_a_hot_gpu_cools_at_the_lowest_point_until_seventy_degrees():
    stops = [Stop(1300, n) for n in range(3)]
    board = Board(stops, temperatures=[50, 50, 76, 74, 71, 70, 60])
    board.run()
    assert board.asked[: WARM_UP + 1] == [1300] * 3
    assert board.asked[WARM_UP + 1 : WARM_UP + 4] == [306] * 3
    assert [stop for stop, _ in board.taken] == stops
    assert all(target == 1300 for _, target in board.taken)


def test_above_eighty_five_degrees_it_ends_and_tells_why():
    board = Board(plan(POINTS, 2, seed=0), temperatures=[50, 50, 50, 86])
    last = board.run()
    assert "86 deg C" in board.sweep.ended
    assert board.sweep.left == 2 * len(POINTS) - len(board.taken) == 6
    assert last.target_hz is None


def test_without_a_thermometer_it_sweeps_on():
    board = Board(plan(POINTS, 1, seed=0), temperatures=[None] * 20)
    board.run()
    assert len(board.taken) == len(POINTS)


def test_when_the_board_is_lost_it_measures_no_more():
    board = Board(plan(POINTS, 1, seed=0))
    board.run(most=3)
    before = len(board.taken)
    board.sweep.fall_back()
    board.sweep.decide(window(306))
    assert len(board.taken) == before
    assert board.sweep.ended == "the board was left to its own governor"


def test_an_outcome_is_not_claimed():
    outcome = Board(plan(POINTS, 1, seed=0)).sweep.outcome(window(306))
    assert (outcome.slowdown, outcome.saving, outcome.gain) == (None, None, None)
    assert outcome.margin == pytest.approx(0.01)
