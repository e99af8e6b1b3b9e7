"""A real run's directory after a power loss: any of its files cut at any byte, or ending in zeros.

What is complete is shown, what is not is told, and no command ends in a traceback.
"""

import contextlib
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from conftest import VIRTUAL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_gov.commands import main
from orin_gov.record.dictionary import TABLES
from orin_gov.record.recovered import figures_of
from orin_gov.record.run import Run, read_run

Rows = dict[int, dict[str, Any]]
Lengths = dict[str, int]

PATIENCE_S = 90.0
EPOCHS = 4
ZEROS = bytes(4096)
DAMAGE = re.compile(r"(\S+\.\w+) (?:is damaged|ends after)")
START = """
import sys
from orin_gov.commands import main
from orin_gov.record import stream
stream.LARGE_ROWS = 50  # as it is after minutes: large batches, and both tails
sys.exit(main(sys.argv[1:]))
"""
JOB = """
import time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    time.sleep(0.02)
    loss.backward()
    optimizer.step()
"""


class Record:
    """A record under way, as it lay on the disk, and how much of each file is of use.

    `ends` says by file up to which byte it must be there, so that these rows, by key, are in it.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.ends = {name: ends_of(name, content) for name, content in files.items()}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Return what a run had on the disk the moment before a power loss."""
    folder = tmp_path_factory.mktemp("cut")
    (folder / "job.py").write_text(JOB)
    words: list[object] = [
        "run",
        "--board",
        VIRTUAL,
        "--epoch",
        "1s",
        "-o",
        folder / "run",
        folder / "job.py",
    ]
    words = [sys.executable, "-c", START, *map(str, words)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while not (files := snapshot(folder / "run")):
            assert process.poll() is None, "the run has ended"
            assert time.monotonic() < deadline_s, "nothing was decided"
            time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()
    return Record(files)


def snapshot(run: Path) -> dict[str, bytes] | None:
    """Return the files' content once enough was decided, and both tables have rows in all files."""
    decisions = run / "decisions.jsonl"
    if not decisions.exists() or decisions.read_bytes().count(b"\n") < EPOCHS:
        return None
    files = {file.name: file.read_bytes() for file in run.iterdir()}
    tables = (ends_of(name, files[name]) for name in files if name.endswith(".arrows"))
    return files if all(len(ends) > 1 for ends in tables) else None


def ends_of(name: str, content: bytes) -> list[tuple[int, Rows]]:
    """Return where each complete part of a file ends, and the rows that are in it."""
    if name.endswith(".jsonl"):
        lines = content.splitlines(keepends=True)
        ends = itertools.accumulate(map(len, lines))
        return [(end, {n: json.loads(lines[n])}) for n, end in enumerate(ends)]
    if not name.endswith(".arrows") or not content:
        return []
    source, found = pa.BufferReader(content), list[tuple[int, Rows]]()
    with contextlib.suppress(StopIteration):
        reader = pa.ipc.open_stream(source)
        found.append((source.tell(), {}))
        while True:
            batch = reader.read_next_batch()
            rows = zip(batch.column(0).to_pylist(), batch.to_pylist(), strict=True)
            found.append((source.tell(), dict(rows)))
    return found


def kept(record: Record, name: str, lengths: Lengths) -> list[Any]:
    """Return the rows that are whole in what is left of NAME and its tails, each once, in order."""
    rows = {
        key: row
        for file, ends in record.ends.items()
        if file.split(".")[0] == name
        for end, part in ends
        if end <= lengths[file]
        for key, row in part.items()
    }
    return [rows[key] for key in sorted(rows)]


def damaged(record: Record, lengths: Lengths, zeros: bool) -> set[str]:
    """Return the tables that do not end with a batch; a line of which a part is left is no damage."""
    return {
        name
        for name, ends in record.ends.items()
        if name.endswith(".arrows")
        if zeros or (lengths[name] and lengths[name] not in {end for end, _ in ends})
    }


def said(*words: object) -> tuple[int, str]:
    """Run a command here; return its exit code and all that it said."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main([str(word) for word in words])
    return code, told.getvalue()


@contextlib.contextmanager
def cut(record: Record, folder: Path, lengths: Lengths, zeros: bool) -> Iterator[Path]:
    """Lay the record down, each file cut to its length and filled with zeros where that is asked."""
    run = folder / "run"
    run.mkdir()
    for name, content in record.files.items():
        left = content[: lengths[name]]
        lost = len(content) - len(left)
        (run / name).write_bytes(left + (bytes(lost) + ZEROS if zeros else b""))
    try:
        yield run
    finally:
        shutil.rmtree(folder / "run")
        shutil.rmtree(folder / "out", ignore_errors=True)


def whole(record: Record) -> Lengths:
    return {name: len(content) for name, content in record.files.items()}


def lengths_of(record: Record, data: st.DataObject) -> Lengths:
    """Draw a length for each file: most often whole, so that cuts come alone and together."""
    return {
        name: data.draw(st.one_of(st.just(length), st.integers(0, length)), name)
        for name, length in whole(record).items()
    }


def as_read(record: Record, lengths: Lengths, zeros: bool) -> Lengths:
    """Return up to where each file is as it was: zeros that replace zeros have changed nothing."""
    ends = dict(lengths)
    for name, content in record.files.items():
        while zeros and content[ends[name] : ends[name] + 1] == b"\0":
            ends[name] += 1
    return ends


def column(table: pa.Table, name: str) -> list[Any]:
    """Return a column's values, none where the table itself is missing."""
    found: list[Any] = table[name].to_pylist() if table.num_columns else []
    return found


def check(record: Record, path: Path, lengths: Lengths, zeros: bool) -> Run:
    """Read the run: what is complete is there, and what is not is told of."""
    run = read_run(path)
    lengths = as_read(record, lengths, zeros)
    steps, samples, decisions = (
        kept(record, name, lengths) for name in ("steps", "samples", "decisions")
    )
    assert run.steps.to_pylist() == steps
    assert run.samples.to_pylist() == samples
    assert run.decisions == decisions
    told = {name for note in run.notes for name in DAMAGE.findall(note)}
    assert told - {"manifest.json"} == damaged(record, lengths, zeros)
    assert any(note.startswith("summary.json is missing") for note in run.notes)
    figures = figures_of(run)
    joules = [row["energy_j"] for row in steps if row["energy_j"] is not None]
    assert (figures["steps"], figures["steps_with_energy"]) == (len(steps), len(joules))
    assert figures["steps_energy_j"] == (pytest.approx(sum(joules)) if joules else None)
    assert figures["epochs"] == len(decisions)
    return run


def check_commands(path: Path, out: Path, run: Run) -> None:
    """Ask every command that reads a run: each shows what there is, or says why not."""
    told = {name: said(name, path) for name in ("explain", "top")}
    told["replay"] = said("replay", path, "--json")
    told["export"] = said("export", path, "--to", "json", "-o", out)
    for code, text in told.values():
        assert code in (0, 125), text
        assert "Traceback" not in text
    for note in run.notes:
        words = note.split(";")[0]  # what follows may be an age
        assert words in told["explain"][1]
        assert words in told["export"][1]
    lines = [line for line in told["explain"][1].splitlines() if line.startswith("epoch ")]
    assert len(lines) == len(run.decisions)
    assert told["explain"][0] == (0 if run.decisions else 125)
    exported = {name: json.loads((out / f"{name}.json").read_text()) for name in TABLES}
    assert [row["step"] for row in exported["steps"]] == column(run.steps, "step")
    assert len(exported["samples"]) == run.samples.num_rows * len(run.rails)
    assert [row["epoch"] for row in exported["decisions"]] == [*range(len(run.decisions))]


SLOWLY = settings(
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@SLOWLY
@given(data=st.data(), zeros=st.booleans())
def test_cut_at_any_byte_everything_complete_is_shown(
    record: Record, tmp_path: Path, data: st.DataObject, zeros: bool
) -> None:
    lengths = lengths_of(record, data)
    with cut(record, tmp_path, lengths, zeros) as path:
        check_commands(path, tmp_path / "out", check(record, path, lengths, zeros))


@pytest.mark.parametrize("zeros", [False, True])
def test_cut_just_before_each_end_of_a_record_that_one_is_not_shown(
    record: Record, tmp_path: Path, zeros: bool
) -> None:
    """A line is whole JSON without its end, and a batch has all its rows but for a byte."""
    for name, ends in record.ends.items():
        for length in {0, 1, *(end - less for end, _ in ends for less in (0, 1, 9))}:
            lengths = {**whole(record), name: length}
            with cut(record, tmp_path, lengths, zeros) as path:
                check(record, path, lengths, zeros)


@pytest.mark.parametrize("name", ["manifest.json", "steps.arrows", "samples.arrows"])
def test_every_command_makes_do_without_a_file(record: Record, tmp_path: Path, name: str) -> None:
    with cut(record, tmp_path, whole(record), False) as path:
        for file in path.glob(f"{name.split('.')[0]}.*"):
            file.unlink()
        run = read_run(path)
        assert any(note.startswith(f"{name} is missing") for note in run.notes)
        check_commands(path, tmp_path / "out", run)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_all_files_cut_at_once_are_made_a_page_of_or_refused(
    record: Record, tmp_path: Path, share: float, zeros: bool
) -> None:
    lengths = {name: int(len(content) * share) for name, content in record.files.items()}
    with cut(record, tmp_path, lengths, zeros) as path:
        code, text = said("report", path, "-o", tmp_path / "page.html")
    assert code in (0, 125), text
    assert "Traceback" not in text
