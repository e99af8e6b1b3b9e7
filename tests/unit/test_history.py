"""What takes several windows: the sensitivity of time to the clock, and the highest rates seen."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.policy.history import History
from orin_gov.policy.window import Surroundings, Window

BARE = Surroundings()


def window(clock_hz: float | None, step_s: float, work: float = 100.0, **changes: object) -> Window:
    """Return a window of ten steps of `step_s` seconds and `work` tokens each."""
    made = Window(
        start_ns=0,
        end_ns=1,
        duration_s=10 * step_s,
        target_hz=None,
        steps=10,
        work=10 * work,
        unit="unit of work",
        energy_j=1.0,
        phase_time_s={"forward": 10 * step_s},
        frequency_hz=clock_hz,
        operations_per_step={"forward": 1e9},
        bytes_per_step={"forward": 1e8},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def sensitivities(*windows: Window) -> list[float | None]:
    history = History()
    return [history.complete(each, BARE).sensitivity for each in windows]


def test_one_clock_tells_no_sensitivity() -> None:
    assert sensitivities(*[window(1e9, 0.5)] * 3) == [None] * 3


@pytest.mark.parametrize(
    ("step_s", "sensitivity"), [(1.0, 1.0), (0.5, 0.0), (2**0.5 / 2, 0.5), (0.45, -0.152)]
)
def test_time_that_follows_the_clock_is_a_sensitivity_of_one(
    step_s: float, sensitivity: float
) -> None:
    _, found = sensitivities(window(1e9, 0.5), window(0.5e9, step_s))
    assert found == pytest.approx(sensitivity, abs=1e-3)


@given(st.floats(3e8, 1.3e9), st.floats(3e8, 1.3e9), st.floats(0.0, 1.0))
def test_the_order_of_two_clocks_does_not_matter(one: float, other: float, share: float) -> None:
    windows = [window(hz, (1e9 / hz) ** share) for hz in (one, other)]
    if max(one, other) / min(one, other) < 1.11:
        return
    assert sensitivities(*windows)[1] == pytest.approx(share, abs=1e-6)
    assert sensitivities(*reversed(windows))[1] == pytest.approx(share, abs=1e-6)


def test_neighbouring_clocks_tell_only_noise() -> None:
    assert sensitivities(window(1.0e9, 0.5), window(0.95e9, 0.5))[1] is None


def test_the_latest_window_at_another_clock_counts() -> None:
    found = sensitivities(window(1e9, 0.9), window(1e9, 0.5), window(0.5e9, 1.0))
    assert found[2] == pytest.approx(1.0)


@pytest.mark.parametrize("changes", [{"work": 3000.0}, {"unit": "step"}])
def test_steps_of_another_kind_are_not_compared(changes: dict[str, object]) -> None:
    assert sensitivities(window(1e9, 0.5), window(0.5e9, 1.0, **changes))[1] is None


@pytest.mark.parametrize("changes", [{"work": None}, {"frequency_hz": None}, {"work": 0.0}])
def test_a_window_that_lacks_something_tells_none_and_does_no_harm(
    changes: dict[str, object],
) -> None:
    lacking = replace(window(0.8e9, 0.7), **changes)  # type: ignore[arg-type]
    found = sensitivities(window(1e9, 0.5), lacking, window(0.5e9, 1.0))
    assert found[1] is None
    assert found[2] == pytest.approx(1.0)


def test_without_a_table_the_highest_rate_seen_is_the_peak() -> None:
    history = History()
    first = history.complete(window(1e9, 0.5), BARE).surroundings
    assert first.peak_operations_per_cycle == pytest.approx(1e9 / 0.5 / 1e9)
    assert first.peak_bytes_per_s == pytest.approx(1e8 / 0.5)
    slower = history.complete(window(1e9, 2.0), BARE).surroundings
    assert slower == first
    faster = history.complete(window(1e9, 0.25), BARE).surroundings
    assert faster.peak_bytes_per_s == pytest.approx(4e8)


def test_the_boards_own_peaks_stand() -> None:
    known = Surroundings(peak_operations_per_cycle=4096.0, peak_bytes_per_s=2e11)
    assert History().complete(window(1e9, 0.5), known).surroundings == known


def test_what_was_never_counted_has_no_peak() -> None:
    bare = window(1e9, 0.5, operations_per_step={}, bytes_per_step={})
    assert History().complete(bare, BARE).surroundings == BARE


@pytest.mark.parametrize("step_s", [0.3, 1.5])
def test_time_that_no_clock_explains_tells_nothing(step_s: float) -> None:
    assert sensitivities(window(1e9, 0.5), window(0.5e9, step_s))[1] is None


def test_cycles_tell_nothing_of_the_clock_that_counts_them() -> None:
    cycles = [window(hz, 1.0, work=hz, unit="busy cycle") for hz in (1e9, 0.9e9, 0.8e9)]
    assert sensitivities(*cycles) == [None] * 3
