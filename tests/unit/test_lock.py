"""The lock on the GPU: one governor at a time."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from trees import content

from orin_gov.board.gpu import Gpu
from orin_gov.board.lock import exclusive
from orin_gov.errors import BoardError

HOLD = """
import sys
from pathlib import Path
from orin_gov.board.gpu import find_gpu
from orin_gov.board.lock import exclusive
with exclusive(find_gpu(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(root: Path):
    """Another process that holds the GPU until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.mark.parametrize(
    "end", [lambda p: p.stdin.close(), lambda p: p.send_signal(signal.SIGKILL)]
)
def test_a_second_process_is_refused_until_the_first_has_ended(
    gpu: Gpu, holder, end: Callable[[object], None]
) -> None:
    with pytest.raises(BoardError, match=r"another orin-gov governs 17000000\.gpu"), exclusive(gpu):
        pass
    end(holder)
    holder.wait(20)
    with exclusive(gpu):
        pass


def test_locking_changes_nothing(gpu: Gpu, root: Path) -> None:
    before = content(root)
    with exclusive(gpu):
        assert content(root) == before


def test_a_gpu_that_is_gone_cannot_be_held(gpu: Gpu) -> None:
    (gpu.directory / "max_freq").unlink()
    with pytest.raises(BoardError, match=r"cannot open .*max_freq: No such file"), exclusive(gpu):
        pass
