"""The journal of what a board was, and what is written to put it back."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trees import AGX_CLOCKS, build_tree, content, limits

from orin_gov.board.gpu import Gpu, Range, find_gpu
from orin_gov.board.journal import (
    Journal,
    Setting,
    begin_journal,
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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "board")


@pytest.fixture
def gpu(root: Path) -> Gpu:
    found = find_gpu(root)
    assert found is not None
    return found


@pytest.fixture
def journal(root: Path, gpu: Gpu) -> Journal:
    return begin_journal(root, gpu)


def edit(journal: Journal, **changes: object) -> None:
    """Rewrite some of what the journal's file holds."""
    record = json.loads(journal.path.read_text())
    journal.path.write_text(json.dumps({**record, **changes}))


def test_a_journal_reads_back_as_it_was_written(root: Path, journal: Journal) -> None:
    noted = journal.note(Range(MIDDLE, MIDDLE)).note(Range(LOW, TOP))
    assert noted.original == Range(LOW, TOP)
    assert noted.ours_hz == (MIDDLE, TOP)
    assert load_journal(root) == replace(noted, gpu=Gpu(journal.gpu.directory, ()))


def test_the_maximum_before_the_last_is_kept_and_no_more(journal: Journal) -> None:
    for hz in AGX_CLOCKS:
        journal = journal.note(Range(hz, hz))
    assert journal.ours_hz == AGX_CLOCKS[-2:]


def test_a_journal_is_private_and_leaves_no_draft(root: Path, journal: Journal) -> None:
    journal.note(Range(MIDDLE, MIDDLE))
    assert list((root / "run/orin_gov").iterdir()) == [journal.path]
    assert journal.path.stat().st_mode & 0o077 == 0
    assert journal.path.parent.stat().st_mode & 0o077 == 0


def test_without_a_journal_there_is_nothing_to_load(root: Path) -> None:
    assert load_journal(root) is None
    journal_path(root).parent.mkdir()
    assert load_journal(root) is None


def test_a_journal_of_an_earlier_boot_is_void_and_removed(root: Path, journal: Journal) -> None:
    edit(journal, boot_id="00000000-0000-0000-0000-000000000000")
    assert load_journal(root) is None
    assert not journal.path.exists()


def test_a_link_in_the_journals_place_is_not_followed(root: Path, journal: Journal) -> None:
    elsewhere = journal.path.rename(root / "elsewhere.json")
    journal.path.symlink_to(elsewhere)
    with pytest.raises(BoardError, match="cannot read the journal"):
        load_journal(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
def test_another_users_journal_is_refused(root: Path, journal: Journal, gpu: Gpu) -> None:
    os.chown(journal.path, 12345, 12345)
    with pytest.raises(BoardError, match="belongs to another user"):
        load_journal(root)
    os.chown(journal.path.parent, 12345, 12345)
    with pytest.raises(BoardError, match="not a folder of this user"):
        begin_journal(root, gpu)


def test_a_link_in_the_folders_place_is_refused(root: Path, tmp_path: Path, gpu: Gpu) -> None:
    (tmp_path / "theirs").mkdir()
    (root / "run/orin_gov").symlink_to(tmp_path / "theirs")
    with pytest.raises(BoardError, match="not a folder of this user"):
        begin_journal(root, gpu)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_another_version_is_named(root: Path, journal: Journal) -> None:
    edit(journal, version=1)
    with pytest.raises(BoardError, match="has version 1, expected 2"):
        load_journal(root)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"version": 2}',
        b"\xff\xfe",
        b'{"version": 2, "directory": 5, "min_hz": 1, "max_hz": 2, "ours_hz": [], "boot_id": ""}',
    ],
)
def test_garbage_is_no_journal(root: Path, journal: Journal, content: bytes) -> None:
    journal.path.write_bytes(content)
    with pytest.raises(BoardError, match=r"is no journal of orin_gov .*; remove it"):
        load_journal(root)


@pytest.mark.parametrize(
    "limits_hz", [{"min_hz": -1}, {"min_hz": TOP + 1}, {"max_hz": float("inf")}, {"max_hz": "top"}]
)
def test_limits_that_no_board_has_are_refused(
    root: Path, journal: Journal, limits_hz: dict[str, object]
) -> None:
    edit(journal, **limits_hz)
    with pytest.raises(BoardError, match="is no journal"):
        load_journal(root)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "1", "/", "x\0y"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from(
            ["version", "boot_id", "directory", "min_hz", "max_hz", "ours_hz", "sensors"]
        ),
        JSON,
    )
)
def test_whatever_a_journal_holds_it_is_sound_or_refused(
    root: Path, journal: Journal, changes: dict[str, object]
) -> None:
    begin_journal(root, journal.gpu)
    edit(journal, **changes)
    try:
        loaded = load_journal(root)
    except BoardError:
        return
    if loaded is not None:
        assert 0 <= loaded.original.min_hz <= loaded.original.max_hz
        assert all(type(hz) is int for hz in loaded.ours_hz)
        assert all(each.file.name == "samples" for each in loaded.sensors)


def test_without_a_run_folder_the_journal_is_the_users(root: Path, tmp_path: Path, monkeypatch):
    (root / "run").rmdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert journal_path(root) == tmp_path / f"orin_gov-{os.getuid()}/journal.json"


def test_a_journal_that_cannot_be_written_is_an_error_and_nothing_was_changed(
    root: Path, gpu: Gpu
) -> None:
    (root / "run/orin_gov").write_text("a file stands in the way")
    with pytest.raises(BoardError, match="journal"):
        begin_journal(root, gpu)


# Restoring


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


# The lock

HOLD = """
import sys
from pathlib import Path
from orin_gov.board.gpu import find_gpu
from orin_gov.board.lock import exclusive
with exclusive(find_gpu(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(root: Path):
    """Another process that holds the GPU until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.mark.parametrize(
    "end", [lambda p: p.stdin.close(), lambda p: p.send_signal(signal.SIGKILL)]
)
def test_a_second_process_is_refused_until_the_first_has_ended(
    gpu: Gpu, holder, end: Callable[[object], None]
) -> None:
    with pytest.raises(BoardError, match=r"another orin-gov governs 17000000\.gpu"), exclusive(gpu):
        pass
    end(holder)
    holder.wait(20)
    with exclusive(gpu):
        pass


def test_locking_changes_nothing(gpu: Gpu, root: Path) -> None:
    before = content(root)
    with exclusive(gpu):
        assert content(root) == before


def test_a_gpu_that_is_gone_cannot_be_held(gpu: Gpu) -> None:
    (gpu.directory / "max_freq").unlink()
    with pytest.raises(BoardError, match=r"cannot open .*max_freq: No such file"), exclusive(gpu):
        pass


# Sensors and another writer's limits


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


def test_a_journal_names_no_other_file_of_a_sensor(root: Path, journal: Journal) -> None:
    edit(journal, sensors=[["/etc/passwd", 1, 2]])
    with pytest.raises(BoardError, match="is no journal"):
        load_journal(root)


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
