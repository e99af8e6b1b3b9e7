"""`orin-gov doctor`: what it says of each board, and what it ends with."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import command, without_rights
from trees import AGX_JP5, AGX_JP6, NANO_JP6, NX_JP6, Description, build_tree, content, gpu_folder


def doctor(root: Path, *, rights: bool = True) -> tuple[int, str]:
    """Return the exit code and what was said; nothing may stand on stderr."""
    words = command("doctor", "--root", root)
    done = subprocess.run(
        words if rights else without_rights(words), capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def mends(said: str) -> list[str]:
    """Return the commands that are said to mend something."""
    return [line.split(maxsplit=1)[1] for line in said.splitlines() if line.startswith("  mend")]


AGX_SAID = """\
board    Jetson AGX Orin 64GB, module p3701-0005
release  L4T {l4t} (JetPack {jetpack})
gpu      {gpu}, governor nvhost_podgov
clocks   306 408 510 612 714 816 918 1020 1122 1224 1300.5 MHz; limits 306-1300.5 MHz
rail     VDD_GPU_SOC (1-0040 channel 1)
rail     VDD_CPU_CV (1-0040 channel 2)
rail     VIN_SYS_5V0 (1-0040 channel 3)
rail     VDDQ_VDD2_1V8AO (1-0041 channel 2, not in the total)
total    VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0
ready    orin-gov run train.py
"""

NX_SAID = """\
board    Jetson Orin NX 16GB, module p3767-0000
release  L4T 36.4.7 (JetPack 6.2.1)
gpu      17000000.gpu, governor nvhost_podgov
clocks   306 408 510 612 714 816 918 MHz; limits 306-918 MHz
rail     VDD_IN (1-0040 channel 1)
rail     VDD_CPU_GPU_CV (1-0040 channel 2, not in the total)
rail     VDD_SOC (1-0040 channel 3, not in the total)
total    VDD_IN
ready    orin-gov run train.py
"""


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        (AGX_JP6, AGX_SAID.format(l4t="36.4.7", jetpack="6.2.1", gpu="17000000.gpu")),
        (AGX_JP5, AGX_SAID.format(l4t="35.4.1", jetpack="5.1.2", gpu="17000000.ga10b")),
        (NX_JP6, NX_SAID),
    ],
)
def test_a_whole_board_is_ready(tmp_path: Path, board: Description, expected: str) -> None:
    before = content(build_tree(tmp_path, board))
    assert doctor(tmp_path) == (0, expected)
    assert content(tmp_path) == before


def test_averaging_sensors_are_told_and_no_obstacle(tmp_path: Path) -> None:
    code, said = doctor(build_tree(tmp_path, NANO_JP6))
    assert code == 0
    assert "board    Jetson Orin Nano 8GB (developer kit) Super, module p3767-0005" in said
    assert "sensors  average 512 readings and lag by 3.4 s" in said


def test_no_jetson_names_the_virtual_board(tmp_path: Path) -> None:
    code, said = doctor(tmp_path)
    assert code == 1
    assert said.startswith("missing  this is no Jetson: ")
    assert "orin-gov run --board virtual:agx-orin-64gb" in mends(said)[0]


def test_an_unknown_board_is_named(tmp_path: Path) -> None:
    board = replace(AGX_JP6, compatible=("nvidia,p9999-0008", "nvidia,tegra999"))
    code, said = doctor(build_tree(tmp_path, board))
    assert code == 1
    assert "board    unknown Jetson (nvidia,p9999-0008 nvidia,tegra999)" in said


@pytest.mark.parametrize(
    ("board", "missing", "mend"),
    [
        (
            replace(AGX_JP6, chips={}),
            "missing  power rails VDD_GPU_SOC, VDD_CPU_CV, VIN_SYS_5V0 not found",
            "sudo modprobe ina3221",
        ),
        (
            replace(NX_JP6, gpu="154c0000.nvenc", gpu_node="nvenc"),
            "missing  no GPU under /sys/class/devfreq",
            f"{Path(sys.executable).name.rstrip('.0123456789')}3 -c 'import torch;",
        ),
        (
            replace(NX_JP6, clocks_hz=(306_000_000,)),
            "available_frequencies holds '306000000', a governor needs at least 2",
            "check that the BSP",
        ),
    ],
    ids=["no ina3221", "no gpu", "one clock"],
)
def test_what_is_missing_is_told_with_what_mends_it(
    tmp_path: Path, board: Description, missing: str, mend: str
) -> None:
    code, said = doctor(build_tree(tmp_path, board))
    assert code == 1
    assert missing in said
    assert len(mends(said)) == 1
    assert mends(said)[0].startswith(mend)
    assert "ready" not in said


def close(root: Path, pattern: str) -> None:
    for file in root.rglob(pattern):
        file.chmod(0)


@pytest.mark.parametrize(
    ("board", "closed", "says"),
    [
        (AGX_JP6, ["min_freq", "max_freq"], "no right to write"),
        (NX_JP6, ["curr?_input"], "no reading of VDD_IN: no right to read"),
        # JetPack 5 hides the labels as well: the rails are there, and must not be called missing.
        (
            AGX_JP5,
            ["in?_label", "in?_input", "curr?_input"],
            "in1_label (mode 0000, owner root), and its like",
        ),
    ],
    ids=["limits", "currents", "labels"],
)
def test_what_gives_the_rights_really_gives_them(
    tmp_path: Path, board: Description, closed: list[str], says: str
) -> None:
    build_tree(tmp_path, board)
    for directory in (gpu_folder(tmp_path), tmp_path / board.platform / "c240000.i2c"):
        for pattern in closed:
            for file in directory.rglob(pattern):
                file.chmod(0o444 if "freq" in pattern else 0)
    code, said = doctor(tmp_path, rights=False)
    assert code == 1
    assert says in said
    (mend,) = mends(said)
    if "orin-gov setup --group" in mend:
        # Whoever owns the files is no member of the group; the rest is in test_setup.py.
        subprocess.run(command("setup", "--group", "root", "--root", tmp_path), check=True)
        limits = [gpu_folder(tmp_path) / name for name in closed]
        assert all(file.stat().st_mode & 0o020 for file in limits)
        for file in limits:
            file.chmod(0o664)
    else:
        subprocess.run(["bash", "-ec", "chmod" + mend.partition("chmod")[2]], check=True)
    code, said = doctor(tmp_path, rights=False)
    assert (code, mends(said)) == (0, [])
