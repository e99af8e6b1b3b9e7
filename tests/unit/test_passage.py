"""What of a script's output passes to a terminal that a view stands on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.view.passage import LONGEST, Passage

HARMFUL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
ESCAPES = re.compile(r"\x1b(\[[0-9;:?]*[mABCDEFGKPX@JHhl]|\](?:[012]|8);)")


def passed(*chunks: bytes) -> str:
    passage = Passage()
    return "".join(map(passage.feed, chunks)) + passage.feed(b"", last=True)


@pytest.mark.parametrize(
    "text",
    [
        "plain, with ümlauts and 漢字\r\n\ttab\a\b",
        "\r 50%|█████     | 5/10 [00:05<00:05,  1.00it/s]",
        "\x1b[A\x1b[2K\x1b[1;31mred\x1b[0m\x1b[38;5;208morange\x1b[m\x1b[10G\x1b[K",
        "\x1b[?25lhidden\x1b[?25h",
        "\x1b[H\x1b[2J\x1b[3J",
        "\x1b]0;a title\x07\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
    ],
)
def test_text_colours_and_progress_bars_pass_unchanged(text: str) -> None:
    assert passed(text.encode()) == text
    # however they come in
    assert passed(*(bytes([byte]) for byte in text.encode())) == text


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[5;10r",  # another scroll region
        "\x1b[12;40H",  # the cursor anywhere
        "\x1b7\x1b8\x1b[s\x1b[u",  # the place that the view saves the cursor in
        "\x1bc",  # reset
        "\x1b[6n\x1b[c\x05",  # questions, answered on stdin
        "\x1b(0\x0e\x0f",  # line drawing in place of letters
        "\x1bP+q544e\x1b\\\x1b_x\x1b\\",  # strings for the terminal alone
        "\x1b]52;c;aGk=\x07",  # the clipboard
        "\x00\x7f\x1bM\x1bD",
        "\x84\x9b",  # the same as single characters
    ],
)
def test_what_would_tear_the_view_is_left_out(sequence: str) -> None:
    assert passed(f"a{sequence}b".encode()) == "ab"


def test_bytes_that_are_no_text_become_a_sign() -> None:
    assert passed(b"a\xff\xfeb\xe2\x82") == "a��b�"


def test_a_sequence_that_never_ends_holds_nothing_up_for_good() -> None:
    content = b"\x1b]0;" + b"x" * 2 * LONGEST
    assert "x" * LONGEST in passed(content)


def test_what_is_held_back_is_as_little_as_can_be() -> None:
    passage = Passage()
    assert passage.feed(b"loss 0.5\x1b[3") == "loss 0.5"
    assert passage.feed(b"1mred") == "\x1b[31mred"


@pytest.mark.parametrize(("text", "erased"), [("\x1b[J", True), ("\x1b[K\n", False), ("a", False)])
def test_it_tells_whether_the_view_may_be_erased(text: str, erased: bool) -> None:
    passage = Passage()
    passage.feed(text.encode())
    assert passage.erased is erased


def test_a_program_that_takes_the_whole_screen_has_it() -> None:
    passage = Passage()
    own = "\x1b[?1049h\x1b[12;40H\x1b[5;10r\x0ebox\x0f"
    assert passage.feed(own.encode()) == own
    assert passage.full_screen
    assert passage.feed(b"\x1b[?1049l\x1b[12;40Hafter") == "\x1b[?1049lafter"
    assert not passage.full_screen


pieces = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [b"\x1b", b"\x1b[", b"\x1b]0;", b"\x07", b"m", b"\x1b[1;2H", b"\xc2\x9b", b"\x1bP"]
    ),
)


@given(st.lists(pieces, max_size=20))
def test_binary_output_is_harmless(chunks: list[bytes]) -> None:
    text = passed(*chunks)
    assert not HARMFUL.search(text)
    assert text.count("\x1b") == len(ESCAPES.findall(text)) + text.count("\x1b\\")


@given(st.lists(pieces, max_size=12))
def test_how_the_output_is_cut_does_not_matter(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    if len(whole) < LONGEST:
        assert passed(*chunks) == passed(whole)
