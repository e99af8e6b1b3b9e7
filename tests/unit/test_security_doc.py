"""Every sentence of docs/security.md has tests beside it that exist."""

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


def test_the_page_has_sentences() -> None:
    assert len(sentences()) > 20


@pytest.mark.parametrize("sentence", sentences())
def test_a_test_stands_behind_every_sentence(sentence: str) -> None:
    named = TEST.findall(sentence)
    assert named, "no test is named"
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
