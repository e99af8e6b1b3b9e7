"""What is observed of a run: sums, shares and alarms, with nothing made up where it is missing."""

import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from runs import tally_of
from trees import build_tree

from orin_gov._sampler import Samples
from orin_gov.board.probe import open_board
from orin_gov.measured import MeasuredStep
from orin_gov.observed import (
    Comparison,
    Conditions,
    decision_in_short,
    last_effect,
    pace,
    phase_share,
    rail_states,
    total_state,
)
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window
from orin_gov.sight import KEPT_STEPS, Sight
from orin_gov.tally import EpochRecord
from orin_gov.view.state import Effect, RailState
from orin_gov.workload.tracker import Span, Step

MHZ = 1_000_000
NONE = RailState(None, None, None)


def step(number: int, seconds: float, **phases: float) -> MeasuredStep:
    span = Span(2, 0, round(seconds * 1e9))
    return MeasuredStep(Step(number, (span,), None), phases, MappingProxyType({}), {}, None)  # type: ignore[arg-type]


def test_a_rail_has_its_mean_over_what_was_measured(tmp_path: Path) -> None:
    board = open_board(build_tree(tmp_path))
    labels = [rail.label for rail in board.rails]
    states = rail_states(
        board, (2.0, math.nan, 3.0, 4.0), (10.0, 8.0, 0.0, 4.0), (5.0, 4.0, 0.0, 2.0)
    )
    assert list(states) == labels
    assert states[labels[0]] == RailState(2.0, 2.0, 10.0)
    assert states[labels[1]] == RailState(None, 2.0, 8.0)
    assert states[labels[2]] == RailState(3.0, None, 0.0)
    assert rail_states(board, (), (), ()) == dict.fromkeys(labels, NONE)


def test_the_modules_power_is_known_only_with_all_its_rails() -> None:
    rails = {"a": RailState(1.0, 2.0, 3.0), "b": RailState(10.0, None, 30.0), "c": NONE}
    assert total_state(("a", "b"), rails) == RailState(11.0, None, 33.0)
    assert total_state(("a", "d"), rails) == NONE
    assert total_state(None, rails) == NONE
    assert total_state((), rails) == NONE


def test_pace_and_phases_are_those_of_the_last_steps() -> None:
    sight = Sight(Decision(State.WARMUP, None, "first"))
    assert pace(sight.steps) is None
    assert phase_share(sight.steps) == {}
    for number in range(KEPT_STEPS):
        sight.step(step(number, 100.0, data=100.0))
    for number in range(KEPT_STEPS):
        sight.step(step(number, 0.25, forward=0.05, backward=0.2))
    assert pace(sight.steps) == pytest.approx(4.0)
    assert phase_share(sight.steps) == pytest.approx({"forward": 0.2, "backward": 0.8})


def test_the_last_samples_are_seen_and_none_drained_changes_nothing() -> None:
    sight = Sight(Decision(State.WARMUP, None, "first"))

    def drained(t_ns: list[int], missing_ns: float) -> Samples:
        rows = len(t_ns)
        power = np.full((rows, 1), 5.0)
        energy = np.array(t_ns, dtype=float)[:, None] * 5e-9
        missing = np.full((rows, 1), missing_ns)
        return Samples(np.array(t_ns, dtype=np.int64), power, energy, missing)

    sight.samples(drained([0, 10**9], 0.0))
    sight.samples(drained([2 * 10**9, 4 * 10**9], 5e8))
    sight.samples(drained([], 0.0))
    assert (sight.power_w, sight.energy_j) == ((5.0,), (20.0,))
    assert sight.measured_s == pytest.approx((3.5,))


def test_a_rail_that_is_gone_or_came_late_is_taken_to_be_as_hungry_as_while_it_was_read() -> None:
    sight = Sight(Decision(State.WARMUP, None, "first"))
    t_ns = np.arange(101, dtype=np.int64) * 10**9
    power = np.full((101, 4), 10.0)
    power[41:, 1] = power[:60, 2] = power[:, 3] = np.nan  # gone, late, never there
    seconds = t_ns * 1e-9
    of_each = (seconds, np.minimum(40, seconds), np.maximum(0, seconds - 60), 0 * seconds)
    energy = 10.0 * np.stack(of_each, axis=1)
    for part in (slice(0, 30), slice(30, 90), slice(90, 101)):
        drained = Samples(t_ns[part], power[part], energy[part], np.zeros_like(power[part]))
        sight.samples(drained)
    assert sight.measured_s == pytest.approx((100.0, 40.0, 40.0, 0.0))
    labels = ["whole", "gone", "late", "never"]
    assert sight.module_energy_j(labels, labels[:3]) == pytest.approx(3000.0)
    assert sight.module_energy_j(labels, labels) is None


