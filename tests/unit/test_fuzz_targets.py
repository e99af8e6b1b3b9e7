"""What `make fuzz` does for minutes, for a moment: every reader of foreign bytes, with any."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
import targets

NAMES = list(targets.TARGETS)


@pytest.fixture(scope="module", autouse=True)
def _cleared() -> Iterator[None]:
    yield
    targets.clear()


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_of_a_target_pass(name: str) -> None:
    for seed in targets.seeds(name):
        targets.TARGETS[name](seed)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_with_a_few_bytes_changed_is_read_or_refused(name: str) -> None:
    seeds, target = targets.seeds(name), targets.TARGETS[name]

    @settings(max_examples=12, deadline=None)
    @given(
        seed=st.sampled_from(seeds),
        at=st.floats(0, 1, exclude_max=True),
        cut=st.integers(0, 8),
        put=st.binary(max_size=8) | st.sampled_from([b"1e999", b"NaN", b"9" * 20, b"null", b"[["]),
    )
    def check(seed: bytes, at: float, cut: int, put: bytes) -> None:
        place = int(at * len(seed))
        target(seed[:place] + put + seed[place + cut :])

    check()


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    target = targets.TARGETS[name]

    @settings(max_examples=12, deadline=None)
    @given(st.binary(max_size=200))
    def check(data: bytes) -> None:
        target(data)

    check()
