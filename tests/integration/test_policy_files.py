"""Policy files through the real command: a wrong one ends in one line before the script runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import VIRTUAL

from orin_gov.deciding import load_policy
from orin_gov.policy.policy_file import dump_policy

LEAF = {"energy": [0.8, 1.0], "time": [1.05, 1.0], "spread": 1.0, "samples": 3}


def policy(*nodes: dict[str, Any], **changes: object) -> bytes:
    record = {
        "format": "orin_gov policy",
        "version": 2,
        "card": {},
        "clock_shares": [0.7, 1.0],
        "nodes": list(nodes),
        "deviations": [[0.1, 0.0, 0.1, 0.0]],
        "rest": 0.01,
        **changes,
    }
    return json.dumps(record).encode()


def split(**changes: object) -> dict[str, Any]:
    node = {"feature": "load", "threshold": 0.5, "left": 1, "right": 2, "missing": "left"}
    return {**node, **changes}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"\x80\x04policy", "cannot read the policy"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no policy"),
        (policy(LEAF, version=7), "has version 7"),
        (policy(split(feature="mood"), LEAF, LEAF), "unknown feature 'mood'"),
        (policy(split(right=0), LEAF, LEAF), "a cycle or a hole"),
        (policy({**LEAF, "energy": [float("nan"), 1.0]}), "energy has nan"),
        (policy(LEAF, version=1), "has version 1, this orin_gov reads 2; fit it again"),
    ],
)
def test_a_wrong_policy_ends_in_one_line_before_the_script_has_run(
    orin_gov, script, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    path = script("print('ran')")
    before = sorted(tmp_path.iterdir())
    done = orin_gov("run", "--board", VIRTUAL, "--policy", "bad.json", path)
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_policy_of_ones_own_is_used_and_its_card_recorded(
    orin_gov, script, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_bytes(policy(LEAF, card={"fitted_on": "my board"}))
    words = ("run", "--board", VIRTUAL, "--policy", "own.json", "--output", "run")
    done = orin_gov(*words, script("print('ran')"))
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["policy"] == {"fitted_on": "my board"}


def test_a_fitted_policy_can_be_explained_and_used(orin_gov, script, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="fitting needs scikit-learn (the extra named fit)")
    fitted = orin_gov("fit", "--workloads", 6, "--seed", 3, "--output", "fitted.json")
    assert fitted.returncode == 0, fitted.stderr
    found = load_policy(tmp_path / "fitted.json")
    assert found.card["left_out"]["budget 10%"]["workloads"] == 6
    assert "6 workloads of its family, seed 3" in found.card["fitted_on"]
    assert (tmp_path / "fitted.json").read_text() == dump_policy(found) + "\n"
    explained = orin_gov("explain", "fitted.json")
    assert explained.returncode == 0
    assert "MHz (energy -" in explained.stdout
    words = ("run", "--board", VIRTUAL, "--policy", "fitted.json", "--output", "run")
    assert orin_gov(*words, script("print('ran')")).stdout == "ran\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--output", "new.json", "--workloads", "0"], 2, "expected at least 1"),
        (["--output", "no/such/place.json", "--workloads", "1"], 125, "cannot write"),
    ],
)
def test_a_fit_that_cannot_be_ends_in_one_clear_line(
    orin_gov, words: list[str], code: int, says: str
) -> None:
    pytest.importorskip("sklearn", reason="fitting needs scikit-learn (the extra named fit)")
    done = orin_gov("fit", *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
