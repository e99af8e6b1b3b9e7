"""The served board as a real process: its files answer, its physics act, it leaves no trace."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orin_gov._phases import RING_BYTES, PhaseRing
from orin_gov.errors import BoardError, UsageError
from orin_gov.phases import BACKWARD, DATA, IDLE
from orin_gov.virtual.launch import BOARDS, VirtualBoard
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import MARK, devfreq_directory, rail_files

TIMEOUT_S = 20.0
BOARD = load_board(BOARDS[0])
LOWEST_HZ, TOP_HZ = BOARD.frequencies_hz[0], BOARD.top_hz


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time. Files have no other way of telling."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def process_ends(pid_fd: int) -> bool:
    """Whether the process of that pidfd ends in time."""
    return bool(select.select([pid_fd], [], [], TIMEOUT_S)[0])


@pytest.fixture
def ring_fd() -> Iterator[int]:
    fd = os.memfd_create("ring")
    os.ftruncate(fd, RING_BYTES)
    yield fd
    os.close(fd)


@pytest.fixture
def board(ring_fd: int) -> Iterator[VirtualBoard]:
    with VirtualBoard.start(BOARDS[0], ring_fd) as started:
        yield started


@pytest.fixture
def devfreq(board: VirtualBoard) -> Path:
    return devfreq_directory(BOARD, board.root)


def pin(devfreq: Path, clock_hz: int) -> None:
    """Pin the clock and wait until it is in effect."""
    (devfreq / "max_freq").write_text(str(TOP_HZ))
    (devfreq / "min_freq").write_text(str(clock_hz))
    (devfreq / "max_freq").write_text(str(clock_hz))
    assert eventually(lambda: int((devfreq / "cur_freq").read_text()) == clock_hz)


def temperature_c(board: VirtualBoard) -> float:
    """The die's temperature as its thermal zone says, up to a second late."""
    return int((board.root / "sys/class/thermal/thermal_zone1/temp").read_text()) / 1000


def rail_power_w(board: VirtualBoard, label: str) -> float:
    """A rail's power as its files say."""
    (rail,) = (rail for rail in BOARD.rails if rail.label == label)
    millivolts, milliamperes = (int(path.read_text()) for path in rail_files(rail, board.root))
    return millivolts * milliamperes * 1e-6


def mean_power_w(board: VirtualBoard, label: str, seconds: float = 0.5) -> float:
    """A rail's power over many conversions."""
    readings, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline:
        readings.append(rail_power_w(board, label))
        time.sleep(0.005)
    return sum(readings) / len(readings)


def test_the_tree_stands_when_start_returns_and_goes_with_the_board(ring_fd: int) -> None:
    with VirtualBoard.start(BOARDS[0], ring_fd) as board:
        assert (board.root / MARK).read_text() == f"{BOARDS[0]}\n"
        pid_fd = os.pidfd_open(board.pid)
    assert not board.root.exists()
    assert process_ends(pid_fd)
    board.stop()


def test_a_pinned_clock_takes_effect_and_reads_back(devfreq: Path) -> None:
    for clock_hz in (612_000_000, 1_020_000_000, LOWEST_HZ):
        pin(devfreq, clock_hz)
        assert int((devfreq / "target_freq").read_text()) == clock_hz
        assert int((devfreq / "min_freq").read_text()) == clock_hz


def test_garbage_in_a_limit_is_put_right(devfreq: Path) -> None:
    (devfreq / "max_freq").write_text("warp 9")
    assert eventually(lambda: (devfreq / "max_freq").read_text().strip() == str(TOP_HZ))


def test_the_stretch_of_every_phase_follows_the_clock(devfreq: Path, ring_fd: int) -> None:
    ring = PhaseRing(ring_fd)
    pin(devfreq, 612_000_000)
    laws = BOARD.laws.values()
    expected = pytest.approx([BOARD.stretch(law, 612_000_000) for law in laws])
    assert eventually(lambda: list(ring.stretch) == expected)
    pin(devfreq, TOP_HZ)
    assert eventually(lambda: list(ring.stretch) == [1.0] * len(BOARD.laws))


def test_a_phase_lasts_longer_at_a_lower_clock(devfreq: Path, ring_fd: int) -> None:
    ring = PhaseRing(ring_fd)
    assert ring.claim()
    pin(devfreq, 612_000_000)
    stretch = BOARD.stretch(BOARD.laws["backward"], 612_000_000)
    assert eventually(lambda: ring.stretch[BACKWARD] == pytest.approx(stretch))
    ring.mark(BACKWARD)
    begin = time.monotonic()
    time.sleep(0.1)
    worked_s = time.monotonic() - begin
    ring.mark(IDLE)
    assert time.monotonic() - begin >= worked_s * stretch * 0.99


def cold_and_warm_w(phase: str, clock_hz: int) -> dict[str, tuple[float, float]]:
    """The power of each rail at the ambient and at the reference temperature: leakage rises."""
    temperatures = (BOARD.constants.ambient_c, BOARD.constants.reference_c)
    cold, warm = (
        BOARD.rail_power_w(BOARD.laws[phase], clock_hz, temperature_c=each) for each in temperatures
    )
    return {label: (cold[label], warm[label]) for label in cold}


