"""Reading the tables of a run directory, as far as they go."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from orin_gov.record.stream import CHECKSUM, checksum, tail_of


def read_table(path: Path, key: str) -> tuple[pa.Table | None, str | None]:
    """Return the rows of NAME.arrows and of its tails, and what is wrong with them.

    `key` is a column that grows from row to row. None stands for a table of which nothing can be
    read, not even its columns.
    """
    # The tails first: what is moved on meanwhile is then found twice, and never missed.
    tails = [read_stream(tail) for turn in (0, 1) if (tail := tail_of(path, turn)).exists()]
    table, note = read_stream(path)
    parts = [part for part, _ in tails if part is not None and key in part.column_names]
    for part in sorted(
        (part for part in parts if part.num_rows), key=lambda each: each[key][0].as_py()
    ):
        if table is None or key not in table.column_names:
            table = part
            continue
        if table.num_rows:
            part = part.filter(pc.greater(part[key], table[key][-1]))
        table = pa.concat_tables([table, part], promote_options="default")
    if table is None and parts:
        table = parts[0]
    notes = [note if table is None or not _is_new(note) else None]
    notes += [each for _, each in tails if not _is_new(each)]
    return table, "; ".join(filter(None, notes)) or None


def _is_new(note: str | None) -> bool:
    return note is not None and note.endswith(NOTHING_YET)


NOTHING_YET = "nothing was written to it yet"


def read_stream(file: Path) -> tuple[pa.Table | None, str | None]:
    """Return the rows of an Arrow stream up to the last whole batch, and what is wrong with it.

    None stands for a table of which nothing can be read, not even its columns.
    """
    try:
        # Not memory-mapped: a file that shrinks meanwhile would kill us with SIGBUS.
        content = pa.BufferReader(file.read_bytes())
    except FileNotFoundError:
        return None, f"{file.name} is missing"
    except PermissionError:
        return None, f"{file.name} may not be read: ask its owner, or use sudo"
    except OSError as error:
        return None, f"{file.name} cannot be read: {error.strerror}"
    if not content.size():
        return None, f"{file.name} is empty: {NOTHING_YET}"
    batches = []
    try:
        reader = pa.ipc.open_stream(content)
        schema = reader.schema
        if not schema.names:
            raise ValueError("it has no columns")
    except (pa.ArrowException, OSError, ValueError) as error:
        return None, f"{file.name} is damaged: {_first_line(error)}"
    try:
        for batch in _whole_batches(reader):
            batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        why: str | None = _first_line(error)
    else:
        # Of a batch's first bytes, some are an end in their own right where zeros follow them.
        why = "what follows is no row" if content.tell() < content.size() else None
    table = pa.Table.from_batches(batches, schema)
    return table, why and f"{file.name} ends after {table.num_rows} rows: {why}"


def _whole_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; one whose checksum does not match is a ValueError."""
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        batch.validate(full=True)
        told = (metadata or {}).get(CHECKSUM)  # an older record has none
        if told is not None and told != str(checksum(batch)).encode():
            raise ValueError("the next ones were not written in full")
        yield batch


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
