"""Windows: what is gathered under one operating point."""

from dataclasses import replace

import numpy as np
import pytest
from minutes import POWER_W, RAILS, START_NS, TOTAL, S, step, timeline

from orin_gov._sampler import Samples
from orin_gov.counts import Counts
from orin_gov.energy import EnergyTimeline
from orin_gov.epoch import Epoch
from orin_gov.measured import measure_steps
from orin_gov.policy.window import Window
from orin_gov.windows import WindowBuilder
from orin_gov.workload.tracker import Step


def builder(epoch: Epoch, unread: frozenset[str] = frozenset()) -> WindowBuilder:
    return WindowBuilder(epoch, timeline(unread), TOTAL)


def add(
    to: WindowBuilder, steps: list[Step], unread: frozenset[str] = frozenset()
) -> list[Window | None]:
    source = timeline(unread)
    return [to.add(each) for each in measure_steps(steps, source, TOTAL)]


def test_a_window_sums_its_steps() -> None:
    to = builder(Epoch(3, None, 0.1))
    to.begin(918, 0)
    to.poll(START_NS, 900, 0.5)
    to.poll(START_NS + S, 936, 0.7)
    *early, window = add(to, [step(i, i, 0.1, 0.2, 0.3, work=10.0 + i) for i in range(3)])
    assert early == [None, None]
    assert window is not None
    assert window.target_hz == 918
    assert window.steps == 3
    assert (window.work, window.unit) == (33.0, "unit of work")
    assert (window.start_ns, window.end_ns) == (START_NS, START_NS + round(2.6 * S))
    assert window.duration_s == pytest.approx(1.8)  # of the steps; not of what lies between them
    assert window.energy_j == pytest.approx(45.0)
    assert window.power_w == pytest.approx(25.0)
    assert window.rail_energy_j == pytest.approx({"GPU": 36.0, "CPU": 9.0, "inside": 1.8})
    assert window.phase_time_s == pytest.approx({"data": 0.3, "forward": 0.6, "backward": 0.9})
    assert window.phase_energy_j["backward"] == pytest.approx(22.5)
    assert window.frequency_hz == 918.0
    assert window.load == pytest.approx(0.6)


def test_a_window_can_be_closed_before_its_epoch_is_over() -> None:
    to = builder(Epoch(100))
    assert to.close() is None
    assert add(to, [step(0, 10.0, 0.1, 0.2, 0.3)]) == [None]
    assert to.close() is None  # shorter than the sensors resolve
    assert add(to, [step(1, 10.6, 0.1, 0.2, 0.3)]) == [None]
    window = to.close()
    assert window is not None
    assert (window.steps, window.duration_s) == (2, pytest.approx(1.2))


def test_a_window_looks_at_its_steps_once_however_many_they_are() -> None:
    looks = 0

    class Watched(Step):
        @property
        def duration_s(self) -> float:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return 0.01

    to = builder(Epoch(None, 60.0, 0.1))
    (first,) = measure_steps([step(0, 0.0, 0.01)], timeline(), TOTAL)
    watched = Watched(0, first.step.spans, first.step.work)
    each = replace(first, step=watched)
    assert not any(to.add(each) for _ in range(1000))
    assert looks == 1000


def test_a_window_with_one_unmeasured_step_has_no_energy() -> None:
    to = builder(Epoch(2, None, 0.1))
    windows = add(to, [step(0, 1.0, 0.5)]) + add(to, [step(1, 2.0, 0.5)], frozenset({"GPU"}))
    assert windows[1] is not None
    assert windows[1].energy_j is None
    assert windows[1].rail_energy_j["GPU"] is None
    assert windows[1].rail_energy_j["CPU"] == pytest.approx(5.0)
    assert windows[1].duration_s == pytest.approx(1.0)


def test_without_a_count_of_work_each_step_is_a_unit() -> None:
    to = builder(Epoch(2, None, 0.1))
    window = add(to, [step(0, 1.0, 0.5, work=None), step(1, 2.0, 0.5, work=9.0)])[1]
    assert window is not None
    assert (window.work, window.unit) == (2.0, "step")


