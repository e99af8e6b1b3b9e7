"""The GPU's devfreq folder among the others, its table and its limits."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from trees import (
    AGX_CLOCKS,
    AGX_JP5,
    AGX_JP6,
    NX_CLOCKS,
    NX_JP6,
    add_devfreq,
    build_tree,
    gpu_folder,
)

from orin_gov.board.gpu import Range, find_gpu
from orin_gov.errors import BoardError


@pytest.mark.parametrize(
    ("board", "clocks"), [(AGX_JP6, AGX_CLOCKS), (AGX_JP5, AGX_CLOCKS), (NX_JP6, NX_CLOCKS)]
)
def test_the_gpu_is_found_among_the_other_engines(tmp_path: Path, board, clocks) -> None:
    gpu = find_gpu(build_tree(tmp_path, board))
    assert gpu is not None
    assert gpu.directory == gpu_folder(tmp_path)
    assert gpu.directory.name == board.gpu
    assert gpu.table_hz == clocks
    assert gpu.read_range() == Range(clocks[0], clocks[-1])
    assert gpu.read_frequency_hz() == clocks[0]
    assert gpu.read_load() == 0.9
    assert gpu.governor() == "nvhost_podgov"


@pytest.mark.parametrize("node", ["gpu", "ga10b"])
def test_a_renamed_folder_is_known_by_its_device(tmp_path: Path, node: str) -> None:
    build_tree(tmp_path, replace(AGX_JP6, gpu="some.thing.else", gpu_node=node))
    gpu = find_gpu(tmp_path)
    assert gpu is not None
    assert gpu.directory.name == "some.thing.else"


@pytest.mark.parametrize("name", ["17000000.gpu", "17000000.ga10b", "gpu-gpc-0"])
def test_a_folder_without_a_device_node_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    build_tree(tmp_path, replace(AGX_JP6, gpu=name))
    (tmp_path / AGX_JP6.platform / name / "of_node/name").unlink()
    gpu = find_gpu(tmp_path)
    assert gpu is not None
    assert gpu.directory.name == name


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("154c0000.nvenc", "nvenc"),
        ("15480000.nvdec", "nvdec"),
        ("15340000.vic", "vic"),
        ("15380000.nvjpg", "nvjpg"),
        ("15a50000.ofa", "ofa"),
        ("13e00000.host1x", "host1x"),
        ("2c00000.emc", "emc"),
        ("gpu-nvd-0", ""),
        ("my.gpu.fan", "fan"),
    ],
)
def test_no_other_engine_passes_for_the_gpu(tmp_path: Path, name: str, node: str) -> None:
    add_devfreq(tmp_path, AGX_JP6, name, node)
    assert find_gpu(tmp_path) is None


def test_before_the_gpu_first_powers_on_there_is_none(tmp_path: Path) -> None:
    assert find_gpu(tmp_path) is None
    build_tree(tmp_path)
    (tmp_path / "sys/class/devfreq/17000000.gpu").unlink()
    assert find_gpu(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("306000000\n", (306_000_000,)),
        ("612000000 306000000 612000000\n", (306_000_000, 612_000_000)),
        ("", ()),
        ("\n", ()),
        ("garbage 306000000", ()),
        ("306.0 612.0", ()),
        ("-306000000 612000000", ()),
        ("0 612000000", ()),
        ("612000000 99999999999999999999", ()),
        ("1_000 2_000", ()),
        ("\0\xff", ()),
    ],
)
def test_a_table_is_ascending_clocks_or_empty(tmp_path: Path, text: str, table) -> None:
    build_tree(tmp_path)
    (gpu_folder(tmp_path) / "available_frequencies").write_text(text)
    gpu = find_gpu(tmp_path)
    assert gpu is not None
    assert gpu.table_hz == table


def test_what_cannot_be_read_is_none_and_a_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    gpu = find_gpu(build_tree(tmp_path))
    assert gpu is not None
    for name in ("cur_freq", "device/load", "governor", "min_freq"):
        (gpu.directory / name).unlink()
    assert (gpu.read_frequency_hz(), gpu.read_load(), gpu.governor()) == (None, None, None)
    with pytest.raises(BoardError, match=r"min_freq: No such file or directory"):
        gpu.read_range()
    for text in ("", "garbage", "-306000000", "306 MHz", "9" * 30, "306000000\0"):
        (gpu.directory / "min_freq").write_text(text)
        with pytest.raises(BoardError, match=r"min_freq holds .*, expected a frequency in Hz"):
            gpu.read_range()


def test_where_the_limits_cross_the_maximum_wins(tmp_path: Path) -> None:
    gpu = find_gpu(build_tree(tmp_path))
    assert gpu is not None
    (gpu.directory / "max_freq").write_text("408000000")
    (gpu.directory / "min_freq").write_text("612000000")
    assert gpu.read_range() == Range(408_000_000, 408_000_000)
    assert gpu.points(Range(408_000_000, 950_000_000)) == tuple(
        range(408_000_000, 950_000_000, 102_000_000)
    )


def test_a_limit_that_is_just_being_rewritten_is_read_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("orin_gov.board.gpu.READ_AGAIN_S", 20.0)  # a busy machine's patience
    gpu = find_gpu(build_tree(tmp_path))
    assert gpu is not None
    maximum = gpu.directory / "max_freq"
    maximum.write_text("")
    writer = threading.Timer(0.005, maximum.write_text, ("918000000\n",))
    writer.start()
    assert gpu.read_range().max_hz == 918_000_000
    writer.join()
