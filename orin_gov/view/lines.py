"""The plain view: one line a decision epoch and a summary, on stderr; stdout is the script's."""

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from orin_gov.board.probe import Board
from orin_gov.policy.decision import Decision
from orin_gov.policy.objective import Objective
from orin_gov.view.plan import plan_lines, plan_words

if TYPE_CHECKING:
    from orin_gov.tally import EpochRecord

NAME = "orin-gov"
LABEL_WIDTH = 10
UNTOLD = "; may be none: the interval holds 0, a longer run narrows it"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return the text without control characters: a stranger's file must not steer a terminal."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


class _Console(Console):
    """Standard error, which may be a terminal that is gone, a closed pipe or a file on a full disk.

    What cannot be said is lost: neither governing nor the exit code may depend on it.
    """

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False)

    def on_broken_pipe(self) -> None:
        """Go on; rich would end the process."""

    def say(self, line: str | Text) -> None:
        """Print a line."""
        # soft_wrap: a log file gets one line an epoch, whatever the width of a terminal.
        text = Text(line) if isinstance(line, str) else line
        text.plain = printable(text.plain)
        with suppress(OSError):
            self.print(text, soft_wrap=True)


def _say(line: str | Text, style: str = "") -> None:
    ours = (
        Text.assemble((f"{NAME} ", "bold cyan"), (line, style)) if isinstance(line, str) else line
    )
    _Console().say(ours)


def print_warning(message: str) -> None:
    """Print a warning."""
    _say(f"warning: {message}", "yellow")


def print_note(message: str) -> None:
    """Print something worth knowing that is no warning."""
    _say(message)


def print_error(message: str) -> None:
    """Print an error, as the last line before a command ends."""
    _say(f"error: {message}", "bold red")


def print_start(name: str, board: Board, governing: bool, objective: Objective) -> None:
    """Say what is about to run, where, and what will be done to it."""
    doing = f"governing for {objective.name}, at most {objective.max_slowdown:.0%} slower"
    if not governing:
        doing = "measuring only, nothing is written"
    plan = f"; {plan_words(vars(objective))}" if objective.steps else ""
    _say(f"{name} on {board.identity.title}; {doing}{plan}")


def print_epoch(record: "EpochRecord") -> None:
    """Print one decision epoch: what was measured, and what was decided."""
    _say(epoch_line(record))


def epoch_line(record: "EpochRecord") -> str:
    """Return one decision epoch as a line."""
    window, outcome = record.window, record.outcome
    measured = [
        f"epoch {record.number:<3}",
        f"{record.state.value:<8}",
        f"{megahertz(window.target_hz or window.frequency_hz):>8}",
        f"{per_step(window.duration_s, window.steps, 's')}{signed(outcome.slowdown)}",
        f"{window.power_w:5.1f} W" if window.power_w is not None else "   no power",
    ]
    if window.steps:
        saved = None if outcome.saving is None else -outcome.saving
        measured.append(f"{per_step(window.energy_j, window.steps, 'J')}{signed(saved)}")
    return f"{'  '.join(measured)}  -> {decision_words(record.decision)}"


def decision_words(decision: Decision) -> str:
    """Return a decision in words: where to, why, and along which path of the tree."""
    to = "own governor" if decision.target_hz is None else megahertz(decision.target_hz)
    words = f"{decision.state.value} {to}: {decision.reason}"
    if decision.path and "tree" in decision.reason:  # told where it was asked, not again and again
        words += f" ({', '.join(decision.path)})"
    if decision.predicted_saving is not None and decision.predicted_slowdown is not None:
        words += (
            f"; expects {-decision.predicted_saving:+.1%} energy, "
            f"{decision.predicted_slowdown:+.1%} time"
        )
    return words


def megahertz(hz: float | None) -> str:
    """Return a frequency for people; a dash where it is missing."""
    return "- MHz" if hz is None else f"{hz / 1e6:.0f} MHz"


def per_step(value: float | None, steps: int, unit: str) -> str:
    """Return a mean per step with its unit, or the whole value where there are no steps."""
    if value is None:
        return f"no {unit}"
    return f"{value / steps:.3g} {unit}/step" if steps else f"{value:.3g} {unit}"


def signed(share: float | None) -> str:
    """Return a change in percent, padded; blanks where it is not known."""
    return f" {share:+6.1%}" if share is not None else "       "


