"""The plain view: what a person reads, word for word."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orin_gov.board.identity import Identity
from orin_gov.board.probe import Board
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.objective import Objective
from orin_gov.policy.window import Window
from orin_gov.tally import EpochRecord
from orin_gov.view.lines import (
    decision_words,
    epoch_line,
    megahertz,
    per_step,
    print_end,
    print_error,
    print_start,
    print_warning,
)

WINDOW = Window(
    start_ns=0,
    end_ns=1,
    duration_s=2.5,
    target_hz=918_000_000,
    steps=10,
    work=320.0,
    unit="unit of work",
    energy_j=80.0,
    frequency_hz=917e6,
)
HOLD = Decision(State.HOLD, 918_000_000, "12.0% gained, within budget")
RECORD = EpochRecord(7, State.HOLD, WINDOW, Outcome(0.0213, 0.121, 0.121), HOLD)
QUALITY = {"reads": 1000, "errors": 2, "repeats": 250, "gaps": 1, "last_errno": 0}
SUMMARY: dict[str, Any] = {
    "virtual": None,
    "steps": 120,
    "step_time_s": 0.25,
    "step_energy_j": 8.0,
    "steps_time_s": 30.0,
    "steps_energy_j": 960.0,
    "steps_with_energy": 120,
    "unit": "unit of work",
    "energy_change": {"value": -0.121, "low": -0.135, "high": -0.107},
    "time_change": {"value": 0.021, "low": 0.011, "high": 0.031},
    "windows_governed": 9,
    "windows_baseline": 3,
    "max_slowdown": 0.1,
    "clock_s": {"306000000": 3.0, "918000000": 26.9, "1300500000": 0.1},
    "warnings": [],
    "sampler": {"rate_hz": 199.7, "rails": {"GPU": QUALITY, "CPU": QUALITY}},
    "dropped_marks": 0,
}


def board(virtual: str | None = None) -> Board:
    identity = Identity("p3701-0005", "Jetson AGX Orin 64GB", None, None, virtual)
    return Board(Path("/"), identity, (), None, None)


def end_lines(capsys: pytest.CaptureFixture[str], **changes: object) -> list[str]:
    """Return the lines of the summary, which all go to stderr."""
    summary = {**SUMMARY, **changes}
    summary["board"] = board(summary["virtual"]).identity.title
    print_end(summary, Path("runs/a b"), "train.py")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_an_epoch_is_one_line() -> None:
    assert epoch_line(RECORD) == (
        "epoch 7    hold       918 MHz  0.25 s/step  +2.1%   32.0 W  8 J/step -12.1%"
        "  -> hold 918 MHz: 12.0% gained, within budget"
    )


def test_what_is_missing_is_said_and_no_number_is_made_up() -> None:
    window = replace(WINDOW, energy_j=None, target_hz=None, frequency_hz=None)
    line = epoch_line(replace(RECORD, window=window, outcome=Outcome(None, None, None)))
    assert line == (
        "epoch 7    hold         - MHz  0.25 s/step            no power  no J       "
        "  -> hold 918 MHz: 12.0% gained, within budget"
    )


def test_a_window_of_time_alone_has_no_joules_per_step() -> None:
    window = replace(WINDOW, steps=0, work=1e9, unit="busy cycle")
    line = epoch_line(replace(RECORD, window=window))
    assert "2.5 s  +2.1%   32.0 W  -> hold" in line
    assert "step" not in line


def test_a_baseline_shows_the_clock_that_was_measured() -> None:
    window = replace(WINDOW, target_hz=None)
    record = EpochRecord(0, State.BASELINE, window, Outcome(None, None, None), HOLD)
    assert epoch_line(record).startswith("epoch 0    baseline   917 MHz")


def test_a_decision_tells_its_path_and_what_it_expects() -> None:
    asked = Decision(State.VERIFY, 714_000_000, "the tree", ("load 0.9 > 0.5",), 0.15, 0.04)
    assert decision_words(asked) == (
        "verify 714 MHz: the tree (load 0.9 > 0.5); expects -15.0% energy, +4.0% time"
    )
    assert decision_words(Decision(State.FALLBACK, None, "why")) == "fallback own governor: why"


def test_small_words() -> None:
    assert megahertz(1_300_500_000) == "1300 MHz"
    assert megahertz(None) == "- MHz"
    assert per_step(None, 3, "J") == "no J"
    assert per_step(6.0, 3, "J") == "2 J/step"
    assert per_step(6.0, 0, "s") == "6 s"


def test_the_summary_reads_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_lines(capsys) == [
        "",
        "orin-gov train.py on Jetson AGX Orin 64GB",
        "  steps     120 of 0.25 s, in all 30 s; 8 J each, 960 J",
        "  energy    -12.1% per unit of work (95 %: -13.5% to -10.7%; "
        "9 governed, 3 baseline windows)",
        "  time      +2.1% per unit of work (95 %: +1.1% to +3.1%; "
        "9 governed, 3 baseline windows); budget +10%",
        "  clock     306 MHz 10%, 918 MHz 90%",
        "  sensors   2 rails at 200 Hz, 25% repeats, 2 gaps, 4 errors",
        "  run       runs/a b",
        "  next      orin-gov explain 'runs/a b'",
    ]


def test_every_figure_of_a_virtual_board_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    title, *figures = end_lines(capsys, virtual="agx-orin-64gb")[1:5]
    assert title == "orin-gov train.py on virtual board agx-orin-64gb (Jetson AGX Orin 64GB)"
    assert all("(simulated)" in line for line in figures)


@pytest.mark.parametrize("why", ["it takes 2 windows each, there were 0", "energy is missing"])
def test_without_a_comparison_none_is_claimed(capsys: pytest.CaptureFixture[str], why: str) -> None:
    lines = end_lines(
        capsys, energy_change=None, time_change=None, why_no_saving=why, windows_disturbed=3
    )
    told = f"no comparison: {why}, 3 left out for heat or over-current"
    assert f"  energy    {told}" in lines
    assert f"  time      {told}; budget +10%" in lines
    assert "%:" not in "".join(lines)


def test_a_change_that_may_be_none_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    wide = {"value": -0.05, "low": -0.15, "high": 0.05}
    lines = end_lines(capsys, energy_change=wide)
    (energy,) = [line for line in lines if line.startswith("  energy")]
    assert energy.endswith("; may be none: the interval holds 0, a longer run narrows it")
    assert "may be none" not in "".join(line for line in lines if line != energy)


def test_missing_energy_is_missing_in_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    lines = end_lines(capsys, step_energy_j=None, steps_energy_j=None, steps_with_energy=0)
    assert "  steps     120 of 0.25 s, in all 30 s; energy missing" in lines


def test_a_run_without_steps_rails_and_clock_is_told_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nothing = {"steps": 0, "step_time_s": None, "step_energy_j": None, "clock_s": {}}
    lines = end_lines(capsys, **nothing, sampler={"rate_hz": None, "rails": {}}, dropped_marks=12)
    assert not any(line.startswith("  steps") for line in lines)
    assert "  clock     no reading" in lines
    assert (
        "  sensors   0 rails at unknown rate, no reading, 0 gaps, 0 errors, 12 phase marks lost"
        in lines
    )


def test_the_warnings_of_a_run_are_repeated_at_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert "orin-gov warning: [bold]as it is" in end_lines(capsys, warnings=["[bold]as it is"])


def test_messages_go_to_stderr_on_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_warning("w" * 300)
    print_error("e [red]")
    print_start("a.py", board("x"), True, Objective("edp", 0.05))
    print_start("a.py", board(), False, Objective())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"orin-gov warning: {'w' * 300}",
        "orin-gov error: e [red]",
        "orin-gov a.py on virtual board x (Jetson AGX Orin 64GB); "
        "governing for edp, at most 5% slower",
        "orin-gov a.py on Jetson AGX Orin 64GB; measuring only, nothing is written",
    ]
