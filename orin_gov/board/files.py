"""Reading the small text files of sysfs: missing is None, a wrong value an error that says so."""

from pathlib import Path

from orin_gov.errors import BoardError


def read_text(path: Path) -> str | None:
    """Return the file's text without NULs and outer blanks, or None where it cannot be read."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the file's single integer, or None where it cannot be read or holds none."""
    text = read_text(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None


def require_int(path: Path) -> int:
    """Return the file's single integer.

    Raises:
        BoardError: the file cannot be read or holds something else.
    """
    value = read_int(path)
    if value is None:
        raise BoardError(f"{path} holds {read_text(path)!r}, expected an integer")
    return value
