"""How many of so many killed runs left the board as it was, and how long that took.

Seeded kills of supervisor, warden, workload and virtual board (bench/_kills.py): one of them, two
or all, by five signals or for want of memory, after a random time or after the n-th write, on a
full disk, or with another writer's cap set meanwhile. Where nobody is left to restore, a new start
or `orin-gov restore` does. Then every file of the board is compared with what it was.
"""

import multiprocessing
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bench._figures import Figure, parser, publish
from bench._kill_board import BOARD
from bench._kill_processes import be_subreaper
from bench._kill_rig import Result, run_kill
from bench._kills import draw

KILLS = 1000
JOBS = 2
TELL_EVERY = 100


def play(seeds: Sequence[int], jobs: int) -> list[Result]:
    """Play the kill of every seed, `jobs` at a time."""
    fork = multiprocessing.get_context("fork")
    results = []
    with fork.Pool(jobs, be_subreaper) as pool:
        for result in pool.imap_unordered(run_kill, map(draw, seeds)):
            results.append(result)
            for fault in result.faults:
                print(f"{result.kill}: {fault}", file=sys.stderr)
            if len(results) % TELL_EVERY == 0:
                print(f"{len(results)} of {len(seeds)} kills", file=sys.stderr)
    return results


def figures(results: Sequence[Result]) -> list[Figure]:
    """Return what is published of them."""
    kept = sum(not result.faults for result in results)
    changed = [result for result in results if result.restored_s is not None]
    taken_ms = np.array([1e3 * (result.restored_s or 0.0) for result in changed])
    by = Counter(result.by for result in changed)
    p50, p99 = np.percentile(taken_ms, (50, 99)).tolist() if changed else (0.0, 0.0)
    return [
        Figure("restored_percent", 100 * kept / len(results), "%", len(results), None, ">= 100"),
        Figure("restore_ms_p50", p50, "ms", len(changed)),
        Figure("restore_ms_p99", p99, "ms", len(changed), None, "<= 500"),
        *(Figure(f"restored by {who}", count, "kills", len(changed)) for who, count in by.items()),
    ]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--kills", type=int, default=KILLS, help="how many (default 1000)")
    arguments.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    arguments.add_argument("--jobs", type=int, default=JOBS, help="runs at a time (default 2)")
    options = arguments.parse_args()
    seeds = range(options.first, options.first + options.kills)
    results = play(seeds, options.jobs)
    return publish("restore", f"virtual {BOARD}", figures(results), options.json)


if __name__ == "__main__":
    sys.exit(main())
