"""The bars of the view: the ladder of GPU clocks, and the phases of a step."""

from collections.abc import Mapping
from itertools import groupby

from rich.text import Text

from orin_gov.phases import PHASES
from orin_gov.view.state import Snapshot

PHASE_STYLE = {
    "idle": "black on white",
    "data": "black on cyan",
    "forward": "black on green",
    "backward": "black on yellow",
    "optimizer": "black on magenta",
    "eval": "black on blue",
    "checkpoint": "black on red",
}

LEAST_LADDER = 8
"""Columns below which a ladder tells nothing."""


def ladder(snapshot: Snapshot, width: int) -> Text:
    """Return the board's clocks as a line: what may be chosen between floor and cap, what is.

    `●` is the current clock, `▲` the target, `◆` both; `├` the floor and `┤` the cap.
    """
    table = snapshot.table_hz
    if len(table) < 2 or width < LEAST_LADDER:
        return Text()
    low, high = table[0], table[-1]

    def column(hz: float) -> int:
        return round((min(max(hz, low), high) - low) / (high - low) * (width - 1))

    floor = column(snapshot.floor_hz if snapshot.floor_hz is not None else low)
    cap = column(snapshot.cap_hz if snapshot.cap_hz is not None else high)
    cells = [("─" if floor <= place <= cap else "·", "dim") for place in range(width)]
    for hz in table:
        if floor < column(hz) < cap:
            cells[column(hz)] = ("┴", "dim")
    cells[floor], cells[cap] = ("├", ""), ("┤", "")
    target, now = snapshot.target_hz, snapshot.clock_hz
    if target is not None:
        cells[column(target)] = ("▲", "bold yellow")
    if now is not None:
        both = target is not None and column(target) == column(now)
        cells[column(now)] = ("◆" if both else "●", "bold green")
    runs = groupby(cells, key=lambda cell: cell[1])
    return Text.assemble(*(("".join(cell[0] for cell in run), style) for style, run in runs))


def phase_bar(shares: Mapping[str, float], width: int) -> Text:
    """Return the phases of a step in their order, each as wide as its share of the time."""
    bar = Text()
    end, edge = 0.0, 0
    for phase in PHASES[1:] + PHASES[:1]:
        end += shares.get(phase, 0.0)
        reach = round(end * width)
        if reach > edge:
            label = f"▏{phase} {shares[phase]:.0%}"
            bar.append(f"{label[: reach - edge]:<{reach - edge}}", PHASE_STYLE[phase])
        edge = max(edge, reach)
    return bar
