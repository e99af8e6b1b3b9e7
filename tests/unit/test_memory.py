"""What was freed below something that is still in use goes back to the kernel."""

import subprocess
import sys

HOLES = """
import sys, threading
from pathlib import Path
import pyarrow as pa
from orin_gov.memory import settle_allocators, trim_heap

def own_kb():
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1])

def leave_holes():
    # Kept pieces between freed ones, in the heap of a thread of its own.
    pieces = [(bytearray(b"x") * int(sys.argv[1]), bytearray(b"x") * 600) for _ in range(1000)]
    held.append(own_kb())
    kept.extend(small for large, small in pieces)
    del pieces

settle_allocators()
assert pa.default_memory_pool().backend_name == "system"
kept, held = [], []
thread = threading.Thread(target=leave_holes)
thread.start()
thread.join()
freed = own_kb()
trim_heap()
print(held[0] - freed, freed - own_kb())
"""


def given_back_kb(piece_bytes: int) -> tuple[int, int]:
    """Return what went back to the kernel when a thread freed pieces, and what at a trim."""
    words = [sys.executable, "-c", HOLES, str(piece_bytes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    at_once, at_trim = map(int, done.stdout.split())
    return at_once, at_trim


def test_holes_in_the_heap_are_given_back_at_a_trim() -> None:
    at_once, at_trim = given_back_kb(60_000)
    assert at_once < 10_000
    assert at_trim > 40_000


def test_large_arrays_are_given_back_at_once() -> None:
    at_once, _ = given_back_kb(100_000)
    assert at_once > 90_000
