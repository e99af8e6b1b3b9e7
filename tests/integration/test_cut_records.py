"""A real run's directory after a power loss: any of its files cut at any byte, or ending in zeros.

What is complete is shown, what is not is told, and no command ends in a traceback.
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import VIRTUAL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_gov.commands import main
from orin_gov.record.run import read_run

PATIENCE_S = 90.0
EPOCHS = 4
ZEROS = bytes(4096)
START = """
import sys
from orin_gov.commands import main
from orin_gov.record import stream
stream.LARGE_ROWS = 100  # as it is after minutes: large batches, and both tails
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

    `ends` says by file up to which byte it must be there, so that the rows of these keys are in it.
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
    """Return the files' content once enough was decided, and both tables have large batches."""
    decisions = run / "decisions.jsonl"
    if not decisions.exists() or decisions.read_bytes().count(b"\n") < EPOCHS:
        return None
    return {file.name: file.read_bytes() for file in run.iterdir()}


def ends_of(name: str, content: bytes) -> list[tuple[int, set[int]]]:
    """Return where each complete part of a file ends, and the keys of the rows that are in it."""
    if name.endswith(".jsonl"):
        lines = content.splitlines(keepends=True)
        return [(sum(map(len, lines[: n + 1])), {n}) for n in range(len(lines))]
    if not name.endswith(".arrows") or not content:
        return []
    source, found = pa.BufferReader(content), []
    with contextlib.suppress(StopIteration):
        reader = pa.ipc.open_stream(source)
        while True:
            batch = reader.read_next_batch()
            found.append((source.tell(), {*batch.column(0).to_pylist()}))
    return found


def kept(record: Record, name: str, lengths: dict[str, int]) -> set[int]:
    """Return the keys of the rows that are whole in what is left of NAME and its tails."""
    return {
        key
        for file, ends in record.ends.items()
        if file.split(".")[0] == name
        for end, keys in ends
        if end <= lengths[file]
        for key in keys
    }


def said(*words: object) -> tuple[int, str]:
    """Run a command here; return its exit code and all that it said."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main([str(word) for word in words])
    return code, told.getvalue()


@contextlib.contextmanager
def cut(record: Record, folder: Path, lengths: dict[str, int], zeros: bool) -> Iterator[Path]:
    """Lay the record down, each file cut to its length and filled with zeros where that is asked."""
    run = folder / "run"
    run.mkdir()
    for name, content in record.files.items():
        left = content[: lengths[name]]
        lost = len(content) - len(left)
        (run / name).write_bytes(left + (bytes(lost) or ZEROS if zeros else b""))
    try:
        yield run
    finally:
        shutil.rmtree(folder / "run")
        shutil.rmtree(folder / "out", ignore_errors=True)


def lengths_of(record: Record, data: st.DataObject) -> dict[str, int]:
    """Draw a length for each file: most often whole, so that cuts come alone and together."""
    return {
        name: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))), name)
        for name, content in record.files.items()
    }


def check(record: Record, folder: Path, lengths: dict[str, int], zeros: bool) -> None:
    with cut(record, folder, lengths, zeros) as path:
        run = read_run(path)
        steps = run.steps["step"].to_pylist() if run.steps.num_rows else []
        times = run.samples["t_ns"].to_pylist() if run.samples.num_rows else []
        assert len(run.decisions) == len(kept(record, "decisions", lengths))
        assert kept(record, "steps", lengths) == {*steps}
        assert kept(record, "samples", lengths) == {*times}
        assert steps == sorted(steps)
        assert times == sorted(times)
        told = [said("explain", path), said("export", path, "--to", "json", "-o", folder / "out")]
        told += [said("top", path), said("replay", path, "--json")]
        for code, text in told:
            assert code in (0, 125), text
            assert "Traceback" not in text
        exported = json.loads((folder / "out/steps.json").read_text())
        assert [row["step"] for row in exported] == steps


SLOWLY = settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@SLOWLY
@given(data=st.data(), zeros=st.booleans())
def test_cut_at_any_byte_everything_complete_is_shown(
    record: Record, tmp_path: Path, data: st.DataObject, zeros: bool
) -> None:
    check(record, tmp_path, lengths_of(record, data), zeros)


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