def test_a_step_under_the_clock_before_a_change_is_left_out() -> None:
    to = builder(Epoch(1, None, 0.1))
    to.begin(306, None)
    assert add(to, [step(0, 1.0, 0.5)]) == [None]
    to.begin(306, START_NS + 3 * S)
    to.poll(START_NS + 2 * S, 918, 0.9)
    assert add(to, [step(1, 2.9, 0.5)]) == [None]
    to.poll(START_NS + 4 * S, 306, 0.9)
    (window,) = add(to, [step(2, 3.0, 0.5)])
    assert window is not None
    assert window.start_ns == START_NS + 3 * S
    assert window.frequency_hz == 306.0


def test_a_step_is_of_the_target_that_held_as_it_began() -> None:
    to = builder(Epoch(2))
    assert to.target_at(START_NS) is None
    to.begin(918, None)  # asked for
    assert to.target_at(START_NS + S) is None
    to.begin(918, START_NS + 2 * S)  # come
    assert [to.target_at(START_NS + i * S) for i in (1, 2, 9)] == [None, 918, 918]
    to.begin(918, START_NS + 10 * S)  # the next window of the same
    to.begin_again(START_NS + 11 * S)  # after a pause
    to.begin_at(START_NS + 12 * S)
    assert to.target_at(START_NS + 3 * S) == 918
    to.begin(306, None)  # asked for, and given up before it came
    to.begin(None, START_NS + 20 * S)
    seen = [to.target_at(START_NS + i * S) for i in (1, 2, 19, 20)]
    assert seen == [None, 918, 918, None]
    for i in range(10_000):
        to.begin(i, START_NS + (30 + i) * S)
    assert to.target_at(START_NS + 10_028 * S) == 9_998


def test_a_window_that_begins_again_keeps_nothing_from_before_but_its_clock() -> None:
    to = builder(Epoch(2, None, 0.1))
    to.begin(918, START_NS)
    to.poll(START_NS, 306, 0.1)
    assert add(to, [step(0, 1.0, 0.5)]) == [None]
    to.begin_again(START_NS + 2 * S)
    windows = add(to, [step(1, 1.9, 0.5), step(2, 2.0, 0.5), step(3, 3.0, 0.5)])
    assert windows[:2] == [None, None]
    assert windows[2] is not None
    assert (windows[2].target_hz, windows[2].frequency_hz) == (918, None)
    to.begin(306, None)
    to.begin_again(START_NS + 4 * S)
    # Before the clock has changed, nothing is of the new window all the same.
    assert add(to, [step(4, 5.0, 0.5), step(5, 6.0, 0.5)]) == [None, None]


def test_a_new_window_keeps_nothing_of_the_one_before() -> None:
    to = builder(Epoch(2, None, 0.1))
    to.poll(START_NS, 306, 0.1)
    add(to, [step(0, 1.0, 0.5)])
    to.begin(918, START_NS + 2 * S)
    windows = add(to, [step(1, 2.0, 0.5), step(2, 3.0, 0.5)])
    assert windows[0] is None
    assert windows[1] is not None
    assert windows[1].steps == 2
    assert windows[1].frequency_hz is None
    assert windows[1].load is None


def test_the_noise_is_the_standard_error_of_time_per_work() -> None:
    to = builder(Epoch(4, None, 0.1))
    seconds = [0.9, 1.1, 0.9, 1.1]
    window = add(to, [step(i, 2 * i, t) for i, t in enumerate(seconds)])[3]
    assert window is not None
    assert window.noise == pytest.approx(np.std(seconds, ddof=1) / 2)


def test_steps_that_take_their_time_for_their_work_are_no_noise() -> None:
    to = builder(Epoch(4, None, 0.1))
    steps = [step(i, 2 * i, t, work=100 * t) for i, t in enumerate([0.5, 1.5, 0.7, 1.1])]
    window = add(to, steps)[3]
    assert window is not None
    assert window.noise == pytest.approx(0.0, abs=1e-9)