def test_power_rises_with_the_phase_and_the_clock(
    board: VirtualBoard, devfreq: Path, ring_fd: int
) -> None:
    ring = PhaseRing(ring_fd)
    assert ring.claim()
    for phase, name, clock_hz in (
        (IDLE, "idle", LOWEST_HZ),
        (BACKWARD, "backward", 612_000_000),
        (BACKWARD, "backward", TOP_HZ),
    ):
        pin(devfreq, clock_hz)
        ring.mark(phase)
        cold, warm = cold_and_warm_w(name, clock_hz)["VDD_GPU_SOC"]
        assert eventually(
            lambda cold=cold, warm=warm: (
                cold - 0.8 < rail_power_w(board, "VDD_GPU_SOC") < warm + 0.8
            )
        )
        assert 0.98 * cold < mean_power_w(board, "VDD_GPU_SOC") < 1.02 * warm


def test_readings_come_in_the_sensors_quanta(board: VirtualBoard) -> None:
    for _ in range(100):
        for rail in BOARD.rails:
            voltage, current = rail_files(rail, board.root)
            assert int(voltage.read_text()) % BOARD.voltage_quantum_mv == 0
            assert int(current.read_text()) % BOARD.current_quantum_ma == 0
        time.sleep(0.002)


def test_no_reading_is_ever_empty_or_mangled(board: VirtualBoard, ring_fd: int) -> None:
    ring = PhaseRing(ring_fd)
    assert ring.claim()
    descriptors = [
        os.open(path, os.O_RDONLY) for rail in BOARD.rails for path in rail_files(rail, board.root)
    ]
    seen: set[bytes] = set()
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        ring.mark(BACKWARD if len(seen) % 2 else DATA)
        seen.update(os.pread(fd, 64, 0) for fd in descriptors)
    for fd in descriptors:
        os.close(fd)
    assert len(seen) > 10
    assert all(re.fullmatch(rb"\d+ *\n *", content) for content in seen)


def test_podgov_raises_the_clock_for_work_and_lowers_it_for_none(
    devfreq: Path, ring_fd: int
) -> None:
    ring = PhaseRing(ring_fd)
    assert ring.claim()
    ring.mark(BACKWARD)
    assert eventually(lambda: int((devfreq / "cur_freq").read_text()) > 1_000_000_000)
    assert int((devfreq / "device/load").read_text()) > 600
    ring.mark(IDLE)
    assert eventually(lambda: int((devfreq / "cur_freq").read_text()) == LOWEST_HZ)
    assert eventually(lambda: int((devfreq / "device/load").read_text()) < 100)


def test_the_truth_is_the_plants_power_times_time(board: VirtualBoard, devfreq: Path) -> None:
    pin(devfreq, LOWEST_HZ)

    def truth() -> dict[str, float]:
        content = json.loads((board.root / ".truth").read_text())
        return {"end_ns": content["end_ns"], **content["energy_j"]}

    first = truth()
    assert eventually(lambda: truth()["end_ns"] > first["end_ns"])
    later = truth()
    seconds = (later["end_ns"] - first["end_ns"]) * 1e-9
    for label, (cold, warm) in cold_and_warm_w("idle", LOWEST_HZ).items():
        assert 0.999 * cold < (later[label] - first[label]) / seconds < 1.001 * warm


def test_hostile_ring_contents_do_not_end_the_board(board: VirtualBoard, ring_fd: int) -> None:
    load = devfreq_directory(BOARD, board.root) / "device/load"
    current = rail_files(BOARD.rails[0], board.root)[1]
    for byte in (b"\xff", b"\x11"):
        os.pwrite(ring_fd, byte * RING_BYTES, 0)
        before = current.stat().st_mtime_ns
        assert eventually(lambda before=before: current.stat().st_mtime_ns > before + 100_000_000)
        assert 0 <= int(load.read_text()) <= 1000


def test_interrupts_and_hangups_are_not_for_the_board(board: VirtualBoard, devfreq: Path) -> None:
    os.kill(board.pid, signal.SIGINT)
    os.kill(board.pid, signal.SIGHUP)
    pin(devfreq, 612_000_000)


def test_sigterm_ends_the_board_and_its_tree(board: VirtualBoard) -> None:
    os.kill(board.pid, signal.SIGTERM)
    assert eventually(lambda: not board.root.exists())
    assert eventually(lambda: _stopped(board))


def _stopped(board: VirtualBoard) -> bool:
    try:
        board.adopt(os.getpid())
    except BoardError:
        return True
    return False


LAUNCHER = """
import os, sys, time
from orin_gov._phases import RING_BYTES
from orin_gov.virtual.launch import BOARDS, VirtualBoard
fd = os.memfd_create("ring")
os.ftruncate(fd, RING_BYTES)
board = VirtualBoard.start(BOARDS[0], fd)
if sys.argv[1] != "0":
    board.adopt(int(sys.argv[1]))
print(board.pid, board.root, flush=True)
sys.stdin.read()
"""


