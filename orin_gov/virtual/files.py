"""A file of the served tree, held open: what a sysfs attribute is to its readers and writers."""

import os
from pathlib import Path

_READ_BYTES = 64


class ValueFile:
    """One small text file, rewritten in place so that a reader never finds it empty.

    Raises OSError from every method where the file cannot be used. Thread-safety: none.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._shown = self.read()

    def read(self) -> bytes:
        """The first 64 bytes, blanks stripped."""
        return os.pread(self._fd, _READ_BYTES, 0).strip()

    def show(self, value: int | bytes) -> None:
        """Make the file hold `value` and a newline, unless it was last made to."""
        text = b"%d" % value if isinstance(value, int) else value
        if text != self._shown:
            self.overwrite(text)

    def overwrite(self, text: bytes) -> None:
        """Make the file hold `text` and a newline whatever another process wrote there.

        A read that overlaps a change of the file's size may see a cut number or NULs. So a file
        first grows by blanks, never shrinks, and one write of its whole length changes the value;
        blanks fill up before the newline.
        """
        size = os.fstat(self._fd).st_size
        if size <= len(text):
            os.pwrite(self._fd, b" " * (len(text) + 1 - size), size)
        os.pwrite(self._fd, text.ljust(size - 1) + b"\n", 0)
        self._shown = text
