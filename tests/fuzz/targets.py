"""What is fuzzed: each reader of what comes from outside, with any bytes.

A target takes bytes and raises nothing: all that a reader may say is one of our own errors. `SEEDS`
makes for each target some inputs as they are on a real board, in a run and in a policy.
"""

import contextlib
import io
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
from plants import policy_of_all_plants
from runs import write_run
from trees import build_tree

from orin_gov._actuator import write_range
from orin_gov._phases import RING_BYTES, PhaseRing
from orin_gov._sampler import Sampler
from orin_gov.board.conditions import read_conditions
from orin_gov.board.files import parse_int
from orin_gov.board.journal import begin_journal, journal_path, load_journal
from orin_gov.board.probe import open_board
from orin_gov.board.throttling import Throttling
from orin_gov.commands import main
from orin_gov.energy import EnergyTimeline
from orin_gov.epoch import Epoch
from orin_gov.errors import OrinGovError
from orin_gov.measured import measure_steps
from orin_gov.policy.features import FEATURES
from orin_gov.policy.policy_file import dump_policy, parse_policy
from orin_gov.policy.tree import walk
from orin_gov.record.tegrastats import parse_log
from orin_gov.windows import WindowBuilder
from orin_gov.workload.ring import make_ring
from orin_gov.workload.tracker import MARK, StepTracker

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HEADER = 128
"""Bytes of the ring's header; records of 24 bytes follow."""


@cache
def place(name: str) -> Path:
    """Return a folder of this process's own; it goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-", dir=MEMORY)
    KEPT.append(folder)
    return Path(folder.name)


def clear() -> None:
    """Remove the folders."""
    while KEPT:
        KEPT.pop().cleanup()
    for each in (place, board_root, small_run):
        each.cache_clear()


KEPT: list[tempfile.TemporaryDirectory[str]] = []


@contextlib.contextmanager
def changed(folder: Path, data: bytes) -> Iterator[Path]:
    """Have one file of a folder, chosen by the first two bytes, hold the rest for a while."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    chosen = files[int.from_bytes(data[:2], "little") % len(files)]
    before = chosen.read_bytes()
    chosen.write_bytes(data[2:])
    try:
        yield chosen
    finally:
        chosen.write_bytes(before)


@cache
def board_root() -> Path:
    """Return a board of plain files."""
    return build_tree(place("board"))


def sysfs(data: bytes) -> None:
    """A board one file of which holds anything."""
    root = board_root()
    with changed(root, data), contextlib.suppress(OrinGovError):
        board = open_board(root)
        board.problems()
        read_conditions(root, board.gpu).as_json()
        if board.gpu:
            board.gpu.read_frequency_hz()
            board.gpu.read_load()
        throttling = Throttling(root, board.gpu)
        throttling.heat()
        throttling.events()


def journal(data: bytes) -> None:
    """A journal that holds anything."""
    root = place("journal")
    (root / "run").mkdir(exist_ok=True)
    path = journal_path(root)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    with contextlib.suppress(OrinGovError):
        load_journal(root)


def policy(data: bytes) -> None:
    """A policy of any text; what is accepted can be walked."""
    with contextlib.suppress(OrinGovError):
        found = parse_policy(data.decode("utf-8", "surrogateescape"), "here")
        leaf = walk(found.nodes, dict.fromkeys(FEATURES)).leaf
        prior = found.prior(leaf, [0.1, 0.3, 2.0])
        assert np.isfinite(prior.covariance).all()


@cache
def small_run() -> Path:
    """Return a run directory without an end, with its tails and its present moment."""
    return write_run(place("run") / "run", epochs=3, ended=False)


def run(data: bytes) -> None:
    """A run directory one file of which holds anything."""
    folder = small_run()
    out = place("out")
    with changed(folder, data):
        quietly("explain", folder)
        quietly("top", folder)
        if zlib.crc32(data) % 8 == 0:  # the slow ones
            quietly("replay", folder)
            quietly("export", folder, "--to", "json", "-o", out)
    for file in out.iterdir():
        file.unlink()


