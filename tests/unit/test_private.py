"""A file that is ours alone: what others put in its place is refused, and nothing is followed."""

import os
import stat
from pathlib import Path

import pytest

from orin_gov.board.private import draft_path, read_private, write_private
from orin_gov.errors import BoardError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ours/journal.json"


def test_what_is_written_reads_back_and_is_private(path: Path) -> None:
    write_private(path, b"one")
    write_private(path, b"two")
    assert read_private(path) == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_what_is_not_there_is_none(path: Path) -> None:
    assert read_private(path) is None
    path.parent.mkdir()
    assert read_private(path) is None


def test_a_link_in_the_files_place_is_neither_read_nor_written_through(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.write_bytes(b"theirs")
    path.parent.mkdir(mode=0o700)
    for place in (path, draft_path(path)):
        place.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        read_private(path)
    write_private(path, b"ours")
    assert elsewhere.read_bytes() == b"theirs"
    assert not path.is_symlink()
    assert read_private(path) == b"ours"


def test_a_link_in_the_folders_place_is_refused(path: Path) -> None:
    (path.parent.parent / "elsewhere").mkdir(mode=0o700)
    path.parent.symlink_to("elsewhere")
    for use in (lambda: read_private(path), lambda: write_private(path, b"")):
        with pytest.raises(BoardError, match="is not a folder of this user"):
            use()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_refused(path: Path, mode: int) -> None:
    write_private(path, b"ours")
    path.parent.chmod(mode)
    for use in (lambda: read_private(path), lambda: write_private(path, b"")):
        with pytest.raises(BoardError, match="of this user alone"):
            use()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(path: Path, mode: int) -> None:
    write_private(path, b"ours")
    path.chmod(mode)
    with pytest.raises(BoardError, match="only its owner may write"):
        read_private(path)


def test_a_pipe_in_the_files_place_is_refused_and_not_waited_for(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path, 0o600)
    with pytest.raises(BoardError, match="only its owner may write"):
        read_private(path)


@as_root
@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_belongs_to_another_is_refused(path: Path, place: str) -> None:
    write_private(path, b"ours")
    os.chown(path if place == "file" else path.parent, 12345, 12345)
    with pytest.raises(BoardError, match=r"belongs to another user|of this user alone"):
        read_private(path)


def test_a_full_disk_leaves_the_old_file_and_no_draft(path: Path) -> None:
    write_private(path, b"old")
    # A device that is always full, in the draft's place, would be replaced: limit the process.
    pid = os.fork()
    if pid == 0:
        import resource

        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
            write_private(path, b"too much for this disk")
        except OSError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert read_private(path) == b"old"
    assert list(path.parent.iterdir()) == [path]
