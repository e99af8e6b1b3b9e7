"""The GPU's temperature, from the kernel's thermal zones."""

from pathlib import Path

from orin_gov.board.files import read_int, read_text


def read_gpu_temperature_c(root: Path) -> float | None:
    """The temperature (deg C) of the GPU's thermal zone, or None where no zone tells it."""
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        if (read_text(zone / "type") or "").lower().startswith("gpu"):
            millidegrees = read_int(zone / "temp")
            return None if millidegrees is None else millidegrees / 1000
    return None
