"""Reading the small text files of sysfs: missing is None, a wrong value an error that says so.

A file may hang: a sensor whose bus does not answer blocks its reader in the kernel. Whatever is
read here is waited for `PATIENCE_S` at most; `read_now` alone waits for ever.
"""

import errno
import os
import pwd
import re
import threading
from collections.abc import Sequence
from pathlib import Path

PATIENCE_S = 1.0
LONGEST = 65536
"""Bytes that are read of a file; sysfs gives 4,096 at most, nvpmodel's file is some 10 k."""

INTEGER = re.compile(rb"-?0*[0-9]{1,19}[ \t\n]*")
LARGEST = 2**63 - 1

_hanging: dict[Path, threading.Thread] = {}


def read_bytes(path: Path) -> bytes:
    """Return what the file holds, its first `LONGEST` bytes.

    Raises:
        OSError: it cannot be read; TimeoutError where it does not answer.
    """
    found = read_each([path])[0]
    if isinstance(found, OSError):
        raise found
    return found


def read_each(paths: Sequence[Path]) -> list[bytes | OSError]:
    """Return what `read_bytes` returns or raises for each file; all for the cost of one."""
    found: list[bytes | OSError] = []
    while len(found) < len(paths):
        found += _read_some(paths[len(found) :])
    return found


def _read_some(paths: Sequence[Path]) -> list[bytes | OSError]:
    """Read the files in order, to the end or to the first that hangs."""
    found: list[bytes | OSError] = []
    # A thread of its own, gone before we return: a hung read can be left, never interrupted.
    thread = threading.Thread(target=_read_into, args=(paths, found), daemon=True)
    thread.start()
    before = -1
    while thread.is_alive() and before < len(found):
        before = len(found)
        thread.join(PATIENCE_S)
    read = found[:]
    if len(read) < len(paths):
        _hanging[paths[len(read)]] = thread
        read.append(_silence(paths[len(read)]))
    return read


def _read_into(paths: Sequence[Path], found: list[bytes | OSError]) -> None:
    for path in paths:
        found.append(_attempt(path))


def _attempt(path: Path) -> bytes | OSError:
    earlier = _hanging.get(path)
    if earlier is not None and earlier.is_alive():
        return _silence(path)
    try:
        return _read(path)
    except OSError as error:
        return error
    except ValueError as error:  # a NUL in the path
        return OSError(errno.EINVAL, str(error), str(path))


def _silence(path: Path) -> OSError:
    return TimeoutError(errno.ETIMEDOUT, "does not answer", str(path))


def _read(path: Path | str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LONGEST)
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str | None:
    """Return the file's text without NULs and outer blanks, or None where it cannot be read."""
    return read_texts([path])[0]


def read_texts(paths: Sequence[Path]) -> list[str | None]:
    """Return what `read_text` returns for each file; all for the cost of one."""
    return [
        None
        if isinstance(content, OSError)
        else content.replace(b"\0", b" ").decode("utf-8", "replace").strip()
        for content in read_each(paths)
    ]


def read_int(path: Path) -> int | None:
    """Return the file's single integer of 64 bits, or None where there is none to be read."""
    return read_ints([path])[0]


def read_ints(paths: Sequence[Path]) -> list[int | None]:
    """Return what `read_int` returns for each file; all for the cost of one."""
    return [
        None if isinstance(content, OSError) else parse_int(content) for content in read_each(paths)
    ]


def read_now(path: Path | str) -> int | None:
    """Return as `read_int` does, but wait for a file that hangs; a fifth of the cost."""
    try:
        return parse_int(_read(path))
    except OSError:
        return None


def parse_int(content: bytes) -> int | None:
    """Return the integer that the bytes are, or None: no units, no NUL, nothing beyond 64 bits."""
    if not INTEGER.fullmatch(content):
        return None
    value = int(content)
    return value if abs(value) <= LARGEST else None


def fault(path: Path) -> str | None:
    """Return in words why the file cannot be read, or None where it can."""
    try:
        read_bytes(path)
    except PermissionError:
        return f"no right to read {path} ({_mode(path)})"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _mode(path: Path) -> str:
    try:
        info = path.stat()
    except OSError:
        return "in a closed folder"
    try:
        owner = pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        owner = str(info.st_uid)
    return f"mode {info.st_mode & 0o7777:04o}, owner {owner}"


def within(root: Path, path: str) -> Path:
    """Return `path` under `root`; where it is an absolute link, what that names under `root`."""
    inside = root / path
    try:
        target = os.readlink(inside)
    except OSError:
        return inside
    return root / target[1:] if target.startswith("/") else inside
