"""Control of the GPU's clock: given back after every end, by whichever of our processes is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from conftest import without_rights
from trees import (
    AGX_CLOCKS,
    content,
    eventually,
    following,
    gpu_folder,
    has_ended,
    is_pinned,
    limits,
)

from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.journal import journal_path
from orin_gov.board.lock import exclusive
from orin_gov.board.recovery import restore_board
from orin_gov.control import Control, take_control
from orin_gov.errors import BoardError

LOW, TOP = AGX_CLOCKS[0], AGX_CLOCKS[-1]
MIDDLE, OTHER = 612_000_000, 918_000_000
AT_REST = (str(LOW), str(TOP))


def settle(control: Control) -> None:
    """Wait until the last request has finished."""
    assert eventually(control.transitions)


def test_the_board_is_as_it_was_found_after_the_block(root: Path, gpu: Gpu) -> None:
    with take_control(root, gpu) as control:
        assert control.original == Range(LOW, TOP)
        control.request(MIDDLE)
        assert eventually(lambda: limits(gpu.directory) == (str(MIDDLE), str(MIDDLE)))
        control.request(None)
        assert eventually(lambda: limits(gpu.directory) == AT_REST)
        control.request(OTHER)
        assert eventually(lambda: is_pinned(gpu.directory))
    assert limits(gpu.directory) == AT_REST
    assert not journal_path(root).exists()


def test_a_request_that_is_still_under_way_does_not_outlive_the_block(root: Path, gpu: Gpu) -> None:
    with take_control(root, gpu) as control:
        for hz in AGX_CLOCKS:
            control.request(hz)
    assert limits(gpu.directory) == AT_REST


def test_an_exception_passes_through_and_the_board_is_put_back(root: Path, gpu: Gpu) -> None:
    def fail() -> None:
        with take_control(root, gpu) as control:
            control.request(MIDDLE)
            assert eventually(lambda: is_pinned(gpu.directory))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert limits(gpu.directory) == AT_REST


def test_without_a_request_nothing_is_written(root: Path, gpu: Gpu) -> None:
    before = content(root)
    with take_control(root, gpu):
        pass
    assert content(root) == before


def test_only_the_boards_own_clocks_can_be_asked_for(root: Path, gpu: Gpu) -> None:
    before = content(gpu.directory)
    with take_control(root, gpu) as control, pytest.raises(ValueError, match="950000000 Hz"):
        control.request(950_000_000)
    assert limits(gpu.directory) == AT_REST
    assert before.keys() == content(gpu.directory).keys()


def test_after_the_board_is_given_back_nothing_is_asked_for_and_nothing_adopted(
    root: Path, gpu: Gpu
) -> None:
    with take_control(root, gpu) as control:
        control.request(MIDDLE)
        settle(control)
        control.give_back()
        before = content(root)
        control.request(OTHER)
        (gpu.directory / "max_freq").write_text(str(MIDDLE))
        assert control.foreign_range() is None
        control.adopt(Range(LOW, MIDDLE))
        (gpu.directory / "max_freq").write_text(f"{TOP}\n")
        assert {path: each[1] for path, each in content(root).items()} == {
            path: each[1] for path, each in before.items()
        }


def test_a_cap_set_just_before_our_write_is_found_and_not_written_over(
    root: Path, gpu: Gpu
) -> None:
    with take_control(root, gpu) as control:
        (gpu.directory / "max_freq").write_text(f"{OTHER}\n")  # nobody has looked since
        control.request(MIDDLE)
        settle(control)
        assert limits(gpu.directory) == (str(LOW), str(OTHER))
        assert control.foreign_range() == Range(LOW, OTHER)
        assert control.adopt(Range(LOW, OTHER)) == Range(0, OTHER)
        control.request(MIDDLE)
        assert eventually(lambda: is_pinned(gpu.directory))
    assert limits(gpu.directory) == (str(LOW), str(OTHER))


def test_where_a_write_of_ours_hangs_the_board_is_put_back_now_and_once_more(
    root: Path, gpu: Gpu
) -> None:
    clock = gpu.directory / "cur_freq"
    clock.unlink()
    os.mkfifo(clock)
    with take_control(root, gpu) as control:
        control.request(MIDDLE)
        assert eventually(lambda: is_pinned(gpu.directory))
        with pytest.raises(BoardError, match="a frequency write hangs"):
            control.give_back()
        assert limits(gpu.directory) == AT_REST
        assert journal_path(root).exists()
        for name in ("min_freq", "max_freq"):  # what comes late
            (gpu.directory / name).write_text(f"{MIDDLE}\n")
        clock.write_text("")  # whoever waits for the pipe's other end goes on
    assert limits(gpu.directory) == AT_REST
    assert not journal_path(root).exists()


def test_giving_back_twice_leaves_what_another_has_written_since(root: Path, gpu: Gpu) -> None:
    with take_control(root, gpu) as control:
        control.request(MIDDLE)
        settle(control)
        control.give_back()
        assert limits(gpu.directory) == AT_REST
        (gpu.directory / "min_freq").write_text(str(OTHER))
    assert limits(gpu.directory) == (str(OTHER), str(TOP))


def test_our_own_writes_are_not_foreign_and_anothers_are(root: Path, gpu: Gpu) -> None:
    with take_control(root, gpu) as control, following(gpu.directory):
        assert control.foreign_range() is None
        control.request(MIDDLE)
        assert control.foreign_range() is None  # not settled: nothing can be said yet
        settle(control)
        assert control.foreign_range() is None
        (gpu.directory / "max_freq").write_text(str(OTHER))
        assert control.foreign_range() == Range(MIDDLE, OTHER)


def test_a_change_before_our_first_request_is_seen_and_kept(root: Path, gpu: Gpu) -> None:
    with take_control(root, gpu) as control:
        (gpu.directory / "min_freq").write_text(str(MIDDLE))
        (gpu.directory / "max_freq").write_text(str(MIDDLE))
        assert control.foreign_range() == Range(MIDDLE, MIDDLE)
    assert limits(gpu.directory) == (str(MIDDLE), str(MIDDLE))


@pytest.mark.parametrize("foreign", [408_000_000, OTHER, LOW])
def test_a_foreign_cap_outlives_the_block(root: Path, gpu: Gpu, foreign: int) -> None:
    with take_control(root, gpu) as control:
        control.request(MIDDLE)
        settle(control)
        (gpu.directory / "max_freq").write_text(str(foreign))
    assert limits(gpu.directory) == (str(LOW), str(foreign))


# Processes that are killed

GOVERN = """
import signal, sys
from pathlib import Path
from orin_gov.board.gpu import find_gpu
from orin_gov.control import take_control
root = Path(sys.argv[1])
with take_control(root, find_gpu(root)) as control:
    control.request(int(sys.argv[2]))
    print("asked", flush=True)
    sys.stdin.read()
