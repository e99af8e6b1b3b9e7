"""What is preloaded into a run to have the world fail it: tests/*.c."""

import mmap
import os
import struct
import subprocess
import sysconfig
from pathlib import Path


def compiled(name: str, folder: Path) -> Path:
    """Compile tests/NAME.c into the folder; the extension needed a compiler as well."""
    library = folder / f"{name}.so"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(
        [*compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
    )
    return library


class Faults:
    """One file that cannot be read, in every process that was started with `env`."""

    def __init__(self, folder: Path) -> None:
        file = folder / "faults"
        file.write_bytes(bytes(8192))
        self.env = {"LD_PRELOAD": str(compiled("faults", folder)), "FAULTS": str(file)}
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), 0)

    def set(self, path: Path, error: int) -> None:
        """Have the file fail with `error`, or with 0 none any more."""
        self._shared[:4] = struct.pack("=i", 0)
        name = os.fsencode(path.resolve()) + b"\0"
        self._shared[4 : 4 + len(name)] = name
        self._shared[:4] = struct.pack("=i", error)


class Clocks:
    """The wall clock, and the time since the boot, of every process that was started with `env`."""

    def __init__(self, folder: Path) -> None:
        file = folder / "clocks"
        file.write_bytes(bytes(16))
        self.env = {"LD_PRELOAD": str(compiled("clocks", folder)), "CLOCKS": str(file)}
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), 0)

    def set_wall(self, ahead_s: float) -> None:
        """Set the wall clock to so many seconds ahead of the machine's."""
        self._shared[:8] = struct.pack("=q", round(ahead_s * 1e9))

    def suspend(self, seconds: float) -> None:
        """Let the time since the boot jump, as a suspended machine finds it."""
        before_ns = struct.unpack("=q", self._shared[8:])[0]
        self._shared[8:] = struct.pack("=q", before_ns + round(seconds * 1e9))