def print_end(summary: Mapping[str, Any], path: Path, name: str) -> None:
    """Print the summary of a run."""
    virtual = " (simulated)" if summary["virtual"] else ""
    _Console().say("")
    _say(f"{name} on {summary['board']}", "bold")
    for label, text in _end_lines(summary, virtual):
        _say(Text.assemble((f"  {label:<{LABEL_WIDTH}}", "cyan"), text))
    for warning in summary["warnings"]:
        print_warning(warning)
    _say(Text.assemble((f"  {'run':<{LABEL_WIDTH}}", "cyan"), str(path)))
    _say(
        Text.assemble(
            (f"  {'next':<{LABEL_WIDTH}}", "cyan"), f"{NAME} explain {shlex.quote(str(path))}"
        )
    )


def _end_lines(summary: Mapping[str, Any], virtual: str) -> Iterable[tuple[str, str]]:
    if summary["steps"]:
        yield "steps", _steps_words(summary, virtual)
    yield "energy", _change_words(summary, "energy_change", virtual)
    budget = f"; budget {summary['max_slowdown']:+.0%}"
    yield "time", _change_words(summary, "time_change", virtual) + budget
    if found := summary.get("two_rail_energy_change"):
        yield "two rails", f"{_interval_words(found)} energy of VDD_GPU_SOC and VDD_CPU_CV{virtual}"
    if top := summary.get("against_top"):
        yield "vs top", _top_words(top, virtual)
    yield from plan_lines(summary)
    yield "clock", _clock_words(summary["clock_s"])
    yield "sensors", _sensor_words(summary)


def _steps_words(summary: Mapping[str, Any], virtual: str) -> str:
    steps, measured = summary["steps"], summary["steps_with_energy"]
    time = f"{steps} of {summary['step_time_s']:.3g} s, in all {summary['steps_time_s']:.4g} s"
    if not measured:
        return f"{time}; energy missing"
    partly = f" ({measured} steps measured)" if measured < steps else ""
    joules = f"{summary['step_energy_j']:.3g} J each, {summary['steps_energy_j']:.4g} J"
    return f"{time}; {joules}{partly}{virtual}"


def _change_words(summary: Mapping[str, Any], key: str, virtual: str) -> str:
    found = summary[key]
    counts = (
        f"{summary['windows_governed']} governed, {summary['windows_baseline']} baseline windows"
    )
    if found is None:
        why = summary.get("why_no_saving") or "the time or the work of too many windows is missing"
        counts, words = why, "no comparison: {}"
    else:
        words = (
            f"{found['value']:+.1%} per {summary['unit']} "
            f"(95 %: {found['low']:+.1%} to {found['high']:+.1%}; {{}}){virtual}"
        )
        words += UNTOLD if is_untold(found) else ""
    if disturbed := summary.get("windows_disturbed"):
        counts += f", {disturbed} left out for heat or over-current"
    return words.format(counts)


def is_untold(found: Mapping[str, float]) -> bool:
    """Tell whether a change may as well be none: 0 lies within its interval."""
    return found["low"] <= 0.0 <= found["high"]


def _interval_words(found: Mapping[str, float] | None) -> str:
    if found is None:
        return "unknown"
    return f"{found['value']:+.1%} (95 %: {found['low']:+.1%} to {found['high']:+.1%})"


def _top_words(top: Mapping[str, Any], virtual: str) -> str:
    how = "estimated, not measured" if top["estimated"] else "measured"
    return (
        f"{_interval_words(top['energy'])} energy, {_interval_words(top['time'])} time against "
        f"{megahertz(top['top_hz'])} pinned; {how}{virtual}"
    )


def _clock_words(clock_s: Mapping[str, float]) -> str:
    total = sum(clock_s.values())
    shares = {int(hz): seconds / total for hz, seconds in clock_s.items()} if total else {}
    words = [f"{megahertz(hz)} {share:.0%}" for hz, share in shares.items() if share >= 0.005]
    return ", ".join(words) or "no reading"


def _sensor_words(summary: Mapping[str, Any]) -> str:
    sampler = summary["sampler"]
    rails = sampler["rails"].values()
    reads, repeats, gaps, errors = (
        sum(rail[count] for rail in rails) for count in ("reads", "repeats", "gaps", "errors")
    )
    repeated = f"{repeats / reads:.0%} repeats" if reads else "no reading"
    lost = f", {summary['dropped_marks']} phase marks lost" if summary["dropped_marks"] else ""
    rate = "unknown rate" if sampler["rate_hz"] is None else f"{sampler['rate_hz']:.0f} Hz"
    return f"{len(rails)} rails at {rate}, {repeated}, {gaps} gaps, {errors} errors{lost}"
