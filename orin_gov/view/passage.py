"""What of the script's output passes to the terminal while a view stands below it.

Text, colours, and moves within the lines being written (progress bars) pass. What would tear the
view is left out, and so is what binary output could do to a terminal: other escape sequences,
control characters, bytes that are no UTF-8.
"""

import codecs
import re

LONGEST = 4096
"""An escape sequence that has not ended after so many characters is none."""

SPECIAL = re.compile(r"[\x00-\x06\x0e-\x1f\x7f-\x9f]")

SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # other strings
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ`-~\\]"  # two or three characters
    r"|[\x00-\x06\x0e-\x1f\x7f-\x9f]"
)

PASSES = re.compile(
    r"\x1b\[[0-9;:]*[mABCDEFGKPX@]"  # colour; up, down, right, left, column; erase in the line
    r"|\x1b\[\?25[hl]"  # the cursor shown or hidden
    r"|\x1b\[0?J"  # erase below: the view is drawn again
    r"|\x1b\[[23]J|\x1b\[(?:1;1)?H"  # clear
    r"|\x1b\](?:[012]|8);[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\)"  # titles and links
)

BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
"""A sequence whose end is yet to come."""


FULL_SCREEN = re.compile(r"\x1b\[\?(?:47|1047|1049)([hl])")
"""To the terminal's other screen, and back."""


class Passage:
    """Turns the script's bytes into what the terminal is given. Not thread-safe.

    A program that takes the whole screen for itself has all pass until it gives it back.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.full_screen = False
        self.erased = False  # whether the last output may have erased the view

    def feed(self, content: bytes, last: bool = False) -> str:
        """Return what may pass of the bytes; a sequence that has only begun is held back."""
        text = self._held + self._decoder.decode(content, last)
        self._held, self.erased = "", False
        if not SPECIAL.search(text):
            return text
        if not last and (begun := BEGUN.search(text, max(0, len(text) - LONGEST))):
            text, self._held = text[: begun.start()], begun[0]
        return SEQUENCE.sub(self._pass, text)

    def _pass(self, found: re.Match[str]) -> str:
        sequence = found[0]
        if switch := FULL_SCREEN.fullmatch(sequence):
            self.full_screen = switch[1] == "h"
            return sequence
        if self.full_screen:
            return sequence
        if not PASSES.fullmatch(sequence):
            return ""
        self.erased = self.erased or sequence[-1] in "JH"
        return sequence
