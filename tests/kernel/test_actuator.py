"""The actuator and the control on the real devfreq core: achieved, refused, capped, contested."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rig import (
    DEVICE,
    LOW_HZ,
    NODE,
    PARAMETERS,
    TOP_HZ,
    eventually,
    limits,
    set_demand,
    set_limits,
    truth,
    write,
)

from orin_gov._actuator import Actuator, Transition, write_range
from orin_gov.board.gpu import Range, find_gpu
from orin_gov.control import take_control

MS = 1_000_000
TABLE = tuple(map(int, (NODE / "available_frequencies").read_text().split()))
MIDDLE, HIGH = 612_000_000, 918_000_000


@contextmanager
def running() -> Iterator[Actuator]:
    actuator = Actuator(str(NODE), TABLE)
    actuator.start()
    try:
        yield actuator
    finally:
        assert actuator.stop(20.0)


def ask(actuator: Actuator, min_hz: int, max_hz: int) -> Transition:
    actuator.request(min_hz, max_hz)
    assert eventually(lambda: not actuator.pending)
    (transition,) = actuator.drain()
    return transition


@pytest.mark.parametrize("target_hz", TABLE)
def test_every_clock_of_the_table_is_achieved(target_hz: int) -> None:
    with running() as actuator:
        for other_hz in (TOP_HZ, LOW_HZ):
            ask(actuator, other_hz, other_hz)
            transition = ask(actuator, target_hz, target_hz)
            assert transition.achieved_hz == truth()["freq"] == target_hz
            assert transition.achieved_ns is not None
            assert limits() == (target_hz, target_hz)


def test_the_latency_of_a_change_is_measured_on_the_change_itself() -> None:
    with running() as actuator:
        ask(actuator, LOW_HZ, LOW_HZ)
        for switch_ms in (5, 20):
            write(PARAMETERS / "switch_us", switch_ms * 1000)
            transition = ask(actuator, HIGH, HIGH)
            assert transition.achieved_ns is not None
            latency_ms = (transition.achieved_ns - transition.requested_ns) / MS
            assert switch_ms <= latency_ms < switch_ms + 5
            ask(actuator, LOW_HZ, LOW_HZ)


def test_a_refused_clock_is_told_though_the_write_succeeded() -> None:
    with running() as actuator:
        ask(actuator, LOW_HZ, LOW_HZ)
        write(PARAMETERS / "refuse_hz", MIDDLE)
        refused = ask(actuator, MIDDLE, MIDDLE)
        assert limits() == (MIDDLE, MIDDLE), "devfreq took the limits all the same"
        assert (refused.errno, refused.achieved_ns, refused.achieved_hz) == (0, None, LOW_HZ)
        assert ask(actuator, HIGH, HIGH).achieved_hz == HIGH


def test_a_thermal_cap_is_neither_lifted_nor_taken_for_ours() -> None:
    write(DEVICE / "sim_cap", HIGH)
    assert limits() == (LOW_HZ, HIGH)
    with running() as actuator:
        above = ask(actuator, TOP_HZ, TOP_HZ)
        assert (above.achieved_ns, above.achieved_hz) == (None, HIGH)
        assert ask(actuator, MIDDLE, MIDDLE).achieved_hz == MIDDLE
    write(DEVICE / "sim_cap", 0)


@pytest.mark.parametrize("wanted", [(LOW_HZ, LOW_HZ), (TOP_HZ, TOP_HZ), (MIDDLE, HIGH)])
@pytest.mark.parametrize("current", [(LOW_HZ, LOW_HZ), (TOP_HZ, TOP_HZ), (LOW_HZ, TOP_HZ)])
def test_any_range_follows_any_other(current: tuple[int, int], wanted: tuple[int, int]) -> None:
    set_limits(*current)
    write_range(str(NODE), *wanted)
    assert limits() == wanted


def test_the_boards_own_governor_follows_the_load_within_the_limits() -> None:
    set_demand(2000)
    assert eventually(lambda: truth()["freq"] == TOP_HZ)
    set_demand(350)
    time.sleep(3.0)
    # 35 % of the top clock's work at 70 % load is half the top clock.
    assert 600_000_000 <= truth()["freq"] <= 820_000_000
    set_limits(LOW_HZ, 510_000_000)
    assert eventually(lambda: truth()["freq"] == 510_000_000)
    set_demand(0)
    assert eventually(lambda: truth()["freq"] == LOW_HZ)


def test_control_takes_gives_back_and_sees_a_second_writer() -> None:
    gpu = find_gpu(Path("/"))
    assert gpu is not None
    set_limits(LOW_HZ, 1_224_000_000)
    with take_control(Path("/"), gpu) as control:
        control.request(MIDDLE)
        assert eventually(control.transitions)
        assert control.foreign_range() is None
        code = "import sys; open(sys.argv[1], 'w').write('510000000')"
        subprocess.run([sys.executable, "-c", code, str(NODE / "max_freq")], check=True)
        foreign = control.foreign_range()
    # Max wins in devfreq: our minimum is clamped, and reads so.
    assert foreign == Range(510_000_000, 510_000_000)
    assert limits() == (LOW_HZ, 510_000_000), "the second writer's cap stays"


def test_a_killed_control_is_restored_by_its_warden() -> None:
    set_limits(408_000_000, 1_224_000_000)
    code = (
        "import os, signal, time; from pathlib import Path\n"
        "from orin_gov.board.gpu import find_gpu\nfrom orin_gov.control import take_control\n"
        "with take_control(Path('/'), find_gpu(Path('/'))) as control:\n"
        "    control.request(612000000)\n"
        "    while not control.transitions(): time.sleep(0.001)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60)
    assert eventually(lambda: limits() == (408_000_000, 1_224_000_000))
