"""`orin-gov characterize` as a user runs it: in virtual time, and over a script that runs."""

import json
import struct
import subprocess
import zlib

import pytest
from conftest import VIRTUAL, hasty

pytest.importorskip("matplotlib")

STEPS = """
import sys, time
import orin_gov
with orin_gov.Governor() as governor:
    for _ in governor.steps(range(int(sys.argv[1]))):
        with governor.phase("forward"):
            time.sleep(0.05)
"""


def measured(path):
    lines = (path / "measurements.jsonl").read_text().splitlines()
    return [(row["target_hz"], row["round"]) for row in map(json.loads, lines)]


def launched(path):
    return len(list(path.glob("launch-*")))


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


def test_a_script_is_swept_as_it_runs_and_gone_on_with(script, tmp_path):
    words = hasty(
        "characterize", "--board", VIRTUAL, "--freqs", "306,1300", "--repeats", 1,
        "--epoch", "0.4s", "--output", "run", script(STEPS), 70,
    )  # fmt: skip

    def swept():
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    done = swept()
    run = tmp_path / "run"
    assert done.returncode == 0, done.stderr
    stops = measured(run)
    assert {target for target, _ in stops} == {None, 306_000_000, 1_300_500_000}
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["left"], list(summary["curves"])) == (0, ["script.py"])
    own, low, top = summary["curves"]["script.py"]
    assert (own["target_hz"], low["rounds"]) == (None, 1)
    assert low["time_s"] > 1.2 * top["time_s"]
    assert low["power_w"] < top["power_w"]

    launches = launched(run)
    assert swept().returncode == 0
    assert launched(run) == launches  # all was measured: the script is not run again

    file = run / "measurements.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    (run / "summary.json").unlink()
    assert swept().returncode == 0
    assert measured(run) == stops
    assert launched(run) > launches


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
