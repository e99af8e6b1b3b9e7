"""Writing tidy tables as files that other tools take as they are."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from orin_gov.errors import RunDirectoryError, UsageError
from orin_gov.record.dictionary import TABLES, dictionary_rows, schema_of
from orin_gov.record.run import Run, strange_records
from orin_gov.record.tidy import MAKERS


class Writer(Protocol):
    """A file that tables of one schema are appended to."""

    def write_table(self, table: pa.Table) -> object:
        """Append a table."""

    def close(self) -> object:
        """End the file."""


class JsonWriter:
    """A JSON array of objects, one a line; moments are ISO 8601, missing is null."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._file.write("[")
        self._before = "\n"

    def write_table(self, table: pa.Table) -> None:
        """Append the rows of a table."""
        for batch in table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                self._file.write(self._before + json.dumps(row, default=lambda t: t.isoformat()))
                self._before = ",\n"

    def close(self) -> None:
        """End the array and the file."""
        self._file.write("\n]\n")
        self._file.close()


def _parquet(path: Path, schema: pa.Schema) -> Writer:
    writer: Writer = pa.parquet.ParquetWriter(str(path), schema, compression="zstd")
    return writer


def _csv(path: Path, schema: pa.Schema) -> Writer:
    writer: Writer = pa.csv.CSVWriter(str(path), schema)
    return writer


FORMATS: Mapping[str, Callable[[Path, pa.Schema], Writer]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": JsonWriter,
}


def export(
    runs: Mapping[str, Run], to: str, folder: Path, tell: Callable[[str], None] = lambda table: None
) -> dict[str, int]:
    """Write every table of the dictionary, and the dictionary itself; return rows by table.

    `runs` are by their key. `tell` is called with each table's name before it is written.

    Raises:
        UsageError: there is no such format.
        RunDirectoryError: the folder cannot be written to, or holds such files already.
    """
    if to not in FORMATS:
        raise UsageError(f"--to is {to!r}, expected {', '.join(FORMATS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*TABLES, "dictionary"):
            if (folder / f"{name}.{to}").exists():
                raise RunDirectoryError(
                    f"{folder / name}.{to} exists already and is left alone; name another --output"
                )
        counts = {}
        for name in TABLES:
            tell(name)
            counts[name] = _write(folder / f"{name}.{to}", to, name, runs)
        _write_dictionary(folder / f"dictionary.{to}", to)
    except OSError as error:
        raise RunDirectoryError(
            f"cannot write to {folder}: {error.strerror or error}; name another --output"
        ) from error
    return counts


def _write(path: Path, to: str, name: str, runs: Mapping[str, Run]) -> int:
    writer = FORMATS[to](path, schema_of(name))
    rows = 0
    try:
        for key, run in runs.items():
            with strange_records(run.path):
                for part in MAKERS[name](run, key):
                    writer.write_table(part)
                    rows += part.num_rows
    finally:
        writer.close()
    return rows


def _write_dictionary(path: Path, to: str) -> None:
    table = pa.Table.from_pylist(list(dictionary_rows()))
    writer = FORMATS[to](path, table.schema)
    writer.write_table(table)
    writer.close()


def keys_of(names: Sequence[str]) -> list[str]:
    """Return a key by run: its name, with a number where several are called the same."""
    return [
        f"{name}-{names[:index].count(name) + 1}" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def as_text(counts: Mapping[str, int]) -> Any:
    """Return the rows by table in words."""
    return ", ".join(f"{name} {rows:,}" for name, rows in counts.items() if rows)
