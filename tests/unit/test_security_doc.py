"""Every sentence of docs/security.md, and every fault of reliability.md, has tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def sentences() -> list[str]:
    """Return the items of the page's lists."""
    text = (ROOT / "docs/security.md").read_text()
    return [" ".join(each.split()) for each in re.findall(r"^- (.*(?:\n  .*)*)", text, re.M)]


def faults() -> list[str]:
    """Return the rows of the table of faults."""
    table = (ROOT / "docs/reliability.md").read_text().partition("\n## Faults\n")[2]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_the_pages_have_sentences() -> None:
    assert len(sentences()) > 20
    assert len(faults()) > 15


@pytest.mark.parametrize("sentence", [*sentences(), *faults()])
def test_a_test_stands_behind_every_sentence(sentence: str) -> None:
    named = TEST.findall(sentence)
    assert named, "no test is named"
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
