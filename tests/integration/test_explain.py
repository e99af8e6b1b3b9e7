"""`orin-gov explain`: a policy as text, and each decision of a run."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import VIRTUAL, command
from runs import write_run

from orin_gov.deciding import load_policy
from orin_gov.policy.decision import State
from orin_gov.policy.objective import Objective
from orin_gov.policy.tree import Leaf
from orin_gov.record.kept import kept_plan


def test_the_policy_that_ships_is_shown_with_its_card(orin_gov) -> None:
    done = orin_gov("explain")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("fitted_on: virtual board agx-orin-64gb")
    assert "energy, at most 10% slower:" in lines
    policy = load_policy(None)
    for node in policy.nodes:
        if not isinstance(node, Leaf):
            assert any(f"{node.feature} <= {node.threshold:.3g}" in line for line in lines)
    assert done.stdout.count("-> ") == sum(isinstance(node, Leaf) for node in policy.nodes)


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command("explain"), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_policy_file_is_shown_for_an_objective_and_a_budget(orin_gov, tmp_path: Path) -> None:
    leaf = {"energy": [0.7, 0.88, 1.0], "time": [1.4, 1.03, 1.0], "spread": 1.0, "samples": 9}
    record = {
        "format": "orin_gov policy",
        "version": 2,
        "card": {"fitted_on": "my board", "table_hz": [500e6, 714e6, 1000e6]},
        "clock_shares": [0.5, 0.714, 1.0],
        "nodes": [leaf],
        "deviations": [],
        "rest": 0.01,
    }
    (tmp_path / "own.json").write_text(json.dumps(record))
    done = orin_gov("explain", "own.json", "--objective", "edp")
    assert done.stdout.splitlines() == [
        "fitted_on: my board",
        "table_hz: [500000000.0, 714000000.0, 1000000000.0]",
        "",
        "edp, at most 10% slower:",
        "  -> 714 MHz (energy -12.0%, time +3.0%, from 9 workloads)",
    ]
    done = orin_gov("explain", "own.json", "--max-slowdown", "50%")
    assert "  -> 500 MHz (energy -30.0%, time +40.0%, from 9 workloads)" in done.stdout


STEPS = """
import os, time
from orin_gov.workload.session import current_marker
from orin_gov.phases import FORWARD
marker = current_marker()
for _ in range(60):
    with marker.phase(FORWARD):
        time.sleep(0.05)
    marker.add_work(4)
    marker.step()
"""


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One governed run on the virtual board, long enough for a few decisions."""
    import subprocess

    folder = tmp_path_factory.mktemp("explain")
    (folder / "steps.py").write_text(STEPS)
    words = command("run", "--board", VIRTUAL, "--epoch", "5", "--output", "run", "steps.py")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "(simulated)" in done.stderr
    return folder / "run"


def copied(run: Path, to: Path) -> Path:
    for file in run.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_each_decision_of_a_run_is_told_with_its_reason(orin_gov, run_directory: Path) -> None:
    done = orin_gov("explain", run_directory)
    assert (done.returncode, done.stderr) == (0, "")
    records = [json.loads(line) for line in (run_directory / "decisions.jsonl").open()]
    assert len(records) >= 3
    title, *lines = done.stdout.splitlines()
    assert title.startswith("steps.py on virtual board agx-orin-64gb")
    told = [line for line in lines if line.startswith("epoch")]
    reasons = [line for line in lines if line.startswith("  -> ")]
    path, path_of = [], None
    for record, measured, decided in zip(records, told, reasons, strict=True):
        assert measured.startswith(f"epoch {record['epoch']}: {record['measured']['steps']} steps")
        assert f"({record['measured']['state']})" in measured
        assert measured.endswith("(simulated)")
        assert f"-> {record['decision']['state']} " in decided
        assert record["decision"]["reason"] in decided
        if record["decision"]["path"] == path != []:
            assert decided.endswith(f"the tree's path is that of epoch {path_of}")
        elif record["decision"]["path"]:
            path, path_of = record["decision"]["path"], record["epoch"]
            assert decided.endswith(f"the tree's path: {' and '.join(path)}")
        else:
            assert "path" not in decided
    assert {State.VERIFY.value, State.REFINE.value} & set(done.stdout.split())
    assert path


def test_a_plan_and_what_came_of_it_stand_first(orin_gov, tmp_path: Path) -> None:
    objective = {"name": "energy", "steps": 50, "deadline_s": 30.0, "energy_budget_j": 900.0}
    run = write_run(tmp_path / "run", objective=objective)
    assert orin_gov("explain", run).stdout.splitlines()[1:3] == [
        "plan: 50 steps, within 30 s, with 0.25 Wh",
        "",
    ]
    ended = json.loads((run / "summary.json").read_text())
    kept = kept_plan(Objective(steps=50, deadline_s=30.0, energy_budget_j=900.0), 20.0, 720.0, 40)
    (run / "summary.json").write_text(json.dumps({**ended, **kept}))
    assert orin_gov("explain", run).stdout.splitlines()[2:4] == [
        "  deadline missed: 20 s of 30 s; 40 of 50 steps",
        "  battery missed: 0.2 of 0.25 Wh (simulated); 40 of 50 steps",
    ]


def test_a_run_that_was_cut_off_is_told_to_its_last_decision(
    orin_gov, run_directory: Path, tmp_path: Path
) -> None:
    run = copied(run_directory, tmp_path)
    (run / "summary.json").unlink()
    whole = (run / "decisions.jsonl").read_bytes()
    (run / "decisions.jsonl").write_bytes(whole[:-20])
    done = orin_gov("explain", run)
    assert done.returncode == 0
    assert done.stdout.count("\nepoch ") == whole.count(b"\n") - 1


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("decisions.jsonl", b"nonsense\n", "decisions.jsonl is damaged"),
        ("decisions.jsonl", b"\xff\xfe\n", "decisions.jsonl is damaged"),
    ],
)
def test_a_damaged_run_ends_in_one_clear_line(
    orin_gov, run_directory: Path, tmp_path: Path, file: str, content: bytes, says: str
) -> None:
    run = copied(run_directory, tmp_path)
    (run / file).write_bytes(content)
    done = orin_gov("explain", run)
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{", "manifest.json is damaged"), (b'{"version": 99}', "manifest.json is of version 99")],
)
def test_decisions_are_told_also_where_the_manifest_is_of_no_use(
    orin_gov, run_directory: Path, tmp_path: Path, content: bytes, says: str
) -> None:
    run = copied(run_directory, tmp_path)
    (run / "manifest.json").write_bytes(content)
    done = orin_gov("explain", run)
    assert done.returncode == 0
    assert done.stdout.count("\nepoch ") == (run / "decisions.jsonl").read_bytes().count(b"\n")
    (line,) = done.stderr.splitlines()
    assert says in line


def test_policy_and_decisions_are_printed_as_json(orin_gov, run_directory: Path) -> None:
    policy = json.loads(orin_gov("explain", "--json").stdout)
    assert policy["format"] == "orin_gov policy"
    told = json.loads(orin_gov("explain", run_directory, "--json").stdout)
    assert told["manifest"]["name"] == "steps.py"
    assert told["notes"] == []
    records = [json.loads(line) for line in (run_directory / "decisions.jsonl").open()]
    assert told["decisions"] == records


@pytest.mark.parametrize(
    ("what", "says"), [("missing", "No such file"), (".", "is no run directory")]
)
def test_what_is_neither_policy_nor_run_ends_in_one_clear_line(
    orin_gov, what: str, says: str
) -> None:
    done = orin_gov("explain", what)
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
