"""The virtual board against what was measured on real ones."""

from pathlib import Path

import pytest

from bench import _calibration as calibration
from bench import _measured as measured
from bench import plant as bench
from orin_gov.virtual.board_file import read_board_file
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.published import FINETUNES, TILE, decode_laws

BOARD = load_board("agx-orin-64gb")


def failures(figures: list[bench.Figure]) -> dict[str, float]:
    return {figure.name: figure.value for figure in figures if figure.ok is False}


def test_decoding_is_as_measured_on_batches_that_were_not_fitted(shared_data: Path) -> None:
    cells = measured.read_decode_grid(shared_data)
    assert len(cells) == 16 * 11
    assert failures(bench.decode_figures(BOARD, cells)) == {}


def test_fine_tuning_energies_are_as_published(shared_data: Path) -> None:
    curves = measured.read_finetune_curves(shared_data)
    assert set(curves) == set(FINETUNES)
    assert failures(bench.finetune_figures(BOARD, curves)) == {}


def test_switches_take_as_long_as_measured(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SWITCHES", 400)
    switches = measured.read_switches(shared_data)
    assert len(switches) == 4
    assert failures(bench.switch_figures(BOARD, switches)) == {}


def test_podgov_reaches_the_top_in_time() -> None:
    assert failures(bench.podgov_figures(BOARD)) == {}


def test_the_switch_constants_are_those_of_the_measured_files(shared_data: Path) -> None:
    found = calibration.fit_switches(measured.read_switches(shared_data))
    assert calibration.differences({"constants": found}, read_board_file("agx-orin-64gb")) == []


def test_a_number_that_was_changed_by_hand_is_told() -> None:
    file = read_board_file("agx-orin-64gb")
    found = {"constants": {"leak_w": file["constants"]["leak_w"] * 1.1}}
    (line,) = calibration.differences(found, file)
    assert line.startswith(".constants.leak_w: the fit says")


def test_odd_batches_and_other_files_of_the_same_columns_are_read(tmp_path: Path) -> None:
    header = "decode_freq_bin,effective_batch_size,decode_time,decode_TOTAL_POWER,temperature\n"
    (tmp_path / "deeper").mkdir()
    for name, power in (("a.csv", 20.0), ("deeper/b.csv", 30.0), ("c.csv", 26.0)):
        (tmp_path / name).write_text(f"{header}10,3,4.3,{power},65\n")
    (tmp_path / "other.csv").write_text("time,power\n1,2\n")
    (cell,) = measured.read_decode_grid(tmp_path)
    assert cell == measured.Cell(3, 1_300_500_000.0, 4.3, 26.0, 65.0)


def test_decoding_takes_more_of_everything_for_more_sequences() -> None:
    batches = [1, 2, 5, 16]
    laws = [decode_laws(batch) for batch in batches]
    for clock_hz in BOARD.frequencies_hz:
        times = [sum(BOARD.time_s(law, clock_hz) for law in pair) for pair in laws]
        assert times == sorted(times)
    below, above = decode_laws(TILE)[0], decode_laws(TILE + 1)[0]
    assert above.floor < below.floor