def test_one_step_tells_no_noise() -> None:
    (window,) = add(builder(Epoch(1, None, 0.1)), [step(0, 1.0, 0.5)])
    assert window is not None
    assert window.noise is None


def test_a_window_of_time_counts_busy_cycles() -> None:
    to = builder(Epoch(None, 4.0, 1.0))
    to.begin(500, START_NS + S)
    for i in range(6):
        to.poll(START_NS + i * S, 1000, 0.5)
    assert to.close_by_time(START_NS + round(4.9 * S)) is None
    window = to.close_by_time(START_NS + 5 * S)
    assert window is not None
    assert (window.steps, window.unit) == (0, "busy cycle")
    assert window.work == pytest.approx(2000.0)
    assert window.duration_s == pytest.approx(4.0)
    assert window.energy_j == pytest.approx(100.0)
    assert window.target_hz == 500
    assert window.phase_time_s == {}


def test_a_missed_reading_of_the_load_is_not_taken_for_an_idle_gpu() -> None:
    to = builder(Epoch(None, 4.0, 1.0))
    to.begin(500, START_NS)
    for i in range(5):
        to.poll(START_NS + i * S, 1000, None if i in (1, 3) else 0.5)
    window = to.close_by_time(START_NS + 4 * S)
    assert window is not None
    assert window.work == pytest.approx(2000.0)
    assert window.load == pytest.approx(0.5)


def test_a_window_of_time_without_any_load_has_no_work() -> None:
    to = builder(Epoch(None, 4.0, 1.0))
    to.begin(None, START_NS)
    for i in range(6):
        to.poll(START_NS + i * S, 1000, None)
    window = to.close_by_time(START_NS + 5 * S)
    assert window is not None
    assert (window.work, window.load, window.time_per_work_s) == (None, None, None)
    assert window.frequency_hz == 1000.0


def test_no_window_of_time_ends_while_steps_are_seen_or_the_clock_changes() -> None:
    to = builder(Epoch(50, None, 1.0))
    assert to.close_by_time(START_NS + 40 * S) is None  # nobody has begun one
    to.begin(500, START_NS)
    add(to, [step(0, 1.0, 0.5)])
    assert to.close_by_time(START_NS + 40 * S) is None
    to.begin(500, None)
    assert to.close_by_time(START_NS + 40 * S) is None


def test_a_window_of_time_that_was_not_sampled_has_no_energy() -> None:
    to = builder(Epoch(None, 4.0, 1.0))
    to.begin(None, START_NS - 2 * S)
    window = to.close_by_time(START_NS + 5 * S)
    assert window is not None
    assert window.energy_j is None
    assert window.power_w is None
    assert window.rail_energy_j == dict.fromkeys(RAILS)


