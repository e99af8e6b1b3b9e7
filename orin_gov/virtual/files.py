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

        One write covers the old text with blanks, then the file is cut: at every moment it reads
        as the old or as the new value.
        """
        line = text + b"\n"
        size = os.fstat(self._fd).st_size
        os.pwrite(self._fd, line.ljust(size), 0)
        if size > len(line):
            os.ftruncate(self._fd, len(line))
        self._shown = text
