"""live.json: the present moment of a run, for `orin-gov top`; it is gone when the run has ended.

One line of JSON and one with its checksum. It is written over in place: a file renamed over another
is flushed by many file systems at once, which twice a second for a day wears out a memory card.
What a longer moment left after these two lines is passed over; a reader that meets a half-written
one sees it by the checksum and reads again.
"""

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

from orin_gov.errors import RunDirectoryError

NAME = "live.json"
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
TRIES = 20
PAUSE_S = 0.01


class LiveFile:
    """Writes live.json of a run directory. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._descriptor = os.open(self._path, FLAGS, 0o644)

    def write(self, content: dict[str, Any]) -> None:
        """Replace what stands there."""
        body = json.dumps(content).encode()
        whole = b"%s\n%d\n" % (body, zlib.crc32(body))
        os.pwrite(self._descriptor, whole, 0)
        os.ftruncate(self._descriptor, len(whole))

    def remove(self) -> None:
        """Remove the file: the summary stands for the run from now on."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)


def read_live(folder: Path) -> Any:
    """Return what live.json holds.

    Raises:
        FileNotFoundError: there is none: the run has ended, or has not begun to measure.
        RunDirectoryError: it cannot be read, or is damaged.
    """
    path = folder / NAME
    for _ in range(TRIES):
        try:
            body, check, *_ = [*path.read_bytes().split(b"\n", 2), b""]
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RunDirectoryError(f"cannot read {path}: {error.strerror}") from error
        if check == b"%d" % zlib.crc32(body):
            return _parse(body, path)
        time.sleep(PAUSE_S)
    raise RunDirectoryError(f"{path} is damaged: its checksum does not match")


def _parse(body: bytes, path: Path) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
