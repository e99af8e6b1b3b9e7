"""What was freed below something that is still in use goes back to the kernel."""

import subprocess
import sys

HOLES = """
import ctypes, threading
from pathlib import Path
import pyarrow as pa
from orin_gov.memory import settle_allocators, trim_heap

def own_kb():
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1])

def leave_holes():
    # Kept pieces between large freed ones, in the heap of a thread of its own.
    pieces = [bytearray(b"x") * 60_000 for _ in range(1000)]
    kept.extend(pieces[::20])
    del pieces

settle_allocators()
assert pa.default_memory_pool().backend_name == "system"
kept = []
thread = threading.Thread(target=leave_holes)
thread.start()
thread.join()
before = own_kb()
trim_heap()
print(before - own_kb())
"""


def test_holes_in_the_heap_are_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 20_000
