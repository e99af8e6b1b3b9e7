"""Runs of `orin-gov run` under way, for tests of what they do to a board and to a script."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from conftest import hasty, our_processes
from trees import (
    AGX_CLOCKS,
    eventually,
)

AT_REST = (str(AGX_CLOCKS[0]), str(AGX_CLOCKS[-1]))

# For what must not pass before it is seen, on a machine that may be busy.
SLOWLY = ("--epoch", "1s")
IMPATIENT = "import orin_gov.governed_run as it; it.STALLED_NS //= 3\n"


class Run:
    """A run under way: its supervisor, its warden where it governs, and the file it tells in."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path) -> None:
        self.process = process
        self._told = told
        assert process.stdout is not None
        self.script = psutil.Process(int(process.stdout.readline()))

    @property
    def told(self) -> str:
        return self._told.read_text()

    @property
    def warden(self) -> psutil.Process:
        """The one child that is neither the script nor a virtual board: it has our own words."""
        us = psutil.Process(self.process.pid)
        (warden,) = (child for child in us.children() if child.cmdline() == us.cmdline())
        return warden

    @property
    def virtual_tree(self) -> Path:
        """Where the virtual board's server, a child of the supervisor, serves its files."""
        words = [child.cmdline() for child in psutil.Process(self.process.pid).children()]
        (server,) = (each for each in words if "orin_gov.virtual.server" in each)
        return Path(server[server.index("--root") + 1])

    def ends(self, go: str = "") -> int:
        """Let the script end; return the run's exit code."""
        folder = self._told.parent
        (folder / "whither").write_text(go)
        (folder / "whither").rename(folder / "go")  # never seen half written
        return self.process.wait(20)


@contextmanager
def governed(
    job: Path, *options: object, wrap: Callable[[list[str]], list[str]] = list
) -> Iterator[Run]:
    """Run the script with short epochs; whatever is left at the end of the block is ended."""
    words = hasty("run", "--epoch", "0.3s", "--output", "run", *options, "--", job)
    folder = job.parent
    with (
        (folder / "told").open("w") as stderr,
        subprocess.Popen(wrap(words), cwd=folder, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            yield Run(process, folder / "told")
        finally:
            (folder / "go").write_text("")
    assert eventually(lambda: not our_processes())


def impatient(words: list[str]) -> list[str]:
    """Have the engine given up once it has hung for a third as long."""
    return [*words[:2], IMPATIENT + words[2], *words[3:]]
