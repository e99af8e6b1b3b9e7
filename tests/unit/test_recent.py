"""The samples of the last while: what is asked for is what was put in, however it was put in."""

import tracemalloc
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_gov._sampler import Samples
from orin_gov.recent import FIRST_ROWS, RecentSamples

RAILS = 3


def samples(t_ns: list[int]) -> Samples:
    """Return samples whose values tell their time and rail."""
    times = np.array(t_ns, dtype=np.int64)
    power = times[:, None] + 0.1 * np.arange(RAILS)
    return Samples(times, power, 2 * power, 3 * power)


def assert_tells(found: Samples, t_ns: list[int]) -> None:
    for column, expected in zip(found, samples(t_ns), strict=True):
        np.testing.assert_array_equal(column, expected)


CHUNKS = st.lists(st.lists(st.integers(1, 40), max_size=9), max_size=12)


@given(
    CHUNKS,
    st.integers(0, 300),
    st.none() | st.integers(0, 2000),
    st.integers(-10, 2000),
    st.integers(0, 400),
)
@settings(max_examples=200, deadline=None)
def test_it_tells_what_a_list_of_the_same_samples_would(
    chunks: list[list[int]], keep_ns: int, since_ns: int | None, begin_ns: int, length_ns: int
) -> None:
    recent, all_ns, newest_ns = RecentSamples(RAILS, keep_ns), [], 0
    for steps in chunks:
        chunk = (newest_ns + np.cumsum(steps)).tolist() if steps else []
        recent.append(samples(chunk), since_ns)
        all_ns += chunk
        newest_ns = all_ns[-1] if all_ns else 0
    oldest_ns = newest_ns - keep_ns
    if since_ns is not None:
        oldest_ns = min(oldest_ns, since_ns)
    kept = [t for t in all_ns if t >= oldest_ns]
    before = [t for t in kept if t <= begin_ns]
    assert len(recent) == len(kept)
    assert recent.newest_ns == (kept[-1] if kept else None)
    assert_tells(recent.since(begin_ns), before[-1:] + [t for t in kept if t > begin_ns])
    end_ns = begin_ns + length_ns
    assert_tells(recent.within(begin_ns, end_ns), [t for t in kept if begin_ns <= t <= end_ns])


def test_it_grows_to_what_is_kept_and_then_takes_no_more_memory() -> None:
    recent = RecentSamples(RAILS, keep_ns=5 * FIRST_ROWS)
    chunks = [list(range(begin, end)) for begin, end in pairwise(range(0, 30 * FIRST_ROWS, 100))]
    tracemalloc.start()
    try:
        sizes = np.zeros(len(chunks))
        for number, chunk in enumerate(chunks):
            recent.append(samples(chunk))
            sizes[number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(recent) == 5 * FIRST_ROWS + 1
    assert_tells(recent.since(0), list(range(chunks[-1][-1] - 5 * FIRST_ROWS, chunks[-1][-1] + 1)))
    assert np.ptp(sizes[len(sizes) // 3 :]) < 1000