def launched_by_another(workload_pid: int) -> tuple["subprocess.Popen[str]", int, Path]:
    """A launcher process, a pidfd of its board's server, and the board's root."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(workload_pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert launcher.stdout is not None
    pid, root = launcher.stdout.readline().split()
    return launcher, os.pidfd_open(int(pid)), Path(root)


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_killed_launcher_without_a_workload_takes_the_board_along() -> None:
    launcher, server_fd, root = launched_by_another(0)
    kill(launcher)
    assert process_ends(server_fd)
    assert not root.exists()


def test_the_board_outlives_a_killed_launcher_until_the_workload_ends() -> None:
    workload = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    launcher, server_fd, root = launched_by_another(workload.pid)
    kill(launcher)
    pin(devfreq_directory(BOARD, root), 714_000_000)
    assert not select.select([server_fd], [], [], 0.2)[0]
    workload.communicate()
    assert process_ends(server_fd)
    assert not root.exists()


def test_the_board_outlives_its_workload_while_the_launcher_lives(
    board: VirtualBoard, devfreq: Path
) -> None:
    workload = subprocess.Popen(["true"])
    board.adopt(workload.pid)
    workload.wait()
    pin(devfreq, 510_000_000)


def test_an_unknown_board_is_a_usage_error(ring_fd: int) -> None:
    with pytest.raises(UsageError, match="agx-orin-64gb"):
        VirtualBoard.start("nano", ring_fd)


def test_a_server_that_cannot_start_is_quoted() -> None:
    fd = os.memfd_create("no ring")
    try:
        with pytest.raises(BoardError, match=r"(?s)instead of 'ready'.*ValueError"):
            VirtualBoard.start(BOARDS[0], fd)
    finally:
        os.close(fd)


def test_modules_in_the_working_directory_are_not_taken_for_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ring_fd: int
) -> None:
    for name in ("json.py", "random.py", "orin_gov.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from the working directory')\n")
    monkeypatch.chdir(tmp_path)
    with VirtualBoard.start(BOARDS[0], ring_fd) as board:
        assert (board.root / MARK).exists()


def test_starting_and_stopping_leaves_no_descriptor_behind(ring_fd: int) -> None:
    VirtualBoard.start(BOARDS[0], ring_fd).stop()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        VirtualBoard.start(BOARDS[0], ring_fd).stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_writer_that_truncates_first_never_loses_its_value(devfreq: Path) -> None:
    clocks = BOARD.frequencies_hz[:5] * 20
    for clock_hz in clocks:
        (devfreq / "max_freq").write_text(str(clock_hz))
        time.sleep(0.0005)
        assert int((devfreq / "max_freq").read_text()) == clock_hz


def test_a_board_in_a_power_mode_is_capped_and_slower(ring_fd: int) -> None:
    with VirtualBoard.start("agx-orin-64gb:30w", ring_fd) as board:
        devfreq = devfreq_directory(BOARD, board.root)
        assert int((devfreq / "max_freq").read_text()) == 612_000_000
        ring = PhaseRing(ring_fd)
        assert ring.claim()
        ring.mark(BACKWARD)
        assert eventually(lambda: int((devfreq / "cur_freq").read_text()) == 612_000_000)
        capped = load_board("agx-orin-64gb:30w")
        stretch = capped.stretch(capped.laws["backward"], 612_000_000)
        assert stretch > BOARD.stretch(BOARD.laws["backward"], 612_000_000)
        assert eventually(lambda: ring.stretch[BACKWARD] == pytest.approx(stretch))


def test_the_die_warms_under_work(board: VirtualBoard, devfreq: Path, ring_fd: int) -> None:
    ring = PhaseRing(ring_fd)
    assert ring.claim()
    pin(devfreq, TOP_HZ)
    before_c = temperature_c(board)
    ring.mark(BACKWARD)
    assert eventually(lambda: temperature_c(board) > before_c + 2.0)


def test_a_switch_takes_as_long_as_the_model_says(devfreq: Path) -> None:
    """From the write to the clock, on a machine that may be busy: never less, seldom much more."""
    pin(devfreq, 612_000_000)
    times_ms = []
    for index in range(40):
        clock_hz = (1_020_000_000, 612_000_000)[index % 2]
        first, then = ("max_freq", "min_freq") if index % 2 == 0 else ("min_freq", "max_freq")
        (devfreq / first).write_text(str(clock_hz))
        begin_ns = time.monotonic_ns()
        (devfreq / then).write_text(str(clock_hz))
        assert eventually(lambda hz=clock_hz: int((devfreq / "cur_freq").read_text()) == hz)
        times_ms.append((time.monotonic_ns() - begin_ns) / 1e6)
    times_ms.sort()
    least_ms = 1e3 * BOARD.switch_latency_s(612e6, 1020e6, 0.0)
    assert times_ms[0] >= least_ms - 0.5
    assert times_ms[len(times_ms) // 2] < 30
