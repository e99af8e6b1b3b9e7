"""Exports: every table in every format, the same when read back, by the tools the manual names."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from conftest import ROOT, Run
from runs import RAILS, write_run

from orin_gov.record.dictionary import (
    TABLES,
    dictionary_markdown,
    dictionary_rows,
    schema_of,
)
from orin_gov.record.export import FORMATS, export, keys_of
from orin_gov.record.run import read_run
from orin_gov.record.tidy import MAKERS

MANUAL = ROOT / "docs/export.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def folders(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {to: tmp_path_factory.mktemp("exports") / to for to in FORMATS}
    for to, folder in made.items():
        export({"run": read_run(run)}, to, folder)
    return made


def read(folder: Path, to: str, table: str) -> list[dict[str, Any]]:
    file = folder / f"{table}.{to}"
    rows: list[dict[str, Any]]
    if to == "parquet":
        rows = pa.parquet.read_table(file).to_pylist()
    elif to == "json":
        rows = json.loads(file.read_text())
    else:
        types = {each.name: each.type for each in TABLES[table]}
        options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        rows = pa.csv.read_csv(file, convert_options=options).to_pylist()
    return rows


def test_the_tables_tell_the_run(folders: dict[str, Path]) -> None:
    tables = {name: read(folders["parquet"], "parquet", name) for name in TABLES}
    (only,) = tables["runs"]
    assert (only["run"], only["name"], only["complete"]) == ("run", "train.py", True)
    assert only["begin"].isoformat() == "2026-03-01T08:00:00+00:00"
    assert only["energy_change"] == -0.123
    steps = tables["steps"]
    assert [row["step"] for row in steps] == list(range(40))
    assert steps[5]["energy_j"] is None
    assert steps[0]["target_hz"] is None
    assert (steps[30]["target_hz"], steps[30]["begin_s"]) == (918_000_000, pytest.approx(12.0))
    assert steps[30]["begin"].isoformat() == "2026-03-01T08:00:12+00:00"
    of_one = [row for row in tables["phases"] if row["step"] == 1]
    assert sum(row["time_s"] for row in of_one) == pytest.approx(0.4, rel=1e-5)
    assert sum(row["energy_j"] for row in of_one) == pytest.approx(12.0, rel=1e-5)
    totals = [row["energy_j"] for row in tables["rails"] if row["step"] == 1 and row["in_total"]]
    assert sum(totals) == pytest.approx(12.0, rel=1e-5)
    assert {row["rail"] for row in tables["samples"]} == set(RAILS)
    gpu = [row["power_w"] for row in tables["samples"] if row["rail"] == "VDD_GPU_SOC"]
    assert gpu == pytest.approx([25.0] * len(gpu))
    assert sum(row["duration_s"] for row in tables["frequencies"]) == pytest.approx(16.0, abs=0.1)
    assert tables["decisions"][1]["path"] == "clock_share 0.95 > 0.88 and load 0.66 <= 0.71"
    assert tables["measurements"] == []


@pytest.mark.parametrize("to", ["csv", "json"])
def test_every_format_reads_back_as_the_same(folders: dict[str, Path], to: str) -> None:
    for table in TABLES:
        whole = read(folders["parquet"], "parquet", table)
        if to == "json":
            whole = json.loads(json.dumps(whole, default=lambda moment: moment.isoformat()))
        assert read(folders[to], to, table) == whole, table


def test_keys_join(folders: dict[str, Path]) -> None:
    def keys(table: str, *names: str) -> list[tuple[Any, ...]]:
        rows = read(folders["parquet"], "parquet", table)
        return [tuple(row[name] for name in names) for row in rows]

    for table, names in (
        ("runs", ("run",)),
        ("steps", ("run", "step")),
        ("decisions", ("run", "epoch")),
    ):
        found = keys(table, *names)
        assert len(found) == len(set(found))
    for table in set(TABLES) - {"runs"}:
        assert set(keys(table, "run")) <= set(keys("runs", "run"))
    for table in ("phases", "rails"):
        assert set(keys(table, "run", "step")) <= set(keys("steps", "run", "step"))
    assert set(keys("steps", "run", "epoch")) <= set(keys("decisions", "run", "epoch"))


def test_the_dictionary_lies_beside_and_in_the_manual(folders: dict[str, Path]) -> None:
    told = [dict(row) for row in dictionary_rows()]
    assert json.loads((folders["json"] / "dictionary.json").read_text()) == told
    with (folders["csv"] / "dictionary.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == told
    parquet = pa.parquet.read_table(folders["parquet"] / "dictionary.parquet").to_pylist()
    assert parquet == told
    assert MANUAL.read_text().endswith(f"## The columns\n\n{dictionary_markdown()}"), (
        "docs/export.md: put orin_gov.record.dictionary.dictionary_markdown() under The columns"
    )
    schema = pa.parquet.read_schema(folders["parquet"] / "steps.parquet")
    assert schema.field("energy_j").metadata[b"unit"] == b"J"
    assert set(MAKERS) == set(TABLES)


def blocks(title: str) -> list[str]:
    section = MANUAL.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def run_block(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (folder.parent / "tables").unlink(missing_ok=True)
    (folder.parent / "tables").symlink_to(folder)
    monkeypatch.chdir(folder.parent)
    names: dict[str, Any] = {}
    for block in blocks(title):
        exec(block, names)
    return names


def test_what_the_manual_does_with_pandas_works(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    names = run_block("pandas", folders["parquet"], monkeypatch)
    assert names["energy_per_work"].loc["run", True] == pytest.approx(12.0 / 32.0)
    assert names["shares"].loc["run"].sum() == pytest.approx(1.0)
    assert str(names["steps"]["begin"].dtype) == "datetime64[us, UTC]"


def test_what_the_manual_does_with_duckdb_works(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    names = run_block("DuckDB", folders["parquet"], monkeypatch)
    assert names["at_clocks"] == [("train.py", 918.0, pytest.approx(16.0, abs=0.1))]
    assert names["outcomes"] == [(1, "the tree", 0.1, 0.12)]
    whole = duckdb.sql(f"SELECT * FROM '{folders['parquet']}/steps.parquet'")
    for to, reader in (("csv", "read_csv"), ("json", "read_json")):
        same = duckdb.sql(
            f"SELECT sum(energy_j), count(begin) FROM {reader}('{folders[to]}/steps.{to}')"
        )
        assert same.fetchall() == [(pytest.approx(12.0 * 39), 40)]
    assert dict(zip(whole.columns, map(str, whole.types), strict=True))["target_hz"] == "BIGINT"


def test_several_runs_go_into_the_same_tables(orin_gov: Run, tmp_path: Path) -> None:
    first = write_run(tmp_path / "a/run")
    second = write_run(tmp_path / "b/run", ended=False)
    (second / "samples.arrows").unlink()
    done = orin_gov("export", first, second, "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"]["steps"] == 80
    assert told["notes"]["run-1"] == []
    assert len(told["notes"]["run-2"]) == 2
    rows = read(tmp_path / "out", "parquet", "runs")
    assert [(row["run"], row["complete"], row["steps"]) for row in rows] == [
        ("run-1", True, 40),
        ("run-2", False, 40),
    ]
    again = orin_gov("export", first, "-o", tmp_path / "out")
    assert again.returncode == 125
    assert "exists already and is left alone" in again.stderr


def test_another_format_is_an_error_that_names_those_there_are(
    orin_gov: Run, run: Path, tmp_path: Path
) -> None:
    done = orin_gov("export", run, "--to", "xlsx", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "expected parquet, csv, json" in done.stderr


def test_a_characterization_has_its_measurements(orin_gov: Run, tmp_path: Path) -> None:
    words = ("--workload", "bert-tiny/sst2", "--freqs", "306,1122", "--repeats", 2, "-o", "sweep")
    orin_gov("characterize", "--board", "virtual:agx-orin-64gb", *words)
    done = orin_gov("export", "sweep", "-o", "out")
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "out", "parquet", "measurements")
    assert {(row["run"], row["target_hz"]) for row in rows} == {
        ("sweep", None),
        ("sweep", 306_000_000),
        ("sweep", 1_122_000_000),
    }
    assert len(rows) == 6


def test_names_that_are_the_same_are_told_apart() -> None:
    assert keys_of(["a", "b", "a"]) == ["a-1", "b", "a-2"]
    assert schema_of("runs").names[0] == "run"