sys.exit(7)
"""


@contextmanager
def governing(
    root: Path, hz: int = MIDDLE
) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Another process that has pinned the GPU, and its warden."""
    words = without_rights([sys.executable, "-c", GOVERN, str(root), str(hz)])
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        assert eventually(lambda: is_pinned(gpu_folder(root)))
        (warden,) = psutil.Process(process.pid).children()
        try:
            yield process, warden
        finally:
            with suppress(psutil.NoSuchProcess):
                warden.resume()  # none may stay suspended


def leave_pinned(root: Path, hz: int = MIDDLE) -> None:
    """Pin the GPU and kill all who could put it back."""
    with governing(root, hz) as (process, warden):
        warden.kill()
        process.kill()
    assert limits(gpu_folder(root)) == (str(hz), str(hz))
    assert journal_path(root).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_the_warden_restores_when_its_supervisor_is_killed(root: Path, gpu: Gpu, number) -> None:
    with governing(root) as (process, warden):
        process.send_signal(number)
        assert eventually(lambda: limits(gpu.directory) == AT_REST, within_s=1)
        assert eventually(lambda: has_ended(warden))
    assert not journal_path(root).exists()


def test_the_supervisor_restores_when_its_warden_is_killed(root: Path, gpu: Gpu) -> None:
    with governing(root) as (process, warden):
        warden.kill()
        _, said = process.communicate("")
        assert process.returncode == 7
        assert f"the warden (pid {warden.pid}) was gone" in said
    assert limits(gpu.directory) == AT_REST


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_warden_outlives_the_signals_that_end_others(root: Path, gpu: Gpu, number) -> None:
    with governing(root) as (process, warden):
        warden.send_signal(number)
        process.kill()
        assert eventually(lambda: limits(gpu.directory) == AT_REST, within_s=1)


def test_a_warden_keeps_nobodys_pipe_open(root: Path) -> None:
    with governing(root) as (process, warden):
        warden.suspend()
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # would wait for the warden if that held it
        warden.resume()


def test_the_next_governor_waits_for_the_warden_of_the_last(root: Path, gpu: Gpu) -> None:
    with governing(root) as (process, warden):
        warden.suspend()
        process.kill()
        process.wait(20)
        with pytest.raises(BoardError, match="another orin-gov governs"), exclusive(gpu):
            pass
        warden.resume()
        with exclusive(gpu):
            assert limits(gpu.directory) == AT_REST


def test_what_a_killed_run_left_is_restored_at_the_next_start(root: Path, gpu: Gpu, caplog) -> None:
    leave_pinned(root)
    with take_control(root, gpu) as control:
        assert control.original == Range(LOW, TOP)
        assert limits(gpu.directory) == AT_REST
    assert "an earlier run was killed; restored 17000000.gpu to 306-1300 MHz" in caplog.text


def test_restoring_by_hand_puts_the_board_back_once(root: Path, gpu: Gpu) -> None:
    leave_pinned(root)
    assert restore_board(root) == Range(LOW, TOP)
    assert limits(gpu.directory) == AT_REST
    assert restore_board(root) is None


def test_restoring_by_hand_keeps_a_cap_set_since(root: Path, gpu: Gpu) -> None:
    leave_pinned(root)
    (gpu.directory / "max_freq").write_text(str(OTHER))
    assert restore_board(root) == Range(LOW, OTHER)


def test_restoring_by_hand_does_not_touch_a_running_governor(root: Path, gpu: Gpu) -> None:
    with governing(root):
        with pytest.raises(BoardError, match="another orin-gov governs"):
            restore_board(root)
        assert limits(gpu.directory) == (str(MIDDLE), str(MIDDLE))


def lock_away(folder: Path) -> Callable[[], None]:
    """Take the right to write the limits; return what gives it back."""

    def to(mode: int) -> None:
        for name in ("min_freq", "max_freq"):
            (folder / name).chmod(mode)

    to(0o444)
    return lambda: to(0o644)


def test_a_board_that_cannot_be_put_back_is_told_and_can_be_later(root: Path, gpu: Gpu) -> None:
    with governing(root) as (process, _):
        unlock = lock_away(gpu.directory)
        _, said = process.communicate("")
        assert process.returncode == 7  # what the block ended with survives
    assert "cannot restore" in said
    assert "Permission denied; make it writable again, then: orin-gov restore" in said
    assert "Traceback" not in said
    unlock()
    assert restore_board(root) == Range(LOW, TOP)
