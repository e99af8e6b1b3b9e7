"""docs/virtual-board.md tells every constant as the boards' files have it."""

import json
from pathlib import Path

import pytest

from orin_gov.virtual.board_file import DIRECTORY
from orin_gov.virtual.plant import BOARDS

PAGE = (Path(__file__).parents[2] / "docs/virtual-board.md").read_text(encoding="utf-8")
NAMED_ONCE = {"voltage_hz"}  # the clocks of the table, told above it


def section(name: str) -> str:
    """The page's part on one board."""
    title = {
        "agx-orin-64gb": "## AGX Orin 64 GB\n",
        "agx-orin-32gb": "## AGX Orin 32 GB,",
        "orin-nx-16gb": "## Orin NX 16 GB",
        "orin-nx-8gb": "## Orin NX 8 GB",
        "orin-nano-8gb": "## Orin Nano 8 GB",
    }[name]
    return PAGE.partition(title)[2].partition("\n## ")[0]


def shown(value: object) -> str:
    """A number as the page writes it; of a long list its first."""
    if isinstance(value, list):
        return " ".join(map(shown, value[:1] if len(value) > 12 else value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@pytest.mark.parametrize("name", BOARDS)
def test_every_constant_of_a_boards_file_is_in_its_table(name: str) -> None:
    file = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    rows = section(name)
    for constant, value in file["constants"].items():
        if constant not in NAMED_ONCE:
            assert f"| `{constant}` | {shown(value)} " in rows
    for rail in file.get("rails", []):
        assert f"| `{rail['label']} static_w` | {shown(rail['static_w'])} |" in rows


@pytest.mark.parametrize("name", BOARDS)
def test_every_source_of_a_boards_file_is_in_its_table(name: str) -> None:
    file = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    rows = section(name)
    for key, text in file["sources"].items():
        kind, _, source = text.partition(": ")
        if key not in {"nv_tegra_release", *NAMED_ONCE}:
            assert f"| {kind} | {source} |" in rows


def test_every_constant_of_the_workloads_is_told() -> None:
    path = DIRECTORY.parent / "training.json"
    sources = json.loads(path.read_text(encoding="utf-8"))["sources"]
    for key in set(sources) - {"rates"}:
        assert f"| `{key}` |" in PAGE
