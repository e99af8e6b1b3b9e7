"""The journal: what is in it comes back, and whatever else lies in its place is refused."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trees import AGX_CLOCKS

from orin_gov.board.gpu import Gpu, Range
from orin_gov.board.journal import (
    Journal,
    begin_journal,
    journal_path,
    load_journal,
)
from orin_gov.errors import BoardError

LOW, TOP = AGX_CLOCKS[0], AGX_CLOCKS[-1]
MIDDLE = 612_000_000


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


def test_a_journal_names_no_other_file_of_a_sensor(root: Path, journal: Journal) -> None:
    edit(journal, sensors=[["/etc/passwd", 1, 2]])
    with pytest.raises(BoardError, match="is no journal"):
        load_journal(root)
