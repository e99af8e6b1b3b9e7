"""What a run adds up to: its memory over a simulated day, and the summary it leads to."""

import time
import tracemalloc
from typing import Any

import pytest

from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.saving import relative_to_baseline
from orin_gov.policy.window import StepSample, Window
from orin_gov.tally import KEPT_WHOLE, EpochRecord, Tally

EPOCHS_OF_HOUR = 900
"""Of four seconds each: ten steps of 0.4 s."""


def record(number: int) -> EpochRecord:
    """Return an epoch as the engine makes it; every twentieth is one of the baseline."""
    own = number % 20 == 0
    factor = 1.0 if own else 0.9
    samples = [
        StepSample(32.0 + i, 0.4 + 1e-9 * number, 12.0 * factor + 0.01 * i) for i in range(10)
    ]
    window = Window(
        start_ns=number * 4 * 10**9,
        end_ns=(number + 1) * 4 * 10**9,
        duration_s=4.0 + 1e-9 * number,
        target_hz=None if own else 918_000_000,
        steps=10,
        work=sum(each.work for each in samples),
        unit="unit of work",
        energy_j=120.0 * factor + 1e-6 * number,
        rail_energy_j={f"rail{i}": 1.0 + number for i in range(4)},
        phase_time_s={f"phase{i}": 1.0 + number for i in range(5)},
        phase_energy_j={f"phase{i}": 1.0 + number for i in range(5)},
        samples=samples,
    )
    state = State.BASELINE if own else State.HOLD
    path = tuple(f"feature{i} {number / 7} > 1" for i in range(4))
    decision = Decision(state, None, f"{number}% gained, within budget", path)
    return EpochRecord(number, state, window, Outcome(0.0, 0.1, 0.1), decision)


def test_a_days_epochs_take_little_memory_and_lead_to_a_saving() -> None:
    tally = Tally()
    hours = 6
    tracemalloc.start()
    for number in range(hours * EPOCHS_OF_HOUR):
        tally.add_epoch(record(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 450_000
    # The last ones are whole: they are what is looked at while the run goes on.
    assert tally.recent == [record(hours * EPOCHS_OF_HOUR - n) for n in range(KEPT_WHOLE, 0, -1)]
    began_s = time.process_time()
    energy, _ = relative_to_baseline(*tally.windows())
    assert time.process_time() - began_s < 2.0
    assert energy is not None
    assert energy.low < -0.09 < energy.high or abs(energy.value + 0.1) < 0.02


def stepless(number: int, work: float | None) -> EpochRecord:
    """Return an epoch of a script without steps; the GPU has idled through one without work."""
    own = number % 20 == 0
    energy_j = 50.0 * (1.0 if own else 0.9) + 0.1 * (number % 7)
    target_hz = None if own else 918_000_000
    start_ns = number * 5 * 10**9
    window = Window(start_ns, start_ns + 5 * 10**9, 5.0, target_hz, 0, work, "busy cycle", energy_j)
    decision = Decision(State.HOLD, target_hz, "held")
    return EpochRecord(number, State.HOLD, window, Outcome(None, None, None), decision)


def test_windows_in_which_the_gpu_idled_cost_no_others_their_place_in_the_saving() -> None:
    tally = Tally()
    for number in range(6000):
        tally.add_epoch(stepless(number, None if number % 50 == 7 else 5e9))
    energy, _ = relative_to_baseline(*tally.windows())
    assert energy is not None
    assert energy.n_governed > 100
    assert energy.value == pytest.approx(-0.1, abs=0.01)


def test_a_window_that_is_put_away_while_windows_are_asked_for_does_not_count_twice() -> None:
    tally = Tally()
    for number in range(8):
        tally.add_epoch(stepless(number, 5e9))

    class Meanwhile(dict[Any, Any]):
        def items(self) -> Any:
            found = list(super().items())
            tally.add_epoch(stepless(8, 5e9))  # as the engine's thread may
            return found

    tally._series = Meanwhile(tally._series)
    starts_ns = [window.start_ns for side in tally.windows() for window in side]
    assert len(starts_ns) == len(set(starts_ns))


def test_the_saving_of_a_days_records_is_computed_in_a_moment() -> None:
    windows = [record(n).window for n in range(24 * EPOCHS_OF_HOUR)]
    governed = [each for each in windows if each.target_hz is not None]
    baseline = [each for each in windows if each.target_hz is None]
    began_s = time.process_time()
    energy, _ = relative_to_baseline(governed, baseline)
    assert time.process_time() - began_s < 10.0
    assert energy is not None
    assert energy.low < -0.09 < energy.high or abs(energy.value + 0.1) < 0.02
