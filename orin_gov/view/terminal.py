"""The terminal that the view shares with the script: rows at its foot, kept by a scroll region.

The script writes above, to the terminal itself: lines scroll, progress bars redraw themselves, and
the echo of what is typed lands where it belongs.
"""

import fcntl
import os
import struct
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence

from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from rich.text import Text

SAVE, RESTORE = "\x1b7", "\x1b8"
INDEX = "\x1bD"
"""Down a row, scrolling at the foot, in the same column."""

LEAVE = f"{SAVE}\x1b[r{RESTORE}\x1b[J"
"""The whole terminal to the script again: no region, and nothing below the cursor."""

PLAIN = "\x1b[0m\x1b[?25h"
"""No colour left on, and the cursor shown."""

NO_TERMINALS = frozenset({"", "dumb", "unknown"})
LEAST_ROWS, LEAST_COLUMNS = 4, 10
ASCII = str.maketrans(
    {"─": "-", "┴": "+", "├": "[", "┤": "]", "●": "o", "▲": "^", "◆": "@", "▏": "|", "·": "."}
    | {"°": " ", "…": "~"}
)


def obstacle(environment: Mapping[str, str], wanted: bool) -> str | None:
    """Return why there is no live view here, or None; `wanted` overrules what is only a habit."""
    if not all(os.isatty(descriptor) for descriptor in (1, 2)):
        return "it takes a terminal on stdout and stderr"
    if os.fstat(1).st_rdev != os.fstat(2).st_rdev:
        return "stdout and stderr are two terminals"
    if environment.get("TERM", "") in NO_TERMINALS:
        return f"TERM is {environment.get('TERM')!r}, which has no rows to keep"
    width, height = size_of(1)
    if height < LEAST_ROWS or width < LEAST_COLUMNS:
        return f"the terminal has {width} columns and {height} rows"
    if not is_in_foreground(1):
        return "this is a job in the background"
    habits = [name for name in ("CI", "NO_COLOR") if environment.get(name)]
    return f"{habits[0]} is set" if habits and not wanted else None


def size_of(descriptor: int) -> tuple[int, int]:
    """Return columns and rows; 0 where the terminal does not tell or is gone."""
    try:
        width, height = os.get_terminal_size(descriptor)
    except OSError:
        return 0, 0
    return width, height


def set_size(descriptor: int, width: int, height: int) -> None:
    """Tell a pseudo-terminal its size."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def is_in_foreground(descriptor: int) -> bool:
    """Tell whether the terminal is ours to draw on; one that has no jobs is."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


class Foot:
    """The rows at the foot of a terminal. It returns what is to be written. Not thread-safe."""

    def __init__(self, wanted_rows: int) -> None:
        self._wanted = wanted_rows
        self.width = self.height = self.rows = 0
        self._painter = Console(force_terminal=True, file=sys.stdout)
        self._plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"

    def enter(self, width: int, height: int) -> str:
        """Keep rows in a terminal of that size, at most half of it; the script has the rest."""
        left = self.leave()
        self.width, self.height = width, height
        fits = height >= LEAST_ROWS and width >= LEAST_COLUMNS
        self.rows = min(self._wanted, height // 2) if fits else 0
        if not self.rows:
            return left
        room = INDEX * self.rows + f"\x1b[{self.rows}A"
        return f"{left}{room}{SAVE}\x1b[1;{height - self.rows}r{RESTORE}"

    def leave(self) -> str:
        """Give the rows back."""
        left = LEAVE if self.rows else ""
        self.width = self.height = self.rows = 0
        return left

    def draw(self, texts: Sequence[Text]) -> str:
        """Draw rows; what they do not fill is blank."""
        if not self.rows:
            return ""
        lines = self.paint(texts)
        lines += [""] * (self.rows - len(lines))
        first = self.height - self.rows + 1
        drawn = "".join(
            f"\x1b[{first + place};1H{line}\x1b[0m\x1b[K"
            for place, line in enumerate(lines[: self.rows])
        )
        # Synchronized output, where the terminal knows it: no half-drawn view is ever shown.
        return f"\x1b[?2026h{SAVE}\x1b[0m{drawn}{RESTORE}\x1b[?2026l"

    def paint(self, texts: Sequence[Text]) -> list[str]:
        """Return rows with their colours as escape sequences, as far as the terminal has them."""
        # Not by Console.print, which lays out what is laid out already: a third of the time.
        lines = ["".join(self._sequences(text)) for text in texts]
        return [line.translate(ASCII) for line in lines] if self._plain else lines

    def _sequences(self, text: Text) -> Iterator[str]:
        colours = COLOR_SYSTEMS.get(self._painter.color_system or "")
        base = self._painter.get_style(text.style)
        for piece, style, _ in Segment.apply_style(text.render(self._painter), base):
            if style is None or colours is None:
                yield piece
            else:
                style = style.without_color if self._painter.no_color else style
                yield style.render(piece, color_system=colours)
