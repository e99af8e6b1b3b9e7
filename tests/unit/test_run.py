"""Reading a run that is being written, was cut off, is of another version, or lacks something."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import without_rights
from runs import RAILS, write_run

from orin_gov.errors import RunDirectoryError
from orin_gov.record.export import export
from orin_gov.record.recovered import figures_of
from orin_gov.record.run import FILES, is_characterization, read_run, strange_records
from orin_gov.view.facts import board_facts, headline, quality_facts
from orin_gov.view.rows import decision_rows, rail_rows


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_a_whole_run_reads_without_a_note(run: Path) -> None:
    found = read_run(run)
    assert found.notes == ()
    assert (found.name, found.identity) == ("train.py", "run")
    assert (found.steps.num_rows, len(found.decisions)) == (40, 4)
    assert found.rails == list(RAILS)
    assert found.total_rails == list(RAILS[:3])
    assert found.started is not None
    assert found.started.isoformat() == "2026-03-01T08:00:00+00:00"
    assert not is_characterization(run)


def test_a_run_without_an_end_tells_its_figures_from_its_records(run: Path) -> None:
    for each in (write_run(run.with_name("cut"), ended=False), run):
        (each / "summary.json").unlink(missing_ok=True)
        check_without_an_end(each)


def check_without_an_end(run: Path) -> None:
    found = read_run(run)
    (note,) = found.notes
    assert note.startswith("summary.json is missing: the run goes on, or was cut off; last written")
    figures = figures_of(found)
    assert (figures["steps"], figures["steps_with_energy"]) == (40, 39)
    assert figures["step_energy_j"] == pytest.approx(12.0)
    assert (figures["windows_governed"], figures["windows_baseline"]) == (2, 2)
    # (116, 114) joules against (120, 118), of the same work.
    assert figures["energy_change"]["value"] == pytest.approx(115 / 119 - 1, abs=1e-3)
    assert figures["clock_s"] == {"918000000": pytest.approx(16.0, abs=0.1)}


@pytest.mark.parametrize("name", ["samples", "steps", "decisions"])
def test_a_file_cut_anywhere_is_read_to_its_last_whole_record(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run", ended=False)
    file = run / ("decisions.jsonl" if name == "decisions" else f"{name}.tail-0.arrows")
    whole = file.read_bytes()
    most = 0
    for length in range(0, len(whole), max(1, len(whole) // 25)):
        file.write_bytes(whole[:length])
        found = read_run(run)
        rows = {
            "samples": found.samples.num_rows,
            "steps": found.steps.num_rows,
            "decisions": len(found.decisions),
        }[name]
        assert rows >= most
        most = rows
    assert most > 0


def test_zeros_after_a_power_loss_are_no_records(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ended=False)
    for name in ("samples.tail-0.arrows", "steps.tail-0.arrows", "decisions.jsonl"):
        file = run / name
        content = file.read_bytes()
        file.write_bytes(content[: len(content) * 2 // 3] + bytes(4096))
    found = read_run(run)
    assert len(found.decisions) == 2
    assert found.steps.num_rows in (10, 20, 30)


def test_windows_that_heat_has_touched_are_in_no_comparison(run: Path) -> None:
    (run / "summary.json").unlink()
    lines = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    lines[3]["measured"]["disturbed"] = "heat"
    (run / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_run(run)
    figures = figures_of(found)
    assert (figures["windows_governed"], figures["windows_baseline"]) == (1, 2)
    rows, _ = decision_rows(found)
    assert [row["disturbed"] for row in rows] == ["", "", "", "heat"]


@pytest.mark.parametrize(("version", "says"), [(2, "newer"), (0, "older")])
def test_another_version_is_told_and_shown(run: Path, version: int, says: str) -> None:
    content = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**content, "version": version}))
    found = read_run(run)
    (note,) = found.notes
    assert f"manifest.json is of version {version}" in note
    assert says in note
    assert found.name == "train.py"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_told_and_the_rest_is_read(run: Path, name: str) -> None:
    (run / name).unlink()
    found = read_run(run)
    (note,) = found.notes
    assert note.startswith(f"{name} is missing")
    assert found.origin_ns > 0
    assert figures_of(found)["steps"] == (40 if name != "steps.arrows" or found.summary else 0)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]\n", b'{"a": 1}\n{\n'])
def test_a_damaged_file_is_told_and_never_an_exception(
    run: Path, name: str, content: bytes
) -> None:
    (run / name).write_bytes(content)
    found = read_run(run)
    told = [note for note in found.notes if note.startswith(name)]
    assert told or (name, content) == ("decisions.jsonl", b"")  # a run without a decision is one
    figures_of(found)


def test_a_table_of_other_columns_is_told_and_not_shown(run: Path) -> None:
    other = pa.table({"step": [1], "energy_j": [2.0]})
    with (
        pa.OSFile(str(run / "steps.arrows"), "wb") as sink,
        pa.ipc.new_stream(sink, other.schema) as writer,
    ):
        writer.write_table(other)
    found = read_run(run)
    assert found.notes == ("steps.arrows has no begin_ns, end_ns, duration_s: it is not shown",)
    assert found.steps.num_rows == 0


def test_a_file_that_may_not_be_read_is_told(run: Path) -> None:
    (run / "steps.arrows").chmod(0)
    code = (
        "import sys; from pathlib import Path; from orin_gov.record.run import read_run\n"
        "print(*read_run(Path(sys.argv[1])).notes, sep='\\n')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        without_rights([sys.executable, "-c", code, str(run)]),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "steps.arrows may not be read: ask its owner, or use sudo\n"


def test_a_closed_folder_is_told_in_a_line_by_every_command(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    write_run(closed / "run")
    closed.chmod(0)
    code = (
        "import sys; from orin_gov.commands import main\n"
        "for words in (['report'], ['explain'], ['replay'], ['export', '-o', 'out']):\n"
        "    print(main([*words, 'closed/run']))"
    )
    done = subprocess.run(
        without_rights([sys.executable, "-c", code]),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    closed.chmod(0o755)
    assert len(done.stdout.split()) == 4, done.stderr
    told = done.stderr.splitlines()
    assert len(told) == 4, done.stderr
    assert all("closed/run" in line and "Permission denied" in line for line in told), told


def test_what_is_no_run_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is no run directory: it has none of manifest"):
        read_run(tmp_path)
    with pytest.raises(RunDirectoryError, match="No such file"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="Not a directory"):
        read_run(tmp_path / "file")


STRANGE = [None, [], {}, "x", -1, 1e400, "\ud800", {"a": []}, [[1]], "$\\frac{", "<script>"]


@pytest.mark.parametrize("value", STRANGE, ids=repr)
def test_values_of_another_kind_are_shown_or_told_and_never_a_traceback(
    run: Path, tmp_path: Path, value: object
) -> None:
    """A stranger's directory: each key in turn holds what it never holds."""
    whole = {
        name: json.loads((run / name).read_text()) for name in ("manifest.json", "summary.json")
    }
    for name, content in whole.items():
        for number, key in enumerate(content):
            if key == "version":
                continue
            (run / name).write_text(json.dumps({**content, key: value}))
            found = read_run(run)
            assert isinstance(found.name, str)
            with suppress(RunDirectoryError):
                export({"run": found}, "json", tmp_path / f"{name}-{number}")
            with suppress(RunDirectoryError), strange_records(run):
                list(board_facts(found))
                figures = figures_of(found)
                headline(figures)
                list(quality_facts(figures))
                rail_rows(found, figures)
        (run / name).write_text(json.dumps(content))


def test_decisions_nested_beyond_reason_are_damage(run: Path) -> None:
    (run / "decisions.jsonl").write_text("[" * 100_000 + "]" * 100_000 + "\n")
    (run / "summary.json").write_text("[" * 100_000)
    notes = read_run(run).notes
    assert len(notes) == 2
    assert all("is damaged" in note for note in notes)
