"""Classes of the extension made, used and dropped by the thousand: nothing of them stays."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from extension_uses import USES, make_files

from orin_gov import _actuator, _phases, _sampler

TIMES = 400
LEAK_BYTES = 300
"""An object that stays takes more: this many bytes an object are the allocator's own unrest."""


def anonymous_bytes() -> int:
    """Return this process's own memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell")


def held() -> tuple[int, int, int]:
    """Return descriptors, threads and mappings of shared memory of this process."""
    mappings = Path("/proc/self/maps").read_text()
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        mappings.count("orin_gov-phases"),
    )


@pytest.mark.parametrize("name", USES)
def test_of_an_object_that_is_dropped_nothing_stays(tmp_path: Path, name: str) -> None:
    make_files(tmp_path)
    use: Callable[[Path], None] = USES[name]
    for _ in range(TIMES):
        use(tmp_path)
    before, bytes_before = held(), anonymous_bytes()
    for _ in range(TIMES):
        use(tmp_path)
    assert held() == before
    assert anonymous_bytes() - bytes_before < TIMES * LEAK_BYTES


def test_every_class_of_the_extension_has_a_leak_test_and_says_which_thread_may_call_it() -> None:
    found = {
        name: value
        for module in (_actuator, _phases, _sampler)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
        if not issubclass(value, tuple)
    }
    assert {*found} == {*USES}
    assert all("thread" in (each.__doc__ or "").lower() for each in found.values())
