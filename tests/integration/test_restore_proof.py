"""A hundred seeded kills of any process at any moment: the board comes back bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench._kills import SIGNALS, VICTIMS, draw

ROOT = Path(__file__).parents[2]
KILLS = 100


@pytest.mark.timeout(600)
def test_after_every_one_of_a_hundred_kills_the_board_is_as_it_was() -> None:
    words = ["-m", "bench.restore", "--kills", str(KILLS), "--jobs", "6", "--json"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    figures = {each["name"]: each for each in json.loads(done.stdout)["figures"]}
    assert figures["restored_percent"]["n"] == KILLS
    assert figures["restored_percent"]["value"] == 100, done.stderr
    changed = figures["restore_ms_p99"]["n"]
    assert changed > KILLS / 2, "hardly a kill has come while the board was changed"


def test_the_kills_leave_out_no_process_no_signal_and_no_way_to_recover() -> None:
    kills = [draw(seed) for seed in range(KILLS)]
    assert {victim for kill in kills for victim in kill.victims} == {*VICTIMS, "oom"}
    assert {kill.number for kill in kills} == set(SIGNALS)
    assert {len(kill.victims) for kill in kills} == {1, 2, 4}
    for field in ("full_disk", "foreign", "new_start"):
        assert {getattr(kill, field) for kill in kills} == {True, False}, field
    assert {kill.wakes is None for kill in kills} == {True, False}
