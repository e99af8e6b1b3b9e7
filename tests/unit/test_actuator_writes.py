"""Writing a range of clocks: in an order that is valid at every moment, whatever fails."""

import ctypes
import errno
import os
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nodes import HIGH, LOW, MIDDLE, TABLE, TOP, broken, make_node

from orin_gov._actuator import write_range

IN_CLOSE_WRITE, IN_CLOSE_NOWRITE = 0x8, 0x10


class Watch:
    """What the kernel reports about the files of a folder, in its order (inotify)."""

    def __init__(self, folder: str, events: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, os.fsencode(folder), events) >= 0

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def names(self) -> list[str]:
        """Wait for at least one event; return the files' names in order."""
        data, names = os.read(self.fd, 65536), []
        while data:
            length = struct.unpack_from("=iIII", data)[3]
            names.append(data[16 : 16 + length].rstrip(b"\0").decode())
            data = data[16 + length :]
        return names


def order_of_writes(node: str, min_hz: int, max_hz: int) -> list[str]:
    with Watch(node, IN_CLOSE_WRITE) as watch:
        write_range(node, min_hz, max_hz)
        return watch.names()


# The order of the writes.


@pytest.mark.parametrize(
    ("current", "wanted", "first"),
    [
        ((LOW, HIGH), (TOP, TOP), "max_freq"),
        ((LOW, LOW), (HIGH, TOP), "max_freq"),
        ((HIGH, TOP), (LOW, LOW), "min_freq"),
        ((TOP, TOP), (LOW, HIGH), "min_freq"),
        ((LOW, TOP), (MIDDLE, MIDDLE), "min_freq"),
        ((LOW, TOP), (LOW, TOP), "max_freq"),
    ],
)
def test_a_rising_range_writes_max_first_and_a_falling_one_min_first(
    tmp_path: Path, current: tuple[int, int], wanted: tuple[int, int], first: str
) -> None:
    order = order_of_writes(make_node(tmp_path, *current), *wanted)
    assert order[0] == first
    assert sorted(order) == ["max_freq", "min_freq"]


RANGE = st.lists(st.sampled_from(TABLE), min_size=2, max_size=2).map(sorted)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(current=RANGE, wanted=RANGE)
def test_min_never_exceeds_max_at_any_moment(
    tmp_path: Path, current: list[int], wanted: list[int]
) -> None:
    values = {"min_freq": current[0], "max_freq": current[1]}
    for name in order_of_writes(make_node(tmp_path, *current), *wanted):
        values[name] = wanted[0] if name == "min_freq" else wanted[1]
        assert values["min_freq"] <= values["max_freq"]
    assert [values["min_freq"], values["max_freq"]] == wanted


@pytest.mark.parametrize("content", ["", "unknown\n"])
def test_an_unreadable_max_is_written_first(tmp_path: Path, content: str) -> None:
    node = make_node(tmp_path)
    (tmp_path / "max_freq").write_text(content)
    assert order_of_writes(node, LOW, LOW) == ["max_freq", "min_freq"]


def test_a_max_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """A max that is empty for a moment only is not an unknown one: the range falls, min first."""

    def fill_once_read(watch: Watch, fd: int) -> None:
        while "max_freq" not in watch.names():
            pass
        os.pwrite(fd, b"%d\n" % TOP, 0)

    orders: list[list[str]] = []
    while ["min_freq", "max_freq"] not in orders:
        assert len(orders) < 20, "an attempt fails when the fill is 20 ms late; not all may"
        node = make_node(tmp_path)
        fd = os.open(tmp_path / "max_freq", os.O_WRONLY | os.O_TRUNC)
        with Watch(node, IN_CLOSE_NOWRITE) as reads, Watch(node, IN_CLOSE_WRITE) as writes:
            filler = threading.Thread(target=fill_once_read, args=(reads, fd))
            filler.start()
            write_range(node, LOW, LOW)
            filler.join()
            orders.append(writes.names())
        os.close(fd)


# What is written.


def test_the_files_hold_plain_integers(tmp_path: Path) -> None:
    node = make_node(tmp_path, TOP, TOP)
    write_range(node, LOW, HIGH)
    assert (tmp_path / "min_freq").read_bytes() == b"306000000\n"
    assert (tmp_path / "max_freq").read_bytes() == b"612000000\n"
    write_range(node, 1, 2)
    assert (tmp_path / "min_freq").read_bytes() == b"1\n", "no rest of the longer value"


@pytest.mark.parametrize(("min_hz", "max_hz"), [(HIGH, LOW), (-1, LOW)])
def test_a_range_that_is_none_is_refused_before_any_write(
    tmp_path: Path, min_hz: int, max_hz: int
) -> None:
    node = make_node(tmp_path)
    with pytest.raises(ValueError, match=f"range {min_hz} to {max_hz} Hz"):
        write_range(node, min_hz, max_hz)
    assert (tmp_path / "max_freq").read_text() == f"{TOP}\n"


# Failures.


@pytest.mark.parametrize(("folder", "error"), [("none", errno.ENOENT), ("cur_freq", errno.ENOTDIR)])
def test_a_node_that_is_not_there_is_an_error_with_its_path(
    tmp_path: Path, folder: str, error: int
) -> None:
    make_node(tmp_path)
    path = str(tmp_path / folder)
    with pytest.raises(OSError, match="max_freq") as caught:
        write_range(path, LOW, HIGH)
    assert (caught.value.errno, caught.value.filename) == (error, f"{path}/max_freq")
    assert caught.value.strerror == os.strerror(error)


def test_min_is_written_though_max_failed(tmp_path: Path) -> None:
    node = broken(tmp_path, "max_freq")
    with pytest.raises(IsADirectoryError, match="max_freq"):
        write_range(node, MIDDLE, HIGH)
    assert (tmp_path / "min_freq").read_text() == f"{MIDDLE}\n"


def test_max_is_written_though_min_failed(tmp_path: Path) -> None:
    node = broken(tmp_path, "min_freq")
    with pytest.raises(IsADirectoryError, match="min_freq"):
        write_range(node, LOW, HIGH)
    assert (tmp_path / "max_freq").read_text() == f"{HIGH}\n"


def test_the_first_of_two_failures_is_raised(tmp_path: Path) -> None:
    node = broken(tmp_path, "min_freq")
    os.unlink(tmp_path / "max_freq")
    os.symlink("/dev/full", tmp_path / "max_freq")  # reads endless zeros, takes no byte
    with pytest.raises(OSError, match="max_freq") as caught:
        write_range(node, LOW, HIGH)
    assert caught.value.errno == errno.ENOSPC


def test_a_write_that_blocks_does_not_block_the_interpreter(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    os.unlink(tmp_path / "min_freq")
    os.mkfifo(tmp_path / "min_freq")
    writer = threading.Thread(target=write_range, args=(node, MIDDLE, HIGH))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    with open(tmp_path / "min_freq") as reader:
        assert reader.read() == f"{MIDDLE}\n"
    writer.join()
