"""Waiting for a write or a deadline."""

import threading
import time
from pathlib import Path

import pytest

from orin_gov.virtual.watch import Watch

LATE_NS = 20_000_000_000


def test_without_a_write_it_wakes_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    path.write_text("1")
    watch = Watch([path])
    deadline_ns = time.monotonic_ns() + 5_000_000
    now_ns, written = watch.wait(deadline_ns)
    assert not written
    assert now_ns >= deadline_ns


def test_a_deadline_that_has_passed_is_no_wait(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    path.write_text("1")
    assert Watch([path]).wait(0)[1] is False


def test_a_write_wakes_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    path.write_text("1")
    watch = Watch([path])
    begin_ns = time.monotonic_ns()
    writer = threading.Thread(target=lambda: path.write_text("2"))
    writer.start()
    now_ns, written = watch.wait(begin_ns + LATE_NS)
    writer.join()
    assert written
    assert now_ns - begin_ns < LATE_NS / 2


def test_a_write_before_the_wait_is_not_lost_and_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "limit"
    path.write_text("1")
    watch = Watch([path])
    path.write_text("2")
    assert watch.wait(time.monotonic_ns() + LATE_NS)[1] is True
    assert watch.wait(0)[1] is False


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="inotify"):
        Watch([tmp_path / "missing"])
