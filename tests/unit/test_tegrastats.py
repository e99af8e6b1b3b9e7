"""Logs of tegrastats: what each release writes, and the time its lines are given."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.commands import main
from orin_gov.errors import RunDirectoryError
from orin_gov.record.reader import read_decisions, read_manifest, read_summary
from orin_gov.record.tegrastats import parse_line, parse_log, spread

NANO_JP4 = (
    "RAM 1923/3964MB (lfb 2x2MB) SWAP 191/1982MB (cached 6MB) IRAM 0/252kB(lfb 252kB) "
    "CPU [5%@1224,4%@1224] EMC_FREQ 0%@1600 GR3D_FREQ 9%@921 APE 25 PLL@37C CPU@40C "
    "POM_5V_IN 1750/1628 POM_5V_GPU 0/0 POM_5V_CPU 366/406"
)
XAVIER_JP4 = (
    "RAM 4181/15692MB (lfb 2x4MB) MTS fg 0% bg 0% GR3D_FREQ 99% APE 150 GPU@36C "
    "GPU 1846/1800 CPU 307/350 SOC 923/920 CV 0/0 VDDRQ 153/150 SYS5V 1442/1440"
)
NANO_JP6 = (
    "06-12-2026 00:05:45 RAM 2070/7607MB (lfb 37x4MB) SWAP 176/3804MB (cached 1MB) "
    "CPU [58%@1728,60%@1728] EMC_FREQ 0%@2133 GR3D_FREQ 0%@[1007] NVDEC off VIC off APE 200 "
    "cpu@47.593C gpu@46.937C VDD_IN 5950mW/5900mW VDD_CPU_GPU_CV 1794mW/1700mW "
    "VDD_SOC 1435mW/1435mW"
)
AGX_JP6 = (
    "03-01-2025 10:00:00 RAM 9000/62841MB (lfb 4x4MB) EMC_FREQ 1%@3199 GR3D_FREQ 80%@[0,1295] "
    "VDD_GPU_SOC 12345mW/4000mW VDD_CPU_CV 790mW/800mW VIN_SYS_5V0 4011mW/4000mW NC 0mW/0mW "
    "VDDQ_VDD2_1V8AO 905mW/900mW NC 0mW/0mW"
)
THOR_JP7 = (
    "08-08-2026 20:58:23 RAM 8353/125749MB CPU [0%,5%,off]@2601 EMC_FREQ 34%@4266 "
    "GR3D_FREQ 87%@[1574,off,1573] NVENC0_FREQ @1691 gpu@56.937C/66.625C "
    "VDD_GPU -392mW/8660mW/37939mW VDD_CPU_SOC_MSS 30059mW/12281mW/30059mW "
    "VIN_SYS_5V0 15486mW/7424mW/15486mW VIN 124486mW/36487mW/124486mW"
)


@pytest.mark.parametrize(
    ("text", "clock_mhz", "power_mw"),
    [
        (NANO_JP4, 921, {"POM_5V_IN": 1750, "POM_5V_GPU": 0, "POM_5V_CPU": 366}),
        (
            XAVIER_JP4,
            None,
            {"GPU": 1846, "CPU": 307, "SOC": 923, "CV": 0, "VDDRQ": 153, "SYS5V": 1442},
        ),
        (NANO_JP6, 1007, {"VDD_IN": 5950, "VDD_CPU_GPU_CV": 1794, "VDD_SOC": 1435}),
        (
            AGX_JP6,
            1295,
            {
                "VDD_GPU_SOC": 12345,
                "VDD_CPU_CV": 790,
                "VIN_SYS_5V0": 4011,
                "VDDQ_VDD2_1V8AO": 905,
            },
        ),
        (
            THOR_JP7,
            1574,
            {"VDD_GPU": -392, "VDD_CPU_SOC_MSS": 30059, "VIN_SYS_5V0": 15486, "VIN": 124486},
        ),
    ],
    ids=["nano-jp4", "xavier-jp4", "nano-jp6", "agx-jp6", "thor-jp7"],
)
def test_the_readings_of_every_release_are_told_apart_from_their_means(
    text: str, clock_mhz: int | None, power_mw: dict[str, int]
) -> None:
    line = parse_line(text)
    assert line is not None
    assert line.power_mw == power_mw
    assert line.clock_hz == (None if clock_mhz is None else clock_mhz * 1_000_000)


@pytest.mark.parametrize("clusters", ["@[off,off]", "@[]", "@[N/A]", "", "@[-5]", "@[99999999]"])
def test_a_clock_that_is_not_told_is_missing(clusters: str) -> None:
    line = parse_line(f"RAM 1/2MB GR3D_FREQ 0%{clusters} VDD_IN 5mW/5mW")
    assert line is not None
    assert line.clock_hz is None


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    line = parse_line(text)
    assert line is None or line.power_mw is not None


def test_other_lines_are_counted_and_a_log_without_any_is_told() -> None:
    log = parse_log([NANO_JP6, "", "Killed", NANO_JP6[:12], NANO_JP6[30:]])
    assert (len(log.lines), log.skipped) == (1, 4)  # the last one was cut off: when was it?
    with pytest.raises(RunDirectoryError, match="this is no log of tegrastats"):
        parse_log(["hello", ""])


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        ([5], [0]),
        ([5, 6, 7], [0, 1, 2]),
        ([5, 7, 9], [0, 2, 4]),
        ([0, 0, 1, 1, 2, 2], [0, 0.5, 1, 1.5, 2, 2.5]),
        # The log begins at the end of a second and ends at the begin of one.
        ([0, 1, 1, 1, 1, 2], [0, 0.25, 0.5, 0.75, 1.0, 1.25]),
        ([0, 0, 1, 1, 1, 1, 2, 2, 2], [0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]),
        # Three, three and four a second, as at 300 ms.
        ([0] * 3 + [1] * 3 + [2] * 4, [*(i / 3 for i in range(6)), 2, 2 + 1 / 3, 2 + 2 / 3, 3]),
    ],
)
def test_lines_of_one_second_are_spread_evenly_over_it(
    seconds: Sequence[float], times: Sequence[float]
) -> None:
    assert spread(seconds)[: len(times)] == pytest.approx(times[: len(seconds)], abs=0.3)
    if len(times) < 10:
        assert spread(seconds) == pytest.approx(times)


@given(st.lists(st.integers(0, 30), min_size=1).map(sorted))
def test_time_goes_on_and_stays_near_the_stamps(seconds: list[int]) -> None:
    times = spread(seconds)
    assert times[0] == 0
    assert all(after > before for before, after in pairwise(times))
    assert all(
        abs(time - (second - seconds[0])) <= 1 for time, second in zip(times, seconds, strict=True)
    )


def test_a_clock_that_was_set_back_is_told() -> None:
    with pytest.raises(RunDirectoryError, match=r"set back by 3600 s; cut the log there"):
        spread([3600, 0])


def test_a_log_without_stamps_is_spaced_as_the_user_says() -> None:
    assert parse_log([NANO_JP4] * 3).times_s == (0, 1, 2)
    assert parse_log([NANO_JP4] * 3, 0.25).times_s == (0, 0.25, 0.5)


def imported(tmp_path: Path, lines: Sequence[str], *words: str) -> Path:
    log = tmp_path / "tegrastats.log"
    log.write_text("\n".join(lines) + "\n")
    assert main(["import", str(log), "-o", str(tmp_path / "run"), *words]) == 0
    return tmp_path / "run"


def samples_of(run: Path) -> pa.Table:
    with pa.OSFile(str(run / "samples.arrows"), "rb") as file:
        return pa.ipc.open_stream(file).read_all()


def test_a_log_becomes_a_run_directory(tmp_path: Path, capsys) -> None:
    lines = [NANO_JP4, NANO_JP4.replace("POM_5V_IN 1750", "POM_5V_IN 2750"), NANO_JP4]
    run = imported(tmp_path, lines)
    assert read_decisions(run) == []
    manifest, summary = read_manifest(run), read_summary(run)
    assert (manifest["source"], manifest["total_rails"]) == ("tegrastats", ["POM_5V_IN"])
    assert summary["energy_j"] == pytest.approx(2.25 + 2.25)  # two trapezoids
    assert summary["rail_energy_j"]["POM_5V_GPU"] == 0
    table = samples_of(run)
    assert table["t_ns"].to_pylist() == [0, 1_000_000_000, 2_000_000_000]
    assert table["clock_hz"].to_pylist() == [921_000_000] * 3
    assert table["power_POM_5V_IN_w"].to_pylist() == [1.75, 2.75, 1.75]
    assert "module           4.5 J" in capsys.readouterr().out
    assert main(["explain", str(run)]) == 0


def test_a_total_lacking_a_rail_is_no_total(tmp_path: Path, capsys) -> None:
    run = imported(tmp_path, [AGX_JP6.replace("VDD_CPU_CV 790mW/800mW ", "")] * 2)
    assert read_summary(run)["energy_j"] is None
    assert "not known: which rails?" in capsys.readouterr().out


def test_agx_orins_total_leaves_out_what_lies_inside_another_rail(tmp_path: Path) -> None:
    lines = [AGX_JP6, AGX_JP6.replace("10:00:00", "10:00:01")]
    run = imported(tmp_path, lines, "--module", "p3701-0005")
    assert read_summary(run)["energy_j"] == pytest.approx(12.345 + 0.790 + 4.011)
    assert read_manifest(run)["board"] == "Jetson AGX Orin 64GB"


def test_a_rail_missing_from_a_line_is_missing_and_a_gap_is_not_filled(tmp_path: Path) -> None:
    seconds = (*range(10), 40, 41)
    lines = [NANO_JP6.replace(":45", f":{second:02}") for second in seconds]
    lines[3] = lines[3].replace(" VDD_SOC 1435mW/1435mW", "")
    run = imported(tmp_path, lines)
    summary = read_summary(run)
    assert samples_of(run)["power_VDD_SOC_w"].null_count == 1
    assert summary["energy_j"] == pytest.approx(5.95 * 10)  # 31 s are not known
    assert summary["elapsed_s"] == 41


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--module", "p1"], 2, "--module is 'p1'"),
        (["--interval-ms", "-5"], 2, "--interval-ms is -5"),
        (["--module", "p3701-0005"], 125, "has no rail VDD_GPU_SOC"),
    ],
)
def test_what_cannot_be_imported_is_told_and_nothing_is_written(
    tmp_path: Path, capsys, words: list[str], code: int, says: str
) -> None:
    log = tmp_path / "log"
    log.write_text(NANO_JP4)
    assert main(["import", str(log), "-o", str(tmp_path / "run"), *words]) == code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_missing_log_is_told(tmp_path: Path, capsys) -> None:
    assert main(["import", str(tmp_path / "nothing")]) == 125
    assert "No such file" in capsys.readouterr().err


def test_a_measured_log_is_read_whole(tmp_path: Path, shared_data: Path) -> None:
    log = shared_data / "orin_nano_super/tegrastats-sample.log"
    run = imported(tmp_path, log.read_text().splitlines())
    summary, table = read_summary(run), samples_of(run)
    assert len(table) == 300
    assert table["power_VDD_IN_w"].null_count == 0
    apart_s = np.diff(table["t_ns"].to_numpy()) * 1e-9
    assert 0.09 < apart_s.min() < apart_s.max() < 0.13  # nine or ten lines a second
    assert summary["energy_j"] / summary["elapsed_s"] == pytest.approx(5.9, abs=0.1)
    clocks = table["clock_hz"].to_numpy()
    assert 1_000_000_000 < np.median(clocks) < 1_020_000_000
    json.dumps(summary)
