"""The power monitors' registers: what a reader sees of the exact energy."""

import random
from pathlib import Path

import pytest

from orin_gov.virtual.ina3221 import Chip, Rails
from orin_gov.virtual.plant import BoardModel, load_board
from orin_gov.virtual.tree import build_tree, chip_directory, rail_files

AGX, NANO = load_board("agx-orin-64gb"), load_board("orin-nano-8gb")
GPU_FILES = 0, "VDD_GPU_SOC"
MS = 1_000_000


def rails_of(board: BoardModel, root: Path) -> Rails:
    build_tree(board, root)
    return Rails(board, root, random.Random(1), now_ns=0)


def milliamperes(board: BoardModel, root: Path, index: int = 0) -> int:
    """The current of the board's rail of that index, as its file says."""
    return int(rail_files(board.rails[index], root)[1].read_text())


def run(rails: Rails, start_ns: int, end_ns: int, power_w: dict[str, float]) -> None:
    """Integrate a constant power and convert whenever a chip is due."""
    now_ns = start_ns
    while now_ns < end_ns:
        next_ns = min(rails.due_ns, end_ns)
        rails.add((next_ns - now_ns) * 1e-9, power_w)
        now_ns = next_ns
        rails.convert(now_ns)


def test_three_channels_take_6_6_ms_and_one_takes_2_2(tmp_path: Path) -> None:
    build_tree(AGX, tmp_path)
    cycles = [Chip(AGX, name, tmp_path, 0).cycle_ns for name in ("1-0040", "1-0041")]
    assert cycles == [6_600_000, 2_200_000]
    intervals = [
        (chip_directory(name, tmp_path) / "update_interval").read_text()
        for name in ("1-0040", "1-0041")
    ]
    assert intervals == ["7\n", "2\n"]


def test_a_reader_that_is_faster_than_the_conversions_sees_repeats(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    run(rails, 0, 7 * MS, {"VDD_GPU_SOC": 10.0})
    first = milliamperes(AGX, tmp_path)
    run(rails, 7 * MS, 13 * MS, {"VDD_GPU_SOC": 40.0})
    assert milliamperes(AGX, tmp_path) == first
    run(rails, 13 * MS, 20 * MS, {"VDD_GPU_SOC": 40.0})
    assert milliamperes(AGX, tmp_path) > 3 * first


def test_a_reading_is_the_mean_since_the_last_conversion(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    rails.add(3.3e-3, {"VDD_GPU_SOC": 0.0})
    rails.add(3.3e-3, {"VDD_GPU_SOC": 39.36})
    rails.convert(6_600_000)
    assert milliamperes(AGX, tmp_path) == pytest.approx(1000, abs=40)


@pytest.mark.parametrize(("board", "quantum_ma"), [(AGX, 20), (NANO, 8)])
def test_a_step_of_current_is_40_microvolts_over_the_boards_shunt(
    tmp_path: Path, board: BoardModel, quantum_ma: int
) -> None:
    rails = rails_of(board, tmp_path)
    seen = set()
    for index in range(200):
        run(rails, index * 7 * MS, (index + 1) * 7 * MS, {board.rails[0].label: 5.0 + index / 50})
        seen.add(milliamperes(board, tmp_path))
    assert len(seen) > 3
    assert all(reading % quantum_ma == 0 for reading in seen)


def test_currents_have_a_sign(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    run(rails, 0, 20 * MS, {"VDD_GPU_SOC": -4.0})
    assert milliamperes(AGX, tmp_path) == pytest.approx(-203, abs=40)


def test_the_shunt_register_has_13_bits(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    run(rails, 0, 20 * MS, {"VDD_GPU_SOC": 5000.0})
    assert milliamperes(AGX, tmp_path) == 4095 * 20


def test_an_averaged_register_lags_by_as_many_cycles_as_it_averages(tmp_path: Path) -> None:
    """512 conversions of 3 x 2 x 140 us: 63 % of a step after 0.43 s, 95 % after three times that."""
    rails = rails_of(NANO, tmp_path)
    run(rails, 0, 3000 * MS, {"VDD_IN": 5.0})
    assert milliamperes(NANO, tmp_path) == pytest.approx(1000, abs=16)
    run(rails, 3000 * MS, 3430 * MS, {"VDD_IN": 10.0})
    assert milliamperes(NANO, tmp_path) == pytest.approx(1632, abs=24)
    run(rails, 3430 * MS, 4290 * MS, {"VDD_IN": 10.0})
    assert milliamperes(NANO, tmp_path) == pytest.approx(1950, abs=24)


def test_settings_take_effect_when_written_on_the_chips_next_ones(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    directory = chip_directory("1-0040", tmp_path)
    (directory / "update_interval").write_text("1\n")
    (directory / "samples").write_text("500\n")
    rails.poll()
    assert (directory / "samples").read_text().strip() == "512"
    # 1 ms over 2 x 3 channels x 512 asks for less than the chip's fastest, 140 us: 0.84 ms a cycle.
    assert rails.chips[0].cycle_ns == 840_000
    assert (directory / "update_interval").read_text().strip() == "1"
    assert rails.chips[1].cycle_ns == 2_200_000


def test_nonsense_in_the_settings_changes_nothing(tmp_path: Path) -> None:
    rails = rails_of(AGX, tmp_path)
    directory = chip_directory("1-0040", tmp_path)
    for name in ("samples", "update_interval"):
        (directory / name).write_text("fast\n")
    rails.poll()
    assert rails.chips[0].cycle_ns == 6_600_000
    run(rails, 0, 7 * MS, {"VDD_GPU_SOC": 10.0})
    assert milliamperes(AGX, tmp_path) == pytest.approx(508, abs=40)


def test_the_exact_energy_is_kept_whatever_is_shown(tmp_path: Path) -> None:
    rails = rails_of(NANO, tmp_path)
    run(rails, 0, 2000 * MS, {"VDD_IN": 7.5, "VDD_SOC": 1.5})
    assert rails.energy_j["VDD_IN"] == pytest.approx(15.0)
    assert rails.energy_j["VDD_SOC"] == pytest.approx(3.0)
