"""The devfreq files' semantics, in virtual time over real files."""

import os
import random
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.virtual.devfreq import Devfreq, effective_range, parse_limit
from orin_gov.virtual.files import ValueFile
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import build_tree, devfreq_directory

BOARD = load_board("agx-orin-64gb")
TABLE = BOARD.frequencies_hz
TICK_NS = 2_000_000


class Rig:
    """A devfreq directory whose server ticks when the test says so."""

    def __init__(self, root: Path) -> None:
        build_tree(BOARD, root)
        self.directory = devfreq_directory(BOARD, root)
        self.devfreq = Devfreq(BOARD, self.directory, random.Random(1))
        self.now_ns = 0

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_ns += TICK_NS
            if self.devfreq.switch_ns is not None and self.now_ns >= self.devfreq.switch_ns:
                self.devfreq.switch()
            self.devfreq.poll(self.now_ns)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.directory / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.directory / name).read_text().strip()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"612000000\n", 612_000_000),
        (b" 612", 612),
        (b"6.12e8", 6),
        (b"0x10", 0),
        (b"fast", None),
        (b"", None),
        (b"-5", None),
    ],
)
def test_a_limit_is_the_number_its_text_starts_with(content: bytes, value: int | None) -> None:
    assert parse_limit(content) == value


@given(st.integers(0, 3 * 10**9), st.integers(0, 3 * 10**9))
def test_the_effective_range_is_ordered_and_within_the_table(min_hz: int, max_hz: int) -> None:
    lowest, highest = effective_range(TABLE, min_hz, max_hz)
    assert TABLE[0] <= lowest <= highest <= TABLE[-1]


@given(st.binary(max_size=30))
def test_no_bytes_break_the_parser(content: bytes) -> None:
    value = parse_limit(content)
    assert value is None or value >= 0


def test_a_pinned_clock_takes_effect_about_5_ms_later(rig: Rig) -> None:
    rig.write(max_freq="816000000", min_freq="816000000")
    rig.tick()
    assert rig.read("cur_freq") == "306000000"
    assert rig.devfreq.switch_ns is not None
    latency_ms = (rig.devfreq.switch_ns - rig.now_ns + TICK_NS / 2) / 1e6
    assert 3.5 < latency_ms < 6.5
    rig.tick(4)
    assert rig.devfreq.clock_hz == 816_000_000
    assert rig.read("cur_freq") == rig.read("target_freq") == "816000000"


def test_the_maximum_wins_and_the_minimum_reads_back_cut(rig: Rig) -> None:
    rig.write(min_freq="1020000000")
    rig.tick()
    rig.write(max_freq="612000000")
    rig.tick(5)
    assert rig.read("min_freq") == rig.read("max_freq") == "612000000"
    assert rig.devfreq.clock_hz == 612_000_000


def test_a_cut_minimum_comes_back_when_the_maximum_is_lifted(rig: Rig) -> None:
    rig.write(min_freq="1020000000", max_freq="612000000")
    rig.tick()
    rig.write(max_freq="1300500000")
    rig.tick(5)
    assert rig.read("min_freq") == "1020000000"
    assert rig.devfreq.clock_hz == 1_020_000_000


@pytest.mark.parametrize("text", ["fast\n", "-1", "\n\n?"])
def test_garbage_is_refused_and_the_effective_value_shown_again(rig: Rig, text: str) -> None:
    rig.write(max_freq=text)
    rig.tick(15)
    assert rig.read("max_freq") == "1300500000"


def test_a_value_beyond_the_table_is_shown_cut_to_its_end(rig: Rig) -> None:
    rig.write(max_freq="9223372036854775807", min_freq="0")
    rig.tick()
    assert rig.read("max_freq") == "1300500000"
    assert rig.read("min_freq") == "306000000"


def test_a_maximum_off_the_table_is_kept_and_the_clock_is_rounded_up(rig: Rig) -> None:
    rig.write(max_freq="950000000", min_freq="950000000")
    rig.tick(6)
    assert rig.read("max_freq") == "950000000"
    assert rig.devfreq.clock_hz == 1_020_000_000


def test_a_file_that_stays_empty_is_shown_again_but_not_within_20_ms(rig: Rig) -> None:
    rig.write(max_freq="")
    rig.tick(5)
    assert rig.read("max_freq") == ""
    rig.tick(10)
    assert rig.read("max_freq") == "1300500000"


def test_a_write_after_a_truncation_counts(rig: Rig) -> None:
    rig.write(max_freq="")
    rig.tick(3)
    rig.write(max_freq="408000000")
    rig.tick(20)
    assert rig.read("max_freq") == "408000000"


def test_the_limits_are_not_rewritten_while_they_hold_what_they_mean(rig: Rig) -> None:
    rig.write(max_freq="816000000\n")
    before = (rig.directory / "max_freq").stat().st_mtime_ns
    rig.tick(50)
    assert (rig.directory / "max_freq").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("governor", "clock_hz"), [("performance", TABLE[-1]), ("powersave", TABLE[0])]
)
def test_a_fixed_governor_holds_its_end_of_the_range(
    rig: Rig, governor: str, clock_hz: int
) -> None:
    rig.write(governor=governor)
    rig.tick(6)
    rig.devfreq.ask_podgov(500.0, rig.now_ns)
    rig.tick(6)
    assert rig.devfreq.clock_hz == clock_hz


def test_an_unknown_governor_is_refused(rig: Rig) -> None:
    rig.write(governor="warp")
    rig.tick()
    assert rig.read("governor") == "nvhost_podgov"


def test_podgov_raises_the_clock_under_load_but_not_past_a_cap(rig: Rig) -> None:
    rig.write(max_freq="816000000")
    for _ in range(20):
        rig.tick(12)
        rig.devfreq.ask_podgov(1000.0, rig.now_ns)
    assert rig.devfreq.clock_hz == 816_000_000


def test_userspace_ignores_the_load(rig: Rig) -> None:
    rig.write(governor="userspace")
    for _ in range(10):
        rig.tick(12)
        rig.devfreq.ask_podgov(1000.0, rig.now_ns)
    assert rig.devfreq.clock_hz == TABLE[0]


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
def test_a_shown_value_is_the_whole_content_whatever_was_there(values: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "value"
        path.write_text("0\n")
        file = ValueFile(path)
        for value in values:
            file.show(value)
            content = path.read_text()
            assert content.split() == [str(value)]
            assert content.endswith("\n")


def test_a_reader_in_between_sees_the_old_value_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_text("0\n")
    file = ValueFile(path)
    values = [8, 1000000, 30, 5000]
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        with path.open("rb", buffering=0) as reader:
            while not done.is_set():
                seen.add(os.pread(reader.fileno(), 64, 0))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(5000):
        for value in values:
            file.show(value)
    done.set()
    thread.join()
    assert {content.strip() for content in seen} <= {b"0", *(b"%d" % value for value in values)}
