"""Tables on disk that grow row by row: small when long, and whole after a crash.

NAME.arrows holds large compressed batches. What is newer lies in small batches in a tail beside it,
NAME.tail-0.arrows or NAME.tail-1.arrows by turns, until there is enough of it for a large one. A
tail is emptied only when the next one is full: by then what it held is long on the disk as well.
At the end both are gone.
"""

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BATCH_ROWS = 200
"""Rows that are kept in memory at most, where nobody asks for a flush."""

LARGE_ROWS = 1000
"""Rows of a large batch: 50 s of samples, longer than a kernel keeps what was written in memory."""

CHECKSUM = "checksum"
"""Metadata of a batch: after a power loss a file may be of its full length, and end in zeros."""

LAST_BITS = 0xFF
"""Of a float32 these bits are rounded away: a relative error of 8e-6 at most, less than any sensor's,
and a quarter of the disk's space: what is always 0 compresses to nothing."""

NUMPY = {"int64": np.int64, "float": np.float32, "double": np.float64}
"""numpy's types by pyarrow's names of the types that the tables' columns have."""


class Stream:
    """A table that rows are appended to. Not thread-safe.

    All files are opened at once, and by name never again: a supervisor that is root opens them as
    the user whose folder this is, and must not follow what he may put in their place, or in that of
    the folder.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._rows: list[Mapping[str, Any]] = []
        self._recent: list[pa.RecordBatch] = []
        self._whole = _File(path, schema, compression="zstd")
        self._tails = [_File(tail_of(path, turn), schema) for turn in (0, 1)]
        self._turn = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; None is null."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Bring all rows to the file system: whoever reads from now on sees them."""
        if not self._rows:
            return
        columns = [_column([row[f.name] for row in self._rows], f.type) for f in self._schema]
        self._rows = []
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if not self._recent:
            self._tails[self._turn].empty()
        self._recent.append(batch)
        self._tails[self._turn].write(batch)
        if sum(map(len, self._recent)) >= LARGE_ROWS:
            self._settle()

    def close(self) -> None:
        """End the file; the tails are gone then, unless that failed."""
        try:
            with ExitStack() as stack:
                for file in (self._whole, *self._tails):
                    stack.callback(file.close)
                self.flush()
                self._settle()
            for turn in (0, 1):
                with suppress(FileNotFoundError):
                    os.unlink(tail_of(self._path, turn).name, dir_fd=self._folder)
        finally:
            os.close(self._folder)

    def _settle(self) -> None:
        """Write what the tail holds as one large batch, and go on in the other tail."""
        if not self._recent:
            return
        table = pa.Table.from_batches(self._recent, self._schema).combine_chunks()
        for batch in table.to_batches():
            self._whole.write(batch)
        self._recent = []
        self._turn = 1 - self._turn


class _File:
    """One Arrow IPC stream in a file that stays open."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        self._schema = schema
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._file = path.open("wb")
        self._writer = self._begin()

    def _begin(self) -> Any:
        return pa.ipc.new_stream(self._file, self._schema, options=self._options)

    def empty(self) -> None:
        """Begin the stream anew."""
        self._file.seek(0)
        self._file.truncate()
        self._writer = self._begin()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch; it has reached the file system when this returns."""
        self._writer.write_batch(batch, {CHECKSUM: str(checksum(batch))})
        self._file.flush()

    def close(self) -> None:
        """End the stream and the file."""
        try:
            self._writer.close()
        finally:
            self._file.close()


def tail_of(path: Path, turn: int) -> Path:
    """Return the path of one of the two tails beside NAME.arrows."""
    return path.with_name(f"{path.stem}.tail-{turn}{path.suffix}")


def checksum(batch: pa.RecordBatch) -> int:
    """Return the CRC-32 of the numbers in a batch and of which of them are missing.

    Raises:
        TypeError, ValueError: a column is not of numbers.
    """
    found = 0
    for column in batch.columns:
        rows, width = len(column), column.type.bit_width // 8
        validity, values = column.buffers()
        valid = np.ones(rows, np.uint8)
        if validity is not None:
            valid = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[:rows]
        numbers = np.frombuffer(values, np.uint8)[: rows * width].reshape(rows, width)
        found = zlib.crc32((numbers * valid[:, None]).tobytes(), zlib.crc32(valid.tobytes(), found))
    return found


def _column(values: Sequence[float | None], kind: pa.DataType) -> pa.Array:
    """Return a column of numbers, None as null.

    By its buffers: pyarrow's own way from a list imports pandas where that is installed, which
    takes the engine's thread up to seconds.
    """
    valid = np.array([value is not None for value in values])
    numbers = np.array([0 if value is None else value for value in values], NUMPY[str(kind)])
    if kind == pa.float32():
        bits = numbers.view(np.uint32)
        bits += LAST_BITS // 2  # to the nearest: over many rows nothing is lost
        bits &= ~np.uint32(LAST_BITS)
    buffers = [np.packbits(valid, bitorder="little"), numbers]
    return pa.Array.from_buffers(kind, len(values), [pa.py_buffer(each) for each in buffers])