WINDOW = Window(0, 1, 2.5, 918 * MHZ, 10, 320.0, "unit of work", 80.0)


def record(number: int, decision: Decision, outcome: Outcome) -> EpochRecord:
    return EpochRecord(number, State.VERIFY, WINDOW, outcome, decision)


def test_an_effect_is_what_was_expected_beside_what_was_measured() -> None:
    asked = Decision(State.VERIFY, 918 * MHZ, "the tree", ("a",), 0.1, 0.02)
    hold = Decision(State.HOLD, 918 * MHZ, "so")
    before, after = Outcome(None, None, None), Outcome(0.03, 0.08, 0.08)
    epochs = [record(0, asked, before), record(1, hold, after)]
    assert last_effect(epochs) == Effect(918 * MHZ, 0.1, 0.02, 0.08, 0.03)
    # What was decided was not what was measured: another writer came between.
    other = Decision(State.VERIFY, 714 * MHZ, "the tree", (), 0.1, 0.02)
    assert last_effect([record(0, other, before), epochs[1]]) == Effect(
        918 * MHZ, None, None, 0.08, 0.03
    )
    assert last_effect(epochs[1:]) == Effect(918 * MHZ, None, None, 0.08, 0.03)
    assert last_effect([]) is None
    # A time per token says nothing about a time per busy cycle.
    by_time = replace(epochs[0], window=replace(WINDOW, unit="busy cycle"))
    assert last_effect([by_time, epochs[1]]) == Effect(918 * MHZ, 0.1, 0.02, None, None)


def test_a_decision_in_short_leaves_out_path_and_promise() -> None:
    asked = Decision(State.VERIFY, 918 * MHZ, "the tree", ("a",), 0.1, 0.02)
    assert decision_in_short(asked) == "verify 918 MHz: the tree"
    assert decision_in_short(Decision(State.FALLBACK, None, "why")) == "fallback own governor: why"


def test_the_saving_is_computed_anew_only_now_and_then() -> None:
    def epoch(number: int, state: State, target_hz: int | None, energy_j: float) -> EpochRecord:
        window = Window(0, 1, 2.5, target_hz, 10, 320.0, "unit of work", energy_j)
        outcome, decision = Outcome(None, None, None), Decision(State.HOLD, target_hz, "")
        return EpochRecord(number, state, window, outcome, decision)

    epochs = [epoch(each, State.BASELINE, None, 100.0 + each) for each in range(2)]
    comparison = Comparison()
    comparison.look(tally_of(epochs))
    assert (comparison.energy, comparison.governed, comparison.baseline) == (None, 0, 2)
    epochs += [epoch(each, State.HOLD, 918 * MHZ, 80.0 + each) for each in range(2)]
    comparison.look(tally_of(epochs))
    assert comparison.governed == 0  # it is not time yet
    later = Comparison()
    later.look(tally_of(epochs))
    assert (later.governed, later.baseline) == (2, 2)
    assert later.energy is not None
    assert later.energy["low"] < later.energy["value"] < later.energy["high"]
    assert later.energy["value"] == pytest.approx(-0.2, abs=0.01)


def test_over_current_events_and_cooling_are_alarms(tmp_path: Path) -> None:
    root = build_tree(tmp_path)
    counter = root / "sys/class/hwmon/hwmon9/oc3_event_cnt"
    counter.parent.mkdir(parents=True)
    (counter.parent / "name").write_text("soctherm_oc\n")
    counter.write_text("5\n")
    board = open_board(root)
    conditions = Conditions(board)
    conditions.look(board, 0)
    assert conditions.alarms == []  # what had happened before the run is none of it
    counter.write_text("7\n")
    cooling = root / "sys/class/thermal/cooling_device3"
    cooling.mkdir(parents=True)
    assert board.gpu is not None
    (cooling / "type").write_text(f"devfreq-{board.gpu.directory.name}\n")
    (cooling / "cur_state").write_text("2\n")
    conditions.look(board, 1)
    assert conditions.alarms == []  # these are read every two seconds
    conditions.look(board, 3 * 10**9)
    assert conditions.alarms == [
        "oc3: 2 over-current events",
        "the GPU is being cooled, its clock capped",
    ]
    assert conditions.governor == board.gpu.governor()
