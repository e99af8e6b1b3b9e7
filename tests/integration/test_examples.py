"""The examples as a reader would run them, and the Makefile's check of the machine they need."""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VIRTUAL, command, side_by_side

pytestmark = pytest.mark.timeout(400)

EXAMPLES = ROOT / "examples"
FINE_TUNING = EXAMPLES / "finetune_sst2.py"
SMALL = ["--steps", "4", "--train-size", "32", "--eval-size", "16", "--eval-every", "3"]

Completed = subprocess.CompletedProcess[str]
Start = Callable[..., Completed]


def run_in(folder: Path, *words: object, **environment: str) -> Completed:
    """Run a command in `folder`, which is also where it must put its temporary files."""
    return subprocess.run(
        [*map(str, words)],
        cwd=folder,
        # One thread of torch each: they run side by side.
        env=dict(os.environ, TMPDIR=str(folder), OMP_NUM_THREADS="1", **environment),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return functools.partial(run_in, tmp_path)


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Completed, Completed]:
    """One short fine-tuning without a governor, and one with it.

    Without one it may neither ask a hub nor leave a file.
    """
    alone, other = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("governed")
    words = [FINE_TUNING, *SMALL]
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.setblocking(False)
        endpoint = f"http://127.0.0.1:{hub.getsockname()[1]}"
        plain, governed = side_by_side(
            lambda: run_in(alone, sys.executable, *words, HF_ENDPOINT=endpoint),
            lambda: run_in(other, *command("run", "--board", VIRTUAL, *words)),
        )
        with pytest.raises(BlockingIOError):
            hub.accept()
    assert plain.returncode == 0, plain.stderr
    assert [path for path in alone.rglob("*") if path.is_file()] == []
    return plain, governed


@pytest.fixture
def plain(fine_tuned: tuple[Completed, Completed]) -> Completed:
    return fine_tuned[0]


def losses(output: str) -> list[str]:
    lines = [line.split() for line in output.splitlines()]
    return [words[3] for words in lines if words[:1] == ["step"] and words[2] == "loss"]


def figures(output: str) -> dict[str, Any]:
    return json.loads(output.splitlines()[-1])  # type: ignore[no-any-return]


def test_fine_tuning_prints_losses_to_the_last_digit_and_its_figures(plain: Completed) -> None:
    assert len(losses(plain.stdout)) == 4
    assert all(repr(float(loss)) == loss for loss in losses(plain.stdout))
    assert max(map(len, losses(plain.stdout))) > len("0.6931")
    evaluated = [line.split()[1] for line in plain.stdout.splitlines() if " eval " in line]
    assert evaluated == ["0", "3", "4"]
    assert figures(plain.stdout)["steps"] == 4
    assert 0.5 <= figures(plain.stdout)["majority_share"] <= 1.0


def test_a_governed_fine_tuning_prints_the_very_same_losses(
    fine_tuned: tuple[Completed, Completed],
) -> None:
    plain, governed = fine_tuned
    assert governed.returncode == 0, governed.stderr
    assert governed.stdout == plain.stdout


SENTENCES = """
import datasets, finetune_sst2, sys
datasets.disable_progress_bars()
train, held_out = finetune_sst2.load_sentences(finetune_sst2.parse_arguments())
print(len(train), len(held_out), len(set(train["text"]) & set(held_out["text"])))
scores = {text: score for score, text in finetune_sst2.read_reviews(finetune_sst2.DEFAULT_FOLDER)}
print(all((scores[row["text"]] >= 0.5) == (row["label"] == 1) for row in train))
print(all(abs(scores[row["text"]]) >= 0.5 for row in held_out))
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Completed, Completed, Path]:
    """What SENTENCES says, the other example's run, and the folder that it ran in."""
    folder, other = tmp_path_factory.mktemp("loop"), tmp_path_factory.mktemp("sentences")
    words = ["-c", SENTENCES, "--train-size", 300, "--eval-size", 100]
    loop = [EXAMPLES / "finetune_pythia_loop.py", "--steps", 16, "--batch-size", 4]
    sentences, run = side_by_side(
        lambda: run_in(other, sys.executable, *words, PYTHONPATH=str(EXAMPLES)),
        lambda: run_in(folder, sys.executable, *loop, "--board", VIRTUAL),
    )
    return sentences, run, folder


def test_the_fine_tuning_sentences_are_clear_cut_and_held_out_ones_are_not_trained_on(
    others: tuple[Completed, Completed, Path],
) -> None:
    run, _, _ = others
    assert run.stdout.splitlines() == ["300 100 0", "True", "True"], run.stderr


def test_the_reviews_are_all_read_and_a_folder_without_them_is_said_to_be_so(
    start: Start, tmp_path: Path
) -> None:
    program = (
        "from reviews import *; rows = read_reviews({}); print(len(rows), min(rows), max(rows))"
    )
    run = start(sys.executable, "-c", program.format("DEFAULT_FOLDER"), PYTHONPATH=str(EXAMPLES))
    assert run.stdout.startswith("10605 (-3.875, 'Bad. Very bad. "), run.stdout + run.stderr
    run = start(sys.executable, "-c", program.format("Path('.')"), PYTHONPATH=str(EXAMPLES))
    assert run.returncode == 1
    assert "make venv" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_loop_trains_under_the_library_and_its_run_is_recorded(
    others: tuple[Completed, Completed, Path],
) -> None:
    _, run, folder = others
    assert run.returncode == 0, run.stderr
    assert len(losses(run.stdout)) == figures(run.stdout)["steps"] == 16
    # A byte drawn at random takes 8 bits; sixteen steps teach it the commonest ones.
    assert figures(run.stdout)["bits_per_byte_before"] > 7.5
    assert figures(run.stdout)["bits_per_byte_after"] < 6.0
    assert [path for path in folder.rglob("*") if path.is_file()] != []


def test_make_venv_names_all_that_is_missing_in_one_line_and_installs_nothing(
    start: Start, tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "make"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    run = start("make", "venv", PATH=str(tools))
    assert run.returncode != 0
    missing = [line for line in run.stderr.splitlines() if line.startswith("missing: ")]
    assert len(missing) == 1
    named = ("Python 3.10", "venv and ensurepip", "Python.h", "C compiler", "git")
    assert all(name in missing[0] for name in named)
    assert "apt-get install python3 python3-venv python3-dev gcc libc6-dev git" in missing[0]
    assert not (tmp_path / ".venv").exists()
