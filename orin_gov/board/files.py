"""Reading the small text files of sysfs: missing is None, a wrong value an error that says so.

A file may hang: a sensor whose bus does not answer blocks its reader in the kernel. Whatever is
read here is waited for `PATIENCE_S` at most; `read_now` alone waits for ever.
"""

import errno
import os
import pwd
import re
import threading
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
    earlier = _hanging.get(path)
    if earlier is None or not earlier.is_alive():
        found: list[bytes | OSError] = []
        # A thread of its own, gone before we return: a hung read can be left, never interrupted.
        thread = threading.Thread(target=_read_into, args=(path, found), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        if found and isinstance(found[0], OSError):
            raise found[0]
        if found and isinstance(found[0], bytes):
            return found[0]
        _hanging[path] = thread
    raise TimeoutError(errno.ETIMEDOUT, "does not answer", str(path))


def _read_into(path: Path, found: list[bytes | OSError]) -> None:
    try:
        found.append(_read(path))
    except OSError as error:
        found.append(error)
    except ValueError as error:  # a NUL in the path
        found.append(OSError(errno.EINVAL, str(error), str(path)))


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LONGEST)
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str | None:
    """Return the file's text without NULs and outer blanks, or None where it cannot be read."""
    try:
        return read_bytes(path).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the file's single integer of 64 bits, or None where there is none to be read."""
    try:
        return parse_int(read_bytes(path))
    except OSError:
        return None


def read_now(path: Path) -> int | None:
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
