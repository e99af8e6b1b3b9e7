"""The energy timeline: exact where it was measured, missing (never zero) where it was not."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov._sampler import Samples
from orin_gov.energy import KEEP_NS, LONGEST_HOLE, MOST_KEPT_NS, EnergyTimeline

MS = 1_000_000
PERIOD_NS = 5 * MS
GAP_NS = 100 * MS
NAN = float("nan")
START_NS = 10**15  # far from zero, as a clock is after days of uptime


def record(
    power_w: Sequence[Callable[[float], float]],
    n: int,
    unread: Callable[[int, int], bool] = lambda i, rail: False,
    start_ns: int = START_NS,
) -> Samples:
    """Return what the sampler says of rails with the power power_w(seconds), by its own rules:
    trapezoids between good readings, nothing across more than GAP_NS."""
    t_ns = start_ns + PERIOD_NS * np.arange(n, dtype=np.int64)
    shape = (n, len(power_w))
    power, energy, missing = np.full(shape, NAN), np.zeros(shape), np.zeros(shape)
    for rail, of in enumerate(power_w):
        last, joules, hole = None, 0.0, 0.0
        for i in range(n):
            if not unread(i, rail):
                power[i, rail] = of(i * PERIOD_NS * 1e-9)
                span_ns = 0 if last is None else PERIOD_NS * (i - last)
                if span_ns > GAP_NS:
                    hole += span_ns
                elif last is not None:
                    joules += 0.5 * (power[i, rail] + power[last, rail]) * span_ns * 1e-9
                last = i
            energy[i, rail], missing[i, rail] = joules, hole
    return Samples(t_ns, power, energy, missing)


def timeline(samples: Samples, chunk: int | None = None) -> EnergyTimeline:
    found = EnergyTimeline(tuple(f"rail {i}" for i in range(samples.power_w.shape[1])))
    for begin in range(0, len(samples.t_ns), chunk or len(samples.t_ns)):
        end = begin + (chunk or len(samples.t_ns))
        found.append(Samples(*(column[begin:end] for column in samples)))
    return found


def spans(*edges_ms: tuple[float, float]) -> npt.NDArray[np.int64]:
    """Return spans given in milliseconds since the start."""
    return np.array([[START_NS + round(edge * MS) for edge in pair] for pair in edges_ms])


@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_constant_power_is_exact_between_any_two_moments(chunk: int | None) -> None:
    found = timeline(record([lambda s: 30.0, lambda s: 4.0], 100), chunk)
    joules = found.between(spans((0, 495), (1.25, 3.5), (17.3, 17.4), (123.456, 321.0)))
    seconds = [0.495, 0.00225, 0.0001, 0.197544]
    np.testing.assert_allclose(joules[:, 0], 30.0 * np.array(seconds), rtol=1e-9)
    np.testing.assert_allclose(joules[:, 1], 4.0 * np.array(seconds), rtol=1e-9)


def test_changing_power_is_integrated_not_averaged() -> None:
    # A ramp: the integral of 10 + 40 s is 10 s + 20 s^2; between readings it is a line.
    found = timeline(record([lambda s: 10 + 40 * s], 201), chunk=10)
    (joules,) = found.between(spans((100, 900)))
    assert joules[0] == pytest.approx(10 * 0.8 + 20 * (0.81 - 0.01), rel=1e-9)


@given(st.lists(st.integers(0, 495 * MS), min_size=3, max_size=3).map(sorted))
@settings(max_examples=50, deadline=None)
def test_the_parts_of_a_span_add_up(cut: list[int]) -> None:
    found = timeline(record([lambda s: 20 + 15 * np.sin(30 * s)], 100), chunk=9)
    a, b, c = (START_NS + t for t in cut)
    first, second, whole = found.between(np.array([(a, b), (b, c), (a, c)]))[:, 0]
    assert first + second == pytest.approx(whole, abs=1e-9)


def test_a_rail_that_was_never_read_is_missing_and_not_zero() -> None:
    found = timeline(record([lambda s: 30.0, lambda s: 4.0], 100, lambda i, rail: rail == 1), 10)
    joules = found.between(spans((10, 20), (0, 495), (100.5, 101)))
    assert np.isfinite(joules[:, 0]).all()
    assert np.isnan(joules[:, 1]).all()


@pytest.mark.parametrize(("length_ms", "missing"), [(2000, True), (2800, False)])
def test_more_than_5_percent_unmeasured_is_missing(length_ms: int, missing: bool) -> None:
    # Readings 100 to 124 fail: 130 ms between good ones, which is 6.5 % of 2 s, 4.6 % of 2.8 s.
    samples = record([lambda s: 30.0], 800, lambda i, rail: 100 <= i < 125)
    hole_ms = 26 * PERIOD_NS / MS
    assert (hole_ms / length_ms > LONGEST_HOLE) == missing
    (joules,) = timeline(samples, 10).between(spans((200, 200 + length_ms)))
    if missing:
        assert np.isnan(joules[0])
    else:
        assert joules[0] == pytest.approx(30.0 * length_ms * 1e-3)


def test_every_span_inside_a_hole_is_missing() -> None:
    samples = record([lambda s: 30.0], 300, lambda i, rail: 100 <= i < 140)
    joules = timeline(samples, 10).between(
        spans((500, 600), (600, 605), (695, 700), (496, 497), (450, 495), (700, 750))
    )[:, 0]
    assert np.isnan(joules[:4]).all()
    assert joules[4:] == pytest.approx([30.0 * 0.045, 30.0 * 0.05])


@pytest.mark.parametrize("failing", [1, 3, 15])
def test_a_short_failure_is_bridged_and_counted_once(failing: int) -> None:
    samples = record([lambda s: 30.0], 100, lambda i, rail: 40 <= i < 40 + failing)
    found = timeline(samples, 10)
    # Just before, within, right after, and across the readings that failed.
    edges = [(195.0, 197.0), (200.0, 201.0), (195.0 + 5 * failing, 200.0 + 5 * failing), (150, 400)]
    joules = found.between(spans(*edges))[:, 0]
    assert joules == pytest.approx([30e-3 * (end - begin) for begin, end in edges])


def test_a_span_outside_what_is_kept_is_missing() -> None:
    found = timeline(record([lambda s: 30.0], 100))
    joules = found.between(spans((-5, 5), (490, 500), (-20, -10), (600, 700), (0, 495)))
    assert np.isnan(joules[:4]).all()
    assert np.isfinite(joules[4]).all()


def test_a_span_before_a_rails_first_reading_or_after_its_last_is_missing() -> None:
    samples = record(
        [lambda s: 30.0, lambda s: 30.0], 100, lambda i, r: r == 1 and not 20 <= i < 80
    )
    joules = timeline(samples, 10).between(spans((50, 150), (150, 350), (350, 450)))
    assert np.isfinite(joules[:, 0]).all()
    assert np.isnan(joules[:, 1]).tolist() == [True, False, True]


def minutes_of(
    seconds: int, since_ns: int | None = None, cycle_ns: int = 0
) -> tuple[EnergyTimeline, int]:
    """Return a timeline that was told a second at a time, and its newest moment."""
    found = EnergyTimeline(("rail",), cycle_ns)
    second = 1000 * MS
    for i in range(seconds):
        t_ns = START_NS + np.array([i * second, i * second + second // 2])
        joules = np.array([[30.0 * i], [30.0 * i + 15.0]])
        found.append(Samples(t_ns, np.full((2, 1), 30.0), joules, np.zeros((2, 1))), since_ns)
    return found, START_NS + seconds * second - second // 2


def test_what_is_older_than_two_minutes_is_let_go() -> None:
    second = 1000 * MS
    found, newest_ns = minutes_of(130)
    kept_ns = newest_ns - KEEP_NS
    joules = found.between(np.array([(START_NS, START_NS + second), (kept_ns, kept_ns + second)]))
    assert np.isnan(joules[0, 0])
    assert joules[1, 0] == pytest.approx(30.0)


@pytest.mark.parametrize("cycle_ns", [0, 6_600_000, 500 * MS])
def test_what_is_still_asked_for_is_kept_for_longer(cycle_ns: int) -> None:
    begin_ns = START_NS + 5000 * MS
    found, _ = minutes_of(400, begin_ns, cycle_ns)
    end_ns = found.covered_until_ns
    assert end_ns is not None
    (joules,) = found.between(np.array([(begin_ns, end_ns)]))
    assert joules[0] == pytest.approx(30e-9 * (end_ns - begin_ns))


def test_nothing_is_kept_for_ever() -> None:
    second = 1000 * MS
    found, newest_ns = minutes_of(1000, START_NS)
    kept_ns = newest_ns - MOST_KEPT_NS
    joules = found.between(np.array([(START_NS, START_NS + second), (kept_ns, newest_ns)]))
    assert np.isnan(joules[0, 0])
    assert joules[1, 0] == pytest.approx(30e-9 * MOST_KEPT_NS)


def test_nothing_measured_and_no_rails_are_no_fault() -> None:
    assert np.isnan(EnergyTimeline(("a", "b")).between(spans((0, 1), (1, 2)))).all()
    assert EnergyTimeline(("a",)).covered_until_ns is None
    empty = record([lambda s: 1.0], 0)
    assert timeline(record([lambda s: 1.0], 2)).between(spans()[:0].reshape(0, 2)).shape == (0, 1)
    found = EnergyTimeline(("a",))
    found.append(empty)
    assert found.covered_until_ns is None
    bare = EnergyTimeline(())
    bare.append(Samples(np.array([START_NS]), *(np.zeros((1, 0)) for _ in range(3))))
    assert bare.between(spans((0, 1))).shape == (1, 0)
    assert bare.covered_until_ns == START_NS


def test_a_rail_that_just_failed_is_waited_for_and_a_silent_one_is_not() -> None:
    both = [lambda s: 30.0, lambda s: 4.0]
    just = timeline(record(both, 100, lambda i, rail: rail == 1 and i >= 98), 10)
    assert just.covered_until_ns == START_NS + 97 * PERIOD_NS
    silent = timeline(record(both, 400, lambda i, rail: rail == 1 and i >= 98), 10)
    assert silent.covered_until_ns == START_NS + 399 * PERIOD_NS
    assert timeline(record(both, 9)).covered_until_ns == START_NS + 8 * PERIOD_NS


# Sensors that show the mean over a conversion cycle, until the next one is over.

CYCLE_NS = 6_600_000


def converted(power_w: Sequence[float], length_ns: int, period_ns: int) -> Samples:
    """Return the samples of one rail whose power is each of `power_w` for `length_ns`."""
    edges = START_NS + length_ns * np.arange(len(power_w) + 1)
    energy = np.concatenate([[0.0], np.cumsum(np.array(power_w) * length_ns * 1e-9)])
    ends = np.arange(START_NS + 2_000_000, edges[-1], CYCLE_NS)
    shown = np.diff(np.interp(ends - START_NS, edges - START_NS, energy)) / (CYCLE_NS * 1e-9)
    t_ns = np.arange(ends[1], edges[-1], period_ns)
    read = shown[np.searchsorted(ends[1:], t_ns, side="right") - 1]
    joules = np.concatenate([[0.0], np.cumsum(0.5 * (read[1:] + read[:-1]) * period_ns * 1e-9)])
    return Samples(t_ns, read[:, None], joules[:, None], np.zeros((len(t_ns), 1)))


def phases_of(found: EnergyTimeline, length_ns: int, n: int) -> npt.NDArray[np.float64]:
    """Return the joules of the n phases but the first two and the last two."""
    edges = START_NS + length_ns * np.arange(2, n - 1)
    return found.between(np.stack([edges[:-1], edges[1:]], axis=1))[:, 0]


@pytest.mark.parametrize("period_ns", [1_000_000, 2_000_000, 5_000_000])
def test_phases_keep_their_energy_though_readings_are_late_and_blurred(period_ns: int) -> None:
    # 101.3 ms: edges fall anywhere within a conversion.
    power_w, length_ns = [13.0, 30.0, 37.0, 24.0] * 60, 101_300_000
    samples = converted(power_w, length_ns, period_ns)
    late, true = EnergyTimeline(("rail",)), EnergyTimeline(("rail",), CYCLE_NS)
    late.append(samples)
    true.append(samples)
    for shift in range(4):
        expected = power_w[2 + shift] * length_ns * 1e-9
        mean = phases_of(true, length_ns, len(power_w))[shift::4].mean()
        assert mean == pytest.approx(expected, rel=0.01)
    worst = [
        abs(phases_of(late, length_ns, len(power_w))[shift::4].mean() / power_w[2 + shift])
        for shift in range(4)
    ]
    assert max(abs(joules / (length_ns * 1e-9) - 1) for joules in worst) > 0.03, "uncorrected"


def test_what_is_not_followed_by_readings_yet_is_not_covered() -> None:
    found = EnergyTimeline(("rail",), CYCLE_NS)
    samples = converted([10.0] * 5, 100_000_000, 5_000_000)
    found.append(samples)
    assert found.covered_until_ns == samples.t_ns[-1] - found.lag_ns
    assert found.lag_ns >= 2 * CYCLE_NS


def test_no_step_is_looked_for_across_a_hole() -> None:
    samples = converted([10.0] * 3 + [30.0] * 3, 100_000_000, 5_000_000)
    missing = np.where(samples.t_ns > START_NS + 300_000_000, 1e6, 0.0)[:, None]
    corrected, plain = EnergyTimeline(("rail",), CYCLE_NS), EnergyTimeline(("rail",))
    corrected.append(samples._replace(missing_ns=missing))
    plain.append(samples._replace(missing_ns=missing, t_ns=samples.t_ns - CYCLE_NS))
    edges = spans((200, 300), (300, 400))
    np.testing.assert_allclose(corrected.between(edges), plain.between(edges))


def test_a_step_is_put_back_however_much_was_missing_long_ago() -> None:
    samples = converted([10.0] * 3 + [30.0] * 3, 100_000_000, 5_000_000)
    for missing_ns in np.random.default_rng(0).uniform(0, 1e12, 50):
        found = EnergyTimeline(("rail",), CYCLE_NS)
        found.append(samples._replace(missing_ns=np.full((len(samples.t_ns), 1), missing_ns)))
        joules = found.between(spans((200, 300), (300, 400)))[:, 0]
        assert joules == pytest.approx([1.0, 3.0], rel=0.01)
