"""A pytest plugin for runs under emulation: fewer examples, and what to leave out, with the reason.

`left_out.txt` lists a reason, and below it files of tests, or single tests of a file. A file left
out is not even imported. What is not on the list is run, so that a new test is. Reasons that begin
with `#!` hold always, the others unless ORIN_GOV_TEST_ALL is set: they are of time alone.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import settings

# An example costs ten times as much here, and a slow one says nothing about the code.
settings.register_profile("emulated", max_examples=10, deadline=None)
settings.load_profile("emulated")


def read() -> dict[str, str]:
    """Return the reason by `file` or `file::test`."""
    reasons, reason, skips = {}, "", True
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("#"):
            mark, _, reason = line.partition(" ")
            skips = mark == "#!" or not os.environ.get("ORIN_GOV_TEST_ALL")
        elif line and skips:
            reasons[line] = reason
    return reasons


REASONS = read()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out whole files."""
    return True if collection_path.name in REASONS else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out single tests, with all their parameters; and of a file that was named, all."""

    def is_kept(item: pytest.Item) -> bool:
        test = item.nodeid.split("[")[0].split("/")[-1]
        return test not in REASONS and item.path.name not in REASONS

    kept = [item for item in items if is_kept(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason with what it leaves out, a line each."""
    for reason in dict.fromkeys(REASONS.values()):
        names = ", ".join(short(name for name, why in REASONS.items() if why == reason))
        terminalreporter.write_line(f"left out, {reason}: {names}")


def short(names: Iterable[str]) -> list[str]:
    """Return the names without what they all have in common."""
    return [name.split("::")[-1].removesuffix(".py").removeprefix("test_") for name in names]