def quietly(*words: object) -> None:
    """Run a command here and swallow what it says; any exception is a find."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(word) for word in words]) in (0, 2, 125)


def live(data: bytes) -> None:
    """A present moment that holds anything, with a checksum that is right."""
    folder, data = place("live"), data.replace(b"\n", b" ")  # the checksum's line follows a newline
    (folder / "manifest.json").write_text('{"version": 1}')
    (folder / "live.json").write_bytes(b"%s\n%d\n" % (data, zlib.crc32(data)))
    quietly("top", folder)
    quietly("top", folder, "--json")


def tegrastats(data: bytes) -> None:
    """A log of tegrastats of any text."""
    with contextlib.suppress(OrinGovError):
        parse_log(data.decode("utf-8", "replace").splitlines())


def ring(data: bytes) -> None:
    """A phase ring whose header and first records a hostile child has written; all that follows."""
    memory = make_ring()
    try:
        ring = PhaseRing(memory)
        ring.claim()
        os.pwrite(memory, data[:RING_BYTES], 24)  # magic, version and capacity are looked at once
        records = ring.drain()
        assert len(records) <= RING_BYTES
        assert 0 <= ring.current_phase < 7
        follow(records[: 24 * 2000])
        ring.close()
    finally:
        os.close(memory)


def follow(records: bytes) -> None:
    """Do with drained records what the engine does."""
    timeline = EnergyTimeline(("A", "B"))
    builder = WindowBuilder(Epoch(steps=2), timeline, ("A",), {})
    builder.begin(None, 0)
    steps = StepTracker().feed(np.frombuffer(records, dtype=MARK))
    for measured in measure_steps(steps, timeline, ("A",), True):
        builder.add(measured)


def integer(data: bytes) -> None:
    """A sensor's and a limit's file of any bytes, read by the extension as Python reads them."""
    folder = place("integer")
    files = [folder / name for name in ("mv", "ma", "min_freq", "max_freq")]
    for file in files:
        file.write_bytes(data)
    sampler = Sampler([(str(files[0]), str(files[1]))], 100_000, 10**9)
    sampler.start()
    while sampler.sweeps < 1:
        time.sleep(0.0001)
    sampler.stop()
    (found,) = sampler.quality()
    known = parse_int(data) if len(data) < 64 else None
    assert (found.reads > 0) == (known is not None), (data, found)
    write_range(str(folder), 0, 1)


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (sysfs, journal, policy, run, live, tegrastats, ring, integer)
}


def seeds(name: str) -> list[bytes]:
    """Return inputs of a target as they are in the world."""
    if name in ("sysfs", "run"):
        folder = board_root() if name == "sysfs" else small_run()
        files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
        return [n.to_bytes(2, "little") + each.read_bytes() for n, each in enumerate(sorted(files))]
    if name == "journal":
        board = open_board(board_root())
        assert board.gpu is not None
        written = begin_journal(board.root, board.gpu).path
        content = written.read_bytes()
        written.unlink()
        return [content]
    if name == "policy":
        shipped = (resources.files("orin_gov.policy") / "default.json").read_bytes()
        return [shipped, dump_policy(policy_of_all_plants()).encode()]
    if name == "ring":
        marks = np.array([(1000 * n, n % 7 if n % 7 else 100, 8.0) for n in range(40)], dtype=MARK)
        head = np.array([40, 0, 0, os.getpid(), 1, 0], dtype=np.int64)
        return [head.tobytes() + bytes(HEADER - 24 - head.nbytes) + marks.tobytes()]
    return {"tegrastats": LINES, "integer": INTEGERS}.get(name, [b"{}"])


INTEGERS = [b"5000\n", b"-1", b"9223372036854775808"]
LINES = [
    b"01-31-2026 10:00:00 RAM 1/2MB GR3D_FREQ 0%@[1007,off] VDD_IN 4984mW/4984mW VDD_SOC 1mW/1mW",
    b"RAM 1/2MB GR3D_FREQ 9%@921 POM_5V_IN 4984/4984",
]