@pytest.mark.parametrize("changing", [False, True], ids=["a steady reading", "one that scatters"])
def test_the_sensors_steps_are_in_the_windows_uncertainty(changing: bool) -> None:
    t_ns = START_NS + np.arange(501, dtype=np.int64) * (S // 100)
    power = np.full((501, 1), 10.0)
    power[1::2] += 0.4 if changing else 0.0
    energy = np.zeros((501, 1))
    energy[1:, 0] = np.cumsum(0.005 * (power[1:, 0] + power[:-1, 0]))
    source = EnergyTimeline(("VDD_IN",))
    source.append(Samples(t_ns, power, energy, np.zeros_like(power)))
    to = WindowBuilder(Epoch(None, 4.0), source, ("VDD_IN",), {"VDD_IN": 0.4})
    to.begin(None, START_NS)
    window = to.close_by_time(START_NS + 4 * S)
    assert window is not None
    assert window.power_w is not None
    alone = 0.4 / 12**0.5 / window.power_w
    assert window.coarseness == pytest.approx(alone / (400**0.5 if changing else 1), rel=0.01)


def test_without_a_total_a_window_has_rails_and_no_energy() -> None:
    to = WindowBuilder(Epoch(None, 4.0), timeline(), None)
    to.begin(None, START_NS)
    window = to.close_by_time(START_NS + 4 * S)
    assert window is not None
    assert (window.energy_j, window.coarseness) == (None, None)
    assert window.rail_energy_j == pytest.approx({"GPU": 80.0, "CPU": 20.0, "inside": 4.0})


COUNTS = Counts(
    {"forward": 1e9, "backward": 2e9, "optimizer": 0.0},
    {"forward": 1e6, "backward": 2e6, "optimizer": 3e6},
    {"forward": 10.0, "backward": 20.0, "optimizer": 5.0},
    work=8.0,
)


def counted(of: Step, counts: Counts) -> Step:
    return Step(of.number, of.spans, of.work, counts)


def test_a_counted_step_lengthens_no_window_and_its_counts_are_in_the_next_ones() -> None:
    to = builder(Epoch(2, None, 0.1))
    steps = [
        step(0, 1.0, 0.1, 0.2, 0.3),
        counted(step(1, 2.0, 0.1, 2.0, 3.0), COUNTS),
        step(2, 10.0, 0.1, 0.2, 0.3),
    ]
    *early, window = add(to, steps)
    assert early == [None, None]
    assert window is not None
    assert (window.steps, window.work) == (2, 16.0)
    assert window.duration_s == pytest.approx(1.2)
    assert len(window.samples) == 2
    assert window.operations_per_step == COUNTS.operations
    assert window.bytes_per_step == COUNTS.moved
    assert window.launches_per_step == COUNTS.launches
    to.begin(None, 0)
    *_, later = add(to, [step(i, 10.0 + i, 0.1, 0.2, 0.3, work=16.0) for i in (3, 4)])
    assert later is not None
    # Twice the work: twice the operations and bytes of forward and backward.
    assert later.operations_per_step == {"forward": 2e9, "backward": 4e9, "optimizer": 0.0}
    assert later.bytes_per_step == {"forward": 2e6, "backward": 4e6, "optimizer": 3e6}


def test_counts_are_taken_even_while_the_clock_changes() -> None:
    to = builder(Epoch(1, None, 0.1))
    to.begin(None, None)
    assert add(to, [counted(step(0, 1.0, 0.1, 0.2), COUNTS)]) == [None]
    to.begin(None, 0)
    (window,) = add(to, [step(1, 2.0, 0.1, 0.2)])
    assert window is not None
    assert window.operations_per_step == COUNTS.operations


def test_operations_by_shapes_cost_nothing_and_say_so() -> None:
    to = builder(Epoch(1, None, 0.1))
    shaped = Counts({"forward": 1e9}, work=8.0, by_shapes=True)
    (window,) = add(to, [counted(step(0, 1.0, 0.1, 0.2), shaped)])
    assert window is not None
    assert window.by_shapes
    assert window.operations_per_step == {"forward": 1e9}
    assert window.launches_per_step == {}


def test_a_window_that_was_never_counted_has_no_counts() -> None:
    (window,) = add(builder(Epoch(1, None, 0.1)), [step(0, 1.0, 0.1, 0.2)])
    assert window is not None
    assert window.operations_per_step == window.launches_per_step == {}


def test_the_range_of_power_is_that_of_the_totals_samples() -> None:
    t_ns = START_NS + np.arange(1000, dtype=np.int64) * (S // 100)
    power = np.tile(POWER_W, (1000, 1))
    power[::2, 0] += 10.0  # every other sample of the GPU's rail
    power[500, 0] = 500.0  # one odd reading
    power[600:620, 1] = np.nan
    source = EnergyTimeline(RAILS)
    source.append(Samples(t_ns, power, np.cumsum(power, axis=0) * 0.01, np.zeros_like(power)))
    whole = (int(t_ns[0]), int(t_ns[-1]))
    assert source.power_range_w(*whole, TOTAL) == pytest.approx((25.0, 35.0))
    assert source.power_range_w(int(t_ns[605]), int(t_ns[610]), TOTAL) is None
    assert source.power_range_w(*whole, ("GPU", "DLA")) is None
    assert source.power_range_w(*whole, None) is None
