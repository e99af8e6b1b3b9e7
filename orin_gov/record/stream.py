"""Tables on disk that grow row by row: small when long, and whole after a crash.

NAME.arrows holds large compressed batches. What is newer lies in small batches in a tail beside it,
NAME.tail-0.arrows or NAME.tail-1.arrows by turns, until there is enough of it for a large one. A
tail is emptied only when the next one is full: by then what it held is long on the disk as well.
At the end both are gone.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BATCH_ROWS = 200
"""Rows that are kept in memory at most, where nobody asks for a flush."""

LARGE_ROWS = 1000
"""Rows of a large batch: 50 s of samples, longer than a kernel keeps what was written in memory."""

NUMPY = {"int64": np.int64, "float": np.float32, "double": np.float64}
"""numpy's types by pyarrow's names of the types that the tables' columns have."""


class Stream:
    """A table that rows are appended to. Not thread-safe."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._rows: list[Mapping[str, Any]] = []
        self._recent: list[pa.RecordBatch] = []
        self._whole = _File(path, schema, compression="zstd")
        self._turn = 0
        self._tail: _File | None = None

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
        self._recent.append(batch)
        if self._tail is None:
            self._tail = _File(tail_of(self._path, self._turn), self._schema)
        self._tail.write(batch)
        if sum(map(len, self._recent)) >= LARGE_ROWS:
            self._settle()

    def close(self) -> None:
        """End the file; the tails are gone then."""
        try:
            self.flush()
            self._settle()
        finally:
            self._whole.close()
        for turn in (0, 1):
            with suppress(FileNotFoundError):
                tail_of(self._path, turn).unlink()

    def _settle(self) -> None:
        """Write what the tail holds as one large batch, and begin the other tail."""
        if self._recent:
            table = pa.Table.from_batches(self._recent, self._schema).combine_chunks()
            for batch in table.to_batches():
                self._whole.write(batch)
        self._recent = []
        if self._tail is not None:
            self._tail.close()
        self._tail, self._turn = None, 1 - self._turn


class _File:
    """One Arrow IPC stream file."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        self._sink = pa.OSFile(str(path), "wb")
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer = pa.ipc.new_stream(self._sink, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._sink.close()


def tail_of(path: Path, turn: int) -> Path:
    """Return the path of one of the two tails beside NAME.arrows."""
    return path.with_name(f"{path.stem}.tail-{turn}{path.suffix}")


def _column(values: Sequence[float | None], kind: pa.DataType) -> pa.Array:
    """Return a column of numbers, None as null.

    By its buffers: pyarrow's own way from a list imports pandas where that is installed, which
    takes the engine's thread up to seconds.
    """
    valid = np.array([value is not None for value in values])
    numbers = np.array([0 if value is None else value for value in values], NUMPY[str(kind)])
    buffers = [np.packbits(valid, bitorder="little"), numbers]
    return pa.Array.from_buffers(kind, len(values), [pa.py_buffer(each) for each in buffers])
