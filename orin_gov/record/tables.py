"""Reading the Arrow streams of a run directory, as far as they go."""

from pathlib import Path

import pyarrow as pa


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
        return None, f"{file.name} is empty: nothing was written to it yet"
    batches = []
    try:
        reader = pa.ipc.open_stream(content)
        schema = reader.schema
    except (pa.ArrowException, OSError, ValueError) as error:
        return None, f"{file.name} is damaged: {_first_line(error)}"
    try:
        for batch in reader:
            batch.validate(full=True)
            batches.append(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        table = pa.Table.from_batches(batches, schema)
        return table, f"{file.name} ends after {table.num_rows} rows: {_first_line(error)}"
    return pa.Table.from_batches(batches, schema), None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
