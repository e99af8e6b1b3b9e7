"""What heat and over-current touch: seen in files, told of windows, kept out of what is compared."""

from pathlib import Path

import pytest
from runs import tally_of
from trees import build_tree, write

from orin_gov.board.gpu import Gpu, find_gpu
from orin_gov.board.throttling import Throttling
from orin_gov.disturbances import CHRONIC, Disturbances
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window
from orin_gov.tally import EpochRecord

S = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = build_tree(tmp_path / "board")
    hwmon = root / "sys/class/hwmon/hwmon9"
    write(hwmon / "name", "soctherm_oc\n")
    for counter in (1, 2, 3):
        write(hwmon / f"oc{counter}_event_cnt", "40\n")
    zone = root / "sys/class/thermal/thermal_zone0"
    write(zone / "type", "tj-thermal\n")
    write(zone / "temp", "60000\n")
    for index, (kind, milli) in enumerate(
        [("active", 50000), ("critical", 104500), ("passive", 99000)]
    ):
        write(zone / f"trip_point_{index}_type", f"{kind}\n")
        write(zone / f"trip_point_{index}_temp", f"{milli}\n")
    cooling = root / "sys/class/thermal/cooling_device0"
    write(cooling / "type", "devfreq-17000000.gpu\n")
    write(cooling / "cur_state", "0\n")
    return root


@pytest.fixture
def gpu(root: Path) -> Gpu:
    found = find_gpu(root)
    assert found is not None
    return found


def count(root: Path, name: str, value: int) -> None:
    write(root / f"sys/class/hwmon/hwmon9/{name}_event_cnt", f"{value}\n")


def heat(root: Path, milli: int) -> None:
    write(root / "sys/class/thermal/thermal_zone0/temp", f"{milli}\n")


def cool(root: Path, state: int) -> None:
    write(root / "sys/class/thermal/cooling_device0/cur_state", f"{state}\n")


def test_a_board_at_rest_slows_nothing(root: Path, gpu: Gpu) -> None:
    throttling = Throttling(root, gpu)
    assert throttling.heat() is None
    assert throttling.events() == {}


def test_only_what_has_moved_since_the_last_look_is_an_event(root: Path, gpu: Gpu) -> None:
    throttling = Throttling(root, gpu)
    count(root, "oc3", 45)
    assert throttling.events() == {"oc3": 5}
    assert throttling.events() == {}
    count(root, "oc3", 0)  # a driver that was loaded anew
    assert throttling.events() == {}


@pytest.mark.parametrize(("milli", "hot"), [(98_900, False), (99_000, True), (-256_000, False)])
def test_a_zone_is_too_hot_from_its_lowest_passive_trip_on(
    root: Path, gpu: Gpu, milli: int, hot: bool
) -> None:
    throttling = Throttling(root, gpu)
    heat(root, milli)
    assert throttling.heat() == ("tj has 99 deg C, its limit is 99" if hot else None)


def test_the_cooling_of_the_gpu_is_heat_and_that_of_others_is_not(root: Path, gpu: Gpu) -> None:
    other = root / "sys/class/thermal/cooling_device1"
    write(other / "type", "devfreq-15340000.vic\n")
    write(other / "cur_state", "3\n")
    throttling = Throttling(root, gpu)
    assert throttling.heat() is None
    cool(root, 2)
    assert throttling.heat() == "the GPU is being cooled, its clock capped"


def test_a_board_that_tells_nothing_of_it_is_never_disturbed(tmp_path: Path) -> None:
    throttling = Throttling(build_tree(tmp_path / "plain"), None)
    assert (throttling.heat(), throttling.events()) == (None, {})


def test_events_touch_every_window_of_the_two_seconds_before_they_could_show(
    root: Path, gpu: Gpu
) -> None:
    found = Disturbances(root, gpu, 10 * S)
    count(root, "oc2", 43)
    found.look(10 * S + S // 2)
    assert found.within(0, 20 * S) is None  # not yet time to look again
    found.look(11 * S)
    told = "over-current events: OC2 3"
    assert found.within(7 * S, 8 * S) is None
    assert found.within(7 * S, 8 * S + 1) == told
    assert found.within(10 * S, 12 * S) == told
    assert found.within(11 * S, 12 * S) is None


def test_heat_touches_what_has_run_since_the_last_look(root: Path, gpu: Gpu) -> None:
    found = Disturbances(root, gpu, 10 * S)
    cool(root, 1)
    found.look(11 * S)
    cool(root, 0)
    found.look(12 * S)
    assert found.within(9 * S, 10 * S) is None
    assert found.within(9 * S, 11 * S) == "the GPU is being cooled, its clock capped"
    assert found.within(11 * S, 12 * S) is None


def test_events_in_every_window_are_the_boards_normal_state_and_are_told_of_once(
    root: Path, gpu: Gpu
) -> None:
    found = Disturbances(root, gpu, 0)
    warnings = []
    for second in range(1, 3 * CHRONIC):
        count(root, "oc3", 40 + second)
        found.look(second * S)
        warnings.append(found.judge(found.within((second - 1) * S, second * S)))
    (told,) = filter(None, warnings)
    assert warnings.index(told) == CHRONIC - 1
    assert "normal state" in told
    assert found.within(0, 100 * S) is None
    cool(root, 1)
    found.look(100 * S)
    assert found.within(99 * S, 100 * S) is not None  # heat still is what it is


def test_heat_is_never_a_normal_state(root: Path, gpu: Gpu) -> None:
    found = Disturbances(root, gpu, 0)
    cool(root, 1)
    for second in range(1, 3 * CHRONIC):
        found.look(second * S)
        told = found.within((second - 1) * S, second * S)
        assert told is not None
        assert found.judge(told) is None


def epoch(target_hz: int | None, disturbed: str | None) -> EpochRecord:
    window = Window(0, S, 1.0, target_hz, 1, 1.0, "step", 1.0, disturbed=disturbed)
    state = State.BASELINE if target_hz is None else State.HOLD
    decision = Decision(state, target_hz, "")
    return EpochRecord(0, state, window, Outcome(None, None, None), decision)


def test_disturbed_windows_are_in_no_saving() -> None:
    epochs = [epoch(hz, told) for hz in (None, 612_000_000) for told in (None, "heat", None)]
    governed, baseline = tally_of(epochs).compared()
    assert (len(governed), len(baseline)) == (2, 2)
    assert tally_of(epochs).disturbed == 2
    assert [len(side) for side in tally_of([]).compared()] == [0, 0]
