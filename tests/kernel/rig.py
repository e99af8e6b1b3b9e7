"""The rig's knobs and files, for its tests. See README.md."""

import os
import time
from collections.abc import Callable
from pathlib import Path

PARAMETERS = Path("/sys/module/orin_sim/parameters")
DEVICE = Path("/sys/devices/platform/17000000.gpu")
NODE = Path("/sys/class/devfreq/17000000.gpu")
DRIVER = Path("/sys/bus/i2c/drivers/ina3221")
CHIP, OTHER_CHIP = "1-0040", "1-0041"
LOW_HZ, TOP_HZ = 306_000_000, 1_300_500_000


def write(path: Path, value: object) -> None:
    """Write to an attribute, which is there or this fails: none is ever made."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def hwmon(chip: str = CHIP) -> Path:
    """Return the chip's hwmon folder as it is numbered now."""
    (folder,) = (DRIVER / chip / "hwmon").glob("hwmon*")
    return folder


def rail_files(channel: int = 1, chip: str = CHIP) -> tuple[str, str]:
    """Return the voltage and current files of a channel, as a pattern that outlives a number."""
    folder = DRIVER / chip / "hwmon/hwmon*"
    return str(folder / f"in{channel}_input"), str(folder / f"curr{channel}_input")


def truth() -> dict[str, int]:
    """Return the plant's own power (mW), energy (uJ), work and clock (Hz) of the GPU's rail."""
    words = (DEVICE / "sim_truth").read_text().split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def set_demand(permille: int) -> None:
    """Set the work that is asked for, in permille of what the top clock can do."""
    write(DEVICE / "sim_demand", permille)


def set_limits(min_hz: int, max_hz: int) -> None:
    """Set the clock's limits."""
    write(NODE / "max_freq", max_hz)
    write(NODE / "min_freq", min_hz)


def limits() -> tuple[int, int]:
    """Return the clock's limits as they are in effect."""
    return int((NODE / "min_freq").read_text()), int((NODE / "max_freq").read_text())


def eventually(condition: Callable[[], object], within_s: float = 20.0) -> bool:
    """Whether the condition comes true in (virtual) time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def at_rest() -> None:
    """Put the whole rig to where it was after its start."""
    for knob, value in {"i2c_hang": 0, "i2c_fail": 0, "i2c_delay_us": 0, "noise_mw": 0}.items():
        write(PARAMETERS / knob, value)
    for knob, value in {"refuse_hz": 0, "target_fail": 0, "switch_us": 5000}.items():
        write(PARAMETERS / knob, value)
    for chip in (CHIP, OTHER_CHIP):
        if not (DRIVER / chip).exists():
            write(DRIVER / "bind", chip)
    write(hwmon() / "samples", 1)
    write(DEVICE / "sim_cap", 0)
    set_demand(0)
    set_limits(LOW_HZ, TOP_HZ)
    write(NODE / "governor", "nvhost_podgov")
