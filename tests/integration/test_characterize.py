"""`orin-gov characterize` as a user runs it: in virtual time, and over a script that really runs."""

import json
import struct
import zlib

import pytest
from conftest import VIRTUAL

pytest.importorskip("matplotlib")

STEPS = """
import sys, time
import torch
weight = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(weight.parameters(), 0.01)
for _ in range(int(sys.argv[1])):
    weight(torch.ones(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.1)
"""


def measured(path):
    lines = (path / "measurements.jsonl").read_text().splitlines()
    return [(row["target_hz"], row["round"]) for row in map(json.loads, lines)]


def pixels(path):
    """The unpacked scan lines of a PNG: all alike where nothing is drawn."""
    data, place, packed = path.read_bytes(), 8, b""
    while place < len(data):
        size, kind = struct.unpack(">I4s", data[place : place + 8])
        packed += data[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        place += size + 12
    return zlib.decompress(packed)


def test_a_workload_is_swept_and_drawn(orin_gov, tmp_path):
    done = orin_gov(
        "characterize", "--workload", "bert-tiny/cola", "--workload", "pythia-14m/cola",
        "--board", VIRTUAL, "--repeats", 2, "--epoch", 10, "--output", "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bert-tiny/cola" in done.stdout
    run = tmp_path / "run"
    assert len(measured(run)) == 2 * 2 * 12
    assert len(set(pixels(run / "figure.png"))) > 100
    drawn = (run / "figure.svg").read_text()
    for text in ("bert-tiny/cola", "pythia-14m/cola", "virtual board agx-orin-64gb", "GPU clock"):
        assert text in drawn


def test_a_script_is_swept_as_it_runs_and_gone_on_with(orin_gov, script, tmp_path):
    path = script(STEPS)
    words = [
        "characterize", "--board", VIRTUAL, "--freqs", "306,1300", "--repeats", 1,
        "--epoch", "1s", "--output", "run", path,
    ]  # fmt: skip
    first = orin_gov(*words, 38)
    run = tmp_path / "run"
    some = measured(run)
    second = orin_gov(*words, 100)
    assert second.returncode == 0, first.stderr + second.stderr
    assert measured(run)[: len(some)] == some
    assert sorted(measured(run), key=str) == sorted(
        [(None, 0), (306_000_000, 0), (1_300_500_000, 0)], key=str
    )
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["left"], list(summary["curves"])) == (0, ["script.py"])
    # Started a third time there is nothing to do, and the script does not run.
    launches = sorted(each.name for each in run.glob("launch-*"))
    third = orin_gov(*words, 100)
    assert third.returncode == 0
    assert sorted(each.name for each in run.glob("launch-*")) == launches


def test_a_script_that_fails_ends_the_sweep_with_its_code(orin_gov, script):
    path = script("raise SystemExit(7)")
    done = orin_gov("characterize", "--board", VIRTUAL, "--output", "run", path)
    assert done.returncode in (7, 125)
    assert "nothing was measured" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name a script"),
        (("--workload", "bert-base/sst2", "train.py"), "not both"),
        (("--workload", "bert-base/sst2"), "name a --board"),
        (("--workload", "bert-base/squad", "--board", VIRTUAL), "expected MODEL/TASK"),
        (("--workload", "bert-base/sst2", "--board", VIRTUAL, "--freqs", "5"), "expected some of"),
        (("--repeats", "0", "train.py"), "at least 1"),
    ],
)
def test_a_wrong_wish_is_refused_before_anything_is_made(orin_gov, tmp_path, words, told):
    done = orin_gov("characterize", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []
