"""Which board it is: by the device tree, whatever the carrier calls itself."""

from pathlib import Path

import pytest
from trees import AGX_JP5, AGX_JP6, NANO_JP6, NX_JP6, Description, build_tree, write

from orin_gov.board.identity import MODULE_NAMES, VIRTUAL_MARK, identify
from orin_gov.board.rails import gpu_rail, total_rails
from orin_gov.errors import BoardError


@pytest.mark.parametrize(
    ("board", "module", "name", "l4t"),
    [
        (AGX_JP6, "p3701-0005", "Jetson AGX Orin 64GB", "36.4.7"),
        (AGX_JP5, "p3701-0005", "Jetson AGX Orin 64GB", "35.4.1"),
        (NX_JP6, "p3767-0000", "Jetson Orin NX 16GB", "36.4.7"),
        (NANO_JP6, "p3767-0005", "Jetson Orin Nano 8GB (developer kit) Super", "36.4.4"),
    ],
)
def test_a_board_is_known_by_its_module(
    tmp_path: Path, board: Description, module: str, name: str, l4t: str
) -> None:
    identity = identify(build_tree(tmp_path, board))
    assert (identity.module, identity.name, identity.l4t) == (module, name, l4t)
    assert identity.model == board.model
    assert (identity.virtual, identity.title) == (None, name)


@pytest.mark.parametrize(
    ("compatible", "module"),
    [
        # An emulated module is the one it plays, also where the entries after it name the real one.
        (("nvidia,p3737-0000+p3701-0000-as-p3701-0004", "nvidia,tegra234"), "p3701-0004"),
        (
            ("nvidia,p3737-0000+p3701-0000-as-p3701-0004", "nvidia,p3701-0000", "nvidia,tegra234"),
            "p3701-0004",
        ),
        # A carrier of another vendor's, and a module that stands alone.
        (("acme,carrier+p3767-0001", "nvidia,tegra234"), "p3767-0001"),
        (("nvidia,p3701-0008",), "p3701-0008"),
    ],
)
def test_the_most_specific_entry_names_the_module(
    tmp_path: Path, compatible: tuple[str, ...], module: str
) -> None:
    write(tmp_path / "proc/device-tree/compatible", "\0".join(compatible) + "\0")
    assert identify(tmp_path).module == module


def test_every_known_module_has_a_total_and_a_gpu_rail() -> None:
    for module in MODULE_NAMES:
        assert total_rails(module)
        assert gpu_rail(module)


@pytest.mark.parametrize("compatible", ["nvidia,p3668-0000\0nvidia,tegra194\0", "", "\0", "pc"])
def test_an_unknown_board_is_told_with_what_it_calls_itself(
    tmp_path: Path, compatible: str
) -> None:
    write(tmp_path / "proc/device-tree/compatible", compatible)
    with pytest.raises(BoardError, match=r"unknown board: .* expected one of") as said:
        identify(tmp_path)
    assert compatible.replace("\0", " ").strip() in str(said.value)


def test_without_a_device_tree_it_is_no_jetson(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"this is no Jetson: .*compatible is missing"):
        identify(tmp_path)


def test_what_a_container_hides_is_none(tmp_path: Path) -> None:
    write(tmp_path / "proc/device-tree/compatible", "nvidia,p3701-0005\0")
    identity = identify(tmp_path)
    assert (identity.l4t, identity.model, identity.virtual) == (None, None, None)


def test_a_virtual_board_always_says_so(tmp_path: Path) -> None:
    write(build_tree(tmp_path) / VIRTUAL_MARK, "agx-orin-64gb\n")
    assert identify(tmp_path).title == "virtual board agx-orin-64gb (Jetson AGX Orin 64GB)"
