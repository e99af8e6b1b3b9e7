"""Which board it is: by the device tree, whatever the carrier calls itself."""

from pathlib import Path

import pytest
from trees import AGX_JP5, AGX_JP6, NANO_JP6, NX_JP6, Description, build_tree, write

from orin_gov.board.identity import SAID, VIRTUAL_MARK, identify
from orin_gov.board.modules import FAMILIES, MODULE_NAMES, OTHER_NAMES, family_of, known_total
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


def test_every_known_name_leads_to_a_family_with_a_total_and_a_gpu_rail() -> None:
    for module in (*MODULE_NAMES, *OTHER_NAMES.values()):
        family = family_of(module)
        assert family is not None
        assert all(family.totals)
        assert family.gpu_rails


def test_a_total_is_told_by_labels_alone_where_they_leave_no_doubt() -> None:
    for family in FAMILIES.values():
        for total in family.totals:
            assert known_total([*total, "SOMETHING_ELSE"]) == total
    assert known_total(["VDD_GPU_SOC", "VDD_CPU_CV"]) is None
    assert known_total(["VDD_IN", "POM_5V_IN"]) is None


@pytest.mark.parametrize(
    ("compatible", "name"),
    [
        ("nvidia,p3701-0099", "Jetson AGX Orin (p3701-0099)"),  # wired as its family is
        ("nvidia,quill\0nvidia,tegra186", "Jetson TX2"),
        ("nvidia,p2972-0000\0nvidia,tegra194", "Jetson AGX Xavier"),
        ("nvidia,jetson-nano\0nvidia,tegra210", "Jetson Nano"),
    ],
)
def test_a_board_without_a_known_part_number_is_known_by_its_family(
    tmp_path: Path, compatible: str, name: str
) -> None:
    write(tmp_path / "proc/device-tree/compatible", compatible + "\0")
    assert identify(tmp_path).name == name


def test_an_unknown_tegra_is_named_as_it_calls_itself_and_has_no_module(tmp_path: Path) -> None:
    write(tmp_path / "proc/device-tree/compatible", "acme,board\0nvidia,tegra999\0")
    identity = identify(tmp_path)
    assert (identity.module, identity.name) == (None, "unknown Jetson (acme,board nvidia,tegra999)")


@pytest.mark.parametrize("compatible", ["", "\0", "pc", "raspberrypi,5-model-b\0brcm,bcm2712"])
def test_another_machine_is_no_jetson(tmp_path: Path, compatible: str) -> None:
    write(tmp_path / "proc/device-tree/compatible", compatible)
    with pytest.raises(BoardError, match=r"this is no Jetson: its device tree says") as said:
        identify(tmp_path)
    assert compatible.replace("\0", " ").strip() in str(said.value)


def test_the_user_may_say_what_a_container_hides(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(SAID, "p3767-0000")
    assert identify(tmp_path).name == "Jetson Orin NX 16GB"
    monkeypatch.setenv(SAID, "p1234-0000")
    with pytest.raises(BoardError, match=r"ORIN_GOV_MODULE is 'p1234-0000', expected one of"):
        identify(tmp_path)


def test_the_device_tree_is_found_where_proc_has_none(tmp_path: Path) -> None:
    write(tmp_path / "sys/firmware/devicetree/base/compatible", "nvidia,p3701-0004\0")
    assert identify(tmp_path).module == "p3701-0004"


@pytest.mark.parametrize(
    ("release", "kernel", "jetpack"),
    [
        ("# R32 (release), REVISION: 7.1, GCID", None, "4.6"),
        ("# R36 (release), REVISION: 4.3, GCID", None, "6.2"),
        ("# R36 (release), REVISION: 5.0, GCID", None, "6.2.2"),
        ("# R99 (release), REVISION: 1.0, GCID", None, None),
        (None, "5.10.216-tegra", "5"),
        (None, "5.15.148-l4t-r36.4.4-1012.12+tegra", "6"),
        (None, "6.8.0-generic", None),
    ],
)
def test_jetpack_is_told_by_l4t_or_else_by_the_kernel(
    tmp_path: Path, release: str | None, kernel: str | None, jetpack: str | None
) -> None:
    write(tmp_path / "proc/device-tree/compatible", "nvidia,p3701-0005\0")
    if release:
        write(tmp_path / "etc/nv_tegra_release", release)
    if kernel:
        write(tmp_path / "proc/sys/kernel/osrelease", kernel + "\n")
    assert identify(tmp_path).jetpack == jetpack


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
