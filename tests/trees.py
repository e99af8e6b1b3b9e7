"""Boards as trees of plain files: sysfs, the device tree and /etc of four modules.

Plain files do not act: a clock follows a limit only where a test makes it (`following`). A channel
that cannot be read (ENODATA on JetPack 6) has folders in place of its files, which fail as well.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

BOARDS = Path(__file__).parent / "data/boards"
"""Trees of many more boards than are described here; tests/data/README.md tells their format."""

DISABLED = None
"""The label of a channel that JetPack 6 switches off: no label file, and its readings fail."""

HZ = 1_000_000
AGX_CLOCKS = (*range(306 * HZ, 1225 * HZ, 102 * HZ), 1_300_500_000)
NX_CLOCKS = tuple(range(306 * HZ, 919 * HZ, 102 * HZ))
NANO_CLOCKS = tuple(range(306 * HZ, 1021 * HZ, 102 * HZ))

AGX_RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
SMALL_RAILS = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")


@dataclass(frozen=True)
class Description:
    """What of a board differs from module to module and from release to release."""

    compatible: tuple[str, ...]
    model: str
    release: str
    platform: str
    gpu: str
    gpu_node: str
    clocks_hz: tuple[int, ...]
    chips: Mapping[str, tuple[str | None, ...]]
    hwmon: int = 1
    samples: int = 1


AGX_JP6 = Description(
    compatible=("nvidia,p3737-0000+p3701-0005", "nvidia,tegra234"),
    model="NVIDIA Jetson AGX Orin Developer Kit",
    release="# R36 (release), REVISION: 4.7, GCID: 1, BOARD: generic, EABI: aarch64",
    platform="sys/devices/platform/bus@0",
    gpu="17000000.gpu",
    gpu_node="gpu",
    clocks_hz=AGX_CLOCKS,
    chips={"1-0040": AGX_RAILS, "1-0041": (DISABLED, "VDDQ_VDD2_1V8AO", DISABLED)},
)
AGX_JP5 = replace(
    AGX_JP6,
    release="# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref, EABI: aarch64",
    platform="sys/devices/platform",
    gpu="17000000.ga10b",
    gpu_node="ga10b",
    chips={"1-0040": AGX_RAILS, "1-0041": ("NC", "VDDQ_VDD2_1V8AO", "NC")},
    hwmon=3,
)
NX_JP6 = replace(
    AGX_JP6,
    compatible=("nvidia,p3768-0000+p3767-0000", "nvidia,p3767-0000", "nvidia,tegra234"),
    model="NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
    clocks_hz=NX_CLOCKS,
    chips={"1-0040": SMALL_RAILS},
)
NANO_JP6 = replace(
    NX_JP6,
    compatible=("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
    model="NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
    release="# R36 (release), REVISION: 4.4, GCID: 1, BOARD: generic, EABI: aarch64",
    clocks_hz=NANO_CLOCKS,
    samples=512,
)
OTHER_DEVFREQ = {"15340000.vic": "vic", "15480000.nvdec": "nvdec", "154c0000.nvenc": "nvenc"}


def build_tree(root: Path, board: Description = AGX_JP6) -> Path:
    """Write the tree of `board` at rest under `root`, which it returns."""
    write(root / "proc/device-tree/compatible", "".join(f"{c}\0" for c in board.compatible))
    write(root / "proc/device-tree/model", f"{board.model}\0")
    write(root / "etc/nv_tegra_release", f"{board.release}\n")
    (root / "run").mkdir()
    for name, node in {**OTHER_DEVFREQ, board.gpu: board.gpu_node}.items():
        add_devfreq(root, board, name, node)
    for number, (chip, labels) in enumerate(board.chips.items(), board.hwmon):
        _add_chip(root, board, chip, labels, number)
    return root


def add_devfreq(root: Path, board: Description, name: str, node: str) -> Path:
    """Write one device with its devfreq folder, idle at the lowest clock; return the folder."""
    device = root / board.platform / name
    write(device / "of_node/name", f"{node}\0")
    write(device / "load", "900\n")
    folder = device / "devfreq" / name
    low, top = board.clocks_hz[0], board.clocks_hz[-1]
    for file, text in {
        "governor": "nvhost_podgov",
        "available_frequencies": " ".join(map(str, board.clocks_hz)),
        "cur_freq": low,
        "min_freq": low,
        "max_freq": top,
    }.items():
        write(folder / file, f"{text}\n")
    (folder / "device").symlink_to("../..")
    link(root / "sys/class/devfreq" / name, folder)
    return folder


def _add_chip(
    root: Path, board: Description, chip: str, labels: tuple[str | None, ...], number: int
) -> None:
    device = root / board.platform / "c240000.i2c/i2c-1" / chip
    hwmon = device / f"hwmon/hwmon{number}"
    write(hwmon / "name", "ina3221\n")
    write(hwmon / "samples", f"{board.samples}\n")
    for channel, label in enumerate(labels, 1):
        files = hwmon / f"in{channel}_input", hwmon / f"curr{channel}_input"
        for file, text in zip(files, ("5000\n", "800\n"), strict=True):
            file.mkdir() if label is DISABLED else write(file, text)
        if label is not DISABLED:
            write(hwmon / f"in{channel}_label", f"{label}\n")
    # The sum of the shunts is no channel, for all that it has a label.
    write(hwmon / "in7_label", "sum of shunt voltages\n")
    link(root / "sys/bus/i2c/drivers/ina3221" / chip, device)


def board_names() -> list[str]:
    """Return the names of the boards in tests/data."""
    return sorted(path.stem for path in BOARDS.glob("*.tree"))


def plant(root: Path, name: str) -> Path:
    """Write the tree of the board `name` of tests/data under `root`, which it returns."""
    lines = iter((BOARDS / f"{name}.tree").read_text().splitlines())
    folder = root
    for line in lines:
        if line.startswith("["):
            folder = root / line[1:-1]
        elif line.endswith(" <<"):
            body = itertools.takewhile(lambda each: each != ">>", lines)
            write(folder / line[:-3], "".join(f"{each[2:]}\n" for each in body))
        elif " -> " in line:
            file, _, target = line.partition(" -> ")
            link(folder / file, Path(target))
        elif " ! " in line:
            (folder / line.partition(" ! ")[0]).mkdir(parents=True)
        elif not line.startswith("#"):
            file, _, text = line.partition(" = ")
            ending = "" if text.endswith("\\0") else "\n"
            write(folder / file, text.replace("\\0", "\0") + ending)
    return root


def faults_of(name: str) -> dict[Path, str]:
    """Return what fails in the board `name` of tests/data: path and name of the errno."""
    found, folder = {}, Path()
    for line in (BOARDS / f"{name}.tree").read_text().splitlines():
        if line.startswith("["):
            folder = Path(line[1:-1])
        elif " ! " in line:
            file, _, errno = line.partition(" ! ")
            found[folder / file] = errno
    return found


def gpu_folder(root: Path) -> Path:
    """Return the GPU's devfreq folder of a tree, by its real path."""
    (folder,) = (root / "sys/class/devfreq").glob("17000000.*")
    return folder.resolve()


def limits(folder: Path) -> tuple[str, str]:
    """Return the texts of min_freq and max_freq."""
    return (folder / "min_freq").read_text().strip(), (folder / "max_freq").read_text().strip()


def is_pinned(folder: Path) -> bool:
    """Whether both limits are one clock."""
    low, high = limits(folder)
    return low == high != ""


def eventually(condition: Callable[[], object], within_s: float = 20.0) -> bool:
    """Whether the condition comes true in time. Files have no other way of telling."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def has_ended(process: psutil.Process) -> bool:
    """Whether the process runs no more; an orphan may stay a zombie for a while."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def following(folder: Path) -> Iterator[None]:
    """Make the clock follow the limits, as a board's does, for as long as the block lasts."""
    done = threading.Event()

    def follow() -> None:
        while not done.wait(0.002):
            (folder / "next").write_text((folder / "min_freq").read_text())
            (folder / "next").replace(folder / "cur_freq")

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def content(root: Path) -> dict[Path, tuple[int, bytes]]:
    """Return when every file under `root` was last written, and what it holds."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def write(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
    path.write_text(text)


def link(path: Path, target: Path) -> None:
    """Link to `target`, and make the folders above the link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
