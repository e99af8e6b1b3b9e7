"""What all tests share: running the real command, and the promise that nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from jobs import write_job
from rings import ring_memory
from trees import AGX_JP6, build_tree

from orin_gov._phases import PhaseRing
from orin_gov.board.gpu import Gpu, find_gpu
from orin_gov.board.journal import Journal, begin_journal

ROOT = Path(__file__).parents[1]
VIRTUAL = "virtual:agx-orin-64gb"
MARK, MARK_VALUE = "ORIN_GOV_TEST_RUN", str(os.getpid())

# Under nohup, or as a shell's background job, signals are ignored, and so by all that tests start.
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Result = TypeVar("Result")


def command(*words: object) -> list[str]:
    """Return `orin-gov WORDS` as an argument vector of this interpreter."""
    return [sys.executable, "-m", "orin_gov", *map(str, words)]


HASTY = """
import sys
from dataclasses import replace
from orin_gov import epoch
from orin_gov.commands import main
parse_epoch = epoch.parse_epoch
epoch.parse_epoch = lambda text: replace(parse_epoch(text), least_s=0.0)
sys.exit(main())
"""


def hasty(*words: object) -> list[str]:
    """Return the same, with decision epochs that may be as short as the sensors allow."""
    return [sys.executable, "-c", HASTY, *map(str, words)]


def side_by_side(*runs: Callable[[], Result]) -> list[Result]:
    """Call all, as many at once as there are processors: most of what a run takes is one's time."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda run: run(), runs))


@pytest.fixture
def shared_data() -> Path:
    """Return the folder of measured data beside the repository; without it the test is skipped."""
    data = ROOT.parent / "shared/data"
    if not data.is_dir():
        pytest.skip(f"measured data is not at hand: {data} is missing")
    return data


@pytest.fixture
def orin_gov(tmp_path: Path) -> Run:
    """Run the real command in a folder of its own."""

    def run(*words: object, **options: object) -> "subprocess.CompletedProcess[str]":
        arguments: dict[str, object] = {
            "cwd": tmp_path,
            "capture_output": True,
            "text": True,
            "timeout": 120,
            **options,
        }
        return subprocess.run(command(*words), **arguments)  # type: ignore[call-overload,no-any-return]

    return run


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write_job(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script and return its path."""

    def write(text: str, name: str = "script.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def without_rights(words: Sequence[str]) -> list[str]:
    """Return the command as one that file modes bind even where the tests run as root."""
    if os.geteuid():
        return list(words)
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--", *words]


def ours_in_temp() -> set[str]:
    """Return the temporary files and folders that carry our name."""
    places = {tempfile.gettempdir(), "/dev/shm", "/run"}
    return {
        os.path.join(place, name)
        for place in places
        if os.path.isdir(place)
        for name in os.listdir(place)
        if "orin_gov" in name
    }


def in_use(file: str) -> bool:
    """Tell whether a living process names the file: then it belongs to a run not of this test."""
    return any(
        file in word
        for process in psutil.process_iter(["cmdline"])
        for word in process.info["cmdline"] or ()
    )


def our_processes() -> set[int]:
    """Return the living processes that this test run started, however far they have detached."""
    return {
        process.pid
        for process in psutil.process_iter(["environ", "status"])
        if (process.info["environ"] or {}).get(MARK) == MARK_VALUE
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and process.pid != os.getpid()
    }


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    files = ours_in_temp()
    os.environ[MARK] = MARK_VALUE
    yield
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in our_processes()], timeout=5)
    assert not alive, f"processes left behind: {[process.cmdline() for process in alive]}"
    left = {file for file in ours_in_temp() - files if not in_use(file)}
    assert not left, f"left behind: {left}"


# What the tests of the board's room and of the ring begin with.


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "board")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A board whose sensors average."""
    return build_tree(tmp_path / "board", replace(AGX_JP6, samples=512))


@pytest.fixture
def gpu(root: Path) -> Gpu:
    found = find_gpu(root)
    assert found is not None
    return found


@pytest.fixture
def journal(root: Path, gpu: Gpu) -> Journal:
    return begin_journal(root, gpu)


@pytest.fixture
def fd() -> Iterator[int]:
    with ring_memory() as descriptor:
        yield descriptor


@pytest.fixture
def producer(fd: int) -> PhaseRing:
    ring = PhaseRing(fd)
    assert ring.claim()
    return ring
