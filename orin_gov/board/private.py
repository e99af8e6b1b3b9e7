"""A small file that is ours alone: no link is followed, and nobody else may have written it."""

import os
import stat
from pathlib import Path

from orin_gov.errors import BoardError

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
DRAFT = ".new"


def draft_path(path: Path) -> Path:
    """Return where the file is written before it takes its place."""
    return path.with_suffix(DRAFT)


def read_private(path: Path) -> bytes | None:
    """Return what the file holds, or None where there is none.

    Raises:
        BoardError: the file or its folder is a link, another user's, or writable by others.
        OSError: it cannot be read.
    """
    try:
        folder = _open_folder(path.parent, (0, os.getuid()))
    except FileNotFoundError:
        return None
    try:
        # Not blocking: what lies there may be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if info.st_uid not in (0, os.getuid()):
            raise BoardError(f"{path} belongs to another user; remove it and look at {path.parent}")
        if not stat.S_ISREG(info.st_mode) or info.st_mode & OTHERS_MAY_WRITE:
            raise BoardError(f"{path} is no file that only its owner may write; remove it")
        return file.read()


def write_private(path: Path, content: bytes) -> None:
    """Write the file in one go, so that a crash leaves the old one or the new one.

    Raises:
        BoardError: its folder is a link, another user's, or writable by others.
        OSError: it cannot be written; the old one stays.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    folder = _open_folder(path.parent, (os.getuid(),))
    draft = draft_path(path).name
    try:
        _unlink(draft, folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            _unlink(draft, folder)
            raise
    finally:
        os.close(folder)


def _open_folder(path: Path, owners: tuple[int, ...]) -> int:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise BoardError(f"{path} is not a folder of this user; remove it and try again") from error
    info = os.fstat(folder)
    if info.st_uid not in owners or info.st_mode & OTHERS_MAY_WRITE:
        os.close(folder)
        raise BoardError(f"{path} is not a folder of this user alone; remove it and try again")
    return folder


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
