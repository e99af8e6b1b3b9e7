"""Restoring from the journal: what is ours goes back, what is another writer's stays."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import AGX_CLOCKS, content, limits

from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.journal import (
    Journal,
    Setting,
    journal_path,
    limits_to_restore,
    load_journal,
    restore,
)
from orin_gov.board.lock import exclusive
from orin_gov.board.private import draft_path
from orin_gov.board.recovery import restore_board
from orin_gov.errors import BoardError

LOW, TOP = AGX_CLOCKS[0], AGX_CLOCKS[-1]
MIDDLE = 612_000_000


def test_a_pinned_gpu_is_put_back_and_the_journal_goes(journal: Journal, root: Path) -> None:
    pinned = journal.note(Range(MIDDLE, MIDDLE))
    (journal.gpu.directory / "min_freq").write_text(str(MIDDLE))
    (journal.gpu.directory / "max_freq").write_text(str(MIDDLE))
    assert restore(pinned) == Range(LOW, TOP)
    assert limits(journal.gpu.directory) == (str(LOW), str(TOP))
    assert load_journal(root) is None


def test_where_nothing_was_set_nothing_is_written(journal: Journal) -> None:
    # Another writer's doing, then: jetson_clocks, or a thermal cap that will pass.
    (journal.gpu.directory / "min_freq").write_text(f"{MIDDLE}\n")
    (journal.gpu.directory / "max_freq").write_text(f"{MIDDLE}\n")
    before = content(journal.gpu.directory)
    assert restore(journal) == Range(MIDDLE, MIDDLE)
    assert content(journal.gpu.directory) == before
    assert not journal.path.exists()


@pytest.mark.parametrize("name", ["min_freq", "max_freq"])
def test_a_limit_that_cannot_be_put_back_keeps_the_journal(journal: Journal, name: str) -> None:
    noted = journal.note(Range(MIDDLE, MIDDLE))
    (journal.gpu.directory / name).unlink()
    (journal.gpu.directory / name).mkdir()
    with pytest.raises(BoardError, match=name):
        restore(noted)
    assert journal.path.exists()


clocks = st.sampled_from(AGX_CLOCKS)
ranges = st.tuples(clocks, clocks).map(sorted).map(lambda pair: Range(*pair))
ours = st.lists(clocks, min_size=1, max_size=2).map(tuple)


@given(original=ranges, ours_hz=ours, foreign=ranges)
def test_a_foreign_cap_is_never_lifted(original: Range, ours_hz, foreign: Range) -> None:
    restored = limits_to_restore(original, ours_hz, foreign)
    if foreign.max_hz not in (*ours_hz, original.max_hz):
        assert restored.max_hz == foreign.max_hz
    assert restored.min_hz <= original.min_hz
    assert restored.min_hz <= restored.max_hz


@given(original=ranges, ours_hz=ours, data=st.data())
def test_with_nothing_foreign_the_original_comes_back(original: Range, ours_hz, data) -> None:
    highest = data.draw(st.sampled_from((*ours_hz, original.max_hz)))
    lowest = data.draw(st.sampled_from([hz for hz in AGX_CLOCKS if hz <= highest]))
    assert limits_to_restore(original, ours_hz, Range(lowest, highest)) == original


def test_a_cap_at_the_original_minimum_is_foreign_too(journal: Journal) -> None:
    # Handing back the board's own range makes its minimum ours to write, not ours as a cap.
    noted = journal.note(Range(MIDDLE, MIDDLE)).note(Range(LOW, TOP))
    (journal.gpu.directory / "max_freq").write_text(str(LOW))
    assert restore(noted) == Range(LOW, LOW)


def averaging(root: Path) -> Path:
    return next(root.glob("sys/devices/**/1-0040/hwmon/hwmon*/samples"))


def test_a_sensors_setting_comes_back_exactly_unless_it_is_not_ours_any_more(
    root: Path, journal: Journal
) -> None:
    file = averaging(root)
    noted = journal.note_sensors((Setting(file, 512, 1),))
    assert load_journal(root) == replace(noted, gpu=Gpu(journal.gpu.directory, ()))
    file.write_text("1\n")
    restore(noted)
    assert file.read_text() == "512\n"
    file.write_text("64\n")  # another writer's
    restore(noted)
    assert file.read_text() == "64\n"
    file.unlink()  # a sensor that is gone: its next driver resets it
    restore(noted)
    assert not file.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="a mode binds no root")
def test_a_sensor_that_cannot_be_put_back_costs_the_clock_nothing(
    root: Path, journal: Journal
) -> None:
    file = averaging(root)
    noted = journal.note_sensors((Setting(file, 512, 1),)).note(Range(MIDDLE, MIDDLE))
    (journal.gpu.directory / "max_freq").write_text(str(MIDDLE))
    file.write_text("1\n")
    file.chmod(0o444)
    with pytest.raises(BoardError, match=r"cannot restore .*samples: Permission denied"):
        restore(noted)
    assert limits(journal.gpu.directory) == (str(LOW), str(TOP))
    assert noted.path.exists()


def test_adopted_limits_are_what_comes_back(root: Path, journal: Journal) -> None:
    adopted = journal.note(Range(MIDDLE, MIDDLE)).adopt(Range(LOW, 918_000_000))
    (journal.gpu.directory / "max_freq").write_text(str(MIDDLE))
    assert restore(adopted) == Range(LOW, 918_000_000)
    assert limits(journal.gpu.directory) == (str(LOW), "918000000")


def test_a_thermal_cap_is_not_taken_for_anothers() -> None:
    original = Range(LOW, TOP)
    now = Range(LOW, 510_000_000)
    assert limits_to_restore(original, (MIDDLE,), now) == now
    assert limits_to_restore(original, (MIDDLE,), now, cooled=True) == original


@pytest.mark.parametrize("name", ["min_freq", "max_freq"])
def test_a_limit_that_a_killed_writer_left_empty_is_put_back(journal: Journal, name: str) -> None:
    noted = journal.note(Range(MIDDLE, MIDDLE))
    (journal.gpu.directory / name).write_text("")
    assert restore(noted) == Range(LOW, TOP)
    assert limits(journal.gpu.directory) == (str(LOW), str(TOP))


def test_a_sensors_setting_that_a_killed_writer_left_empty_is_put_back(
    root: Path, journal: Journal
) -> None:
    file = averaging(root)
    noted = journal.note_sensors((Setting(file, 512, 1),))
    file.write_text("")
    restore(noted)
    assert file.read_text() == "512\n"


def test_a_restore_that_is_not_for_good_keeps_the_journal(journal: Journal) -> None:
    noted = journal.note(Range(MIDDLE, MIDDLE))
    (journal.gpu.directory / "max_freq").write_text(str(MIDDLE))
    restore(noted, for_good=False)
    assert limits(journal.gpu.directory) == (str(LOW), str(TOP))
    assert journal.path.exists()


def test_the_draft_of_a_first_journal_goes_with_a_restore_by_hand(root: Path, gpu: Gpu) -> None:
    path = journal_path(root)
    path.parent.mkdir(mode=0o700)
    draft_path(path).write_text('{"vers')
    with exclusive(gpu):  # it may be a running governor's
        assert restore_board(root) is None
        assert draft_path(path).exists()
    assert restore_board(root) is None
    assert not draft_path(path).exists()
