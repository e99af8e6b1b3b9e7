"""The rows of the view: everything a snapshot holds, as much of it as fits."""

from collections.abc import Callable
from datetime import timedelta

from rich.text import Text

from orin_gov.view.bars import ladder, phase_bar
from orin_gov.view.lines import megahertz
from orin_gov.view.plan import standing
from orin_gov.view.state import RailState, Snapshot

LABEL_WIDTH = 9
UNLABELLED = 34
"""Columns below which the labels are left out: the figures need the room."""

SHORT = 60
"""Columns below which a row says less than it could."""

URGENT = 1
"""The rank of an alarm that is one."""

MODE_STYLE = {"governing": "bold green", "verifying": "bold yellow", "fallback": "bold red"}

Row = Callable[[Snapshot, int], Text]


def rows(snapshot: Snapshot, width: int, height: int) -> list[Text]:
    """Return at most `height` rows of at most `width` columns, the most wanted ones, in order."""
    if width < 1:
        return []
    others = len(ROWS) - (1 if snapshot.steps_planned is not None else 2)
    roomy = snapshot.rails and height >= others + len(snapshot.rails)
    made: list[tuple[int, Text]] = []
    for rank, row in ROWS:
        if row is _rails_in_short and roomy:
            made += [(rank, text) for text in _rails(snapshot, width)]
        else:
            urgent = row is _alarms and snapshot.alarms
            made.append((URGENT if urgent else rank, row(snapshot, width)))
    wanted = sorted((rank, place) for place, (rank, text) in enumerate(made) if text.plain)
    chosen = {place for _, place in wanted[: max(0, height)]}
    texts = [text for place, (_, text) in enumerate(made) if place in chosen]
    for text in texts:
        text.truncate(width, overflow="ellipsis")
    return texts


def _labelled(label: str, *parts: str | Text | tuple[str, str], width: int) -> Text:
    head = [] if width < UNLABELLED else [(f"{label:<{LABEL_WIDTH}} ", "cyan")]
    return Text.assemble(*head, *parts)


def _room(width: int) -> int:
    return width if width < UNLABELLED else width - LABEL_WIDTH - 1


def _title(snapshot: Snapshot, width: int) -> Text:
    mode = (snapshot.mode, MODE_STYLE.get(snapshot.mode, "bold"))
    where = f" on {snapshot.board} "
    if width < SHORT:
        # What is simulated must say so at any width.
        where, mode = " ", (f"{mode[0]}, virtual board" if snapshot.virtual else mode[0], mode[1])
    title = Text.assemble(("─ ", "dim"), mode, (" ─ ", "dim"), (snapshot.name, "bold"), where)
    return title.append("─" * max(0, width - title.cell_len), "dim")


def _script(snapshot: Snapshot, width: int) -> Text:
    words = [clock_time(snapshot.elapsed_s), f"step {snapshot.steps:,}"]
    if (pace := snapshot.steps_per_s) is not None:
        words.append(pace_words(pace))
    if snapshot.remaining_s is not None:
        words.append(f"ETA {clock_time(snapshot.remaining_s)} by its own bar")
    return _labelled("script", "  ".join(words), width=width)


def _plan(snapshot: Snapshot, width: int) -> Text:
    parts = [(words, "bold red" if misses else "") for words, misses in standing(snapshot)]
    if not parts:
        return Text()
    return _labelled("plan", Text("; ").join(Text(*part) for part in parts), width=width)


def _clock(snapshot: Snapshot, width: int) -> Text:
    if width < UNLABELLED:
        to = "own governor" if snapshot.target_hz is None else megahertz(snapshot.target_hz)
        return Text(f"{megahertz(snapshot.clock_hz)}, target {to}")
    words = f"now {megahertz(snapshot.clock_hz)}"
    if snapshot.target_hz is not None:
        words += f", target {megahertz(snapshot.target_hz)}"
    bar = ladder(snapshot, min(64, _room(width) - len(words) - 2))
    return _labelled("clock", bar, "  " if bar.plain else "", words, width=width)


def _limits(snapshot: Snapshot, width: int) -> Text:
    words = [f"floor {megahertz(snapshot.floor_hz)}", f"cap {megahertz(snapshot.cap_hz)}"]
    if snapshot.load is not None:
        words.append(f"load {snapshot.load:.0%}")
    if snapshot.governor:
        words.append(f"board's governor {snapshot.governor}")
    return _labelled("limits", ", ".join(words), width=width)


def _power(snapshot: Snapshot, width: int) -> Text:
    total, virtual = snapshot.total, " (simulated)" if snapshot.virtual else ""
    if total.energy_j is None:
        return _labelled("power", "which rails make up the module is not known", width=width)
    now = "" if width < SHORT else "now "
    words = (
        f"{now}{watts(total.power_w)}, mean {watts(total.mean_w)}, "
        f"{joules(total.energy_j)}{virtual}"
    )
    return _labelled("power", words, width=width)


def _rails_in_short(snapshot: Snapshot, width: int) -> Text:
    words = "  ".join(f"{label} {watts(rail.power_w)}" for label, rail in snapshot.rails.items())
    return _labelled("rails", words or "none found", width=width)


def _rails(snapshot: Snapshot, width: int) -> list[Text]:
    """Each rail in a row of its own, where there is room for that."""
    longest = max(map(len, snapshot.rails), default=0)
    return [
        _labelled("" if place else "rails", f"{label:<{longest}}  {rail_words(rail)}", width=width)
        for place, (label, rail) in enumerate(snapshot.rails.items())
    ]


def _step(snapshot: Snapshot, width: int) -> Text:
    bar = phase_bar(snapshot.phase_share, min(100, _room(width)))
    return _labelled("step", bar if bar.plain else "no steps seen yet", width=width)


def _heat(snapshot: Snapshot, width: int) -> Text:
    known = {zone: c for zone, c in snapshot.temperature_c.items() if c is not None}
    words = "  ".join(f"{zone} {celsius:.0f} °C" for zone, celsius in known.items())
    return _labelled("heat", words or "no temperature known", width=width)


def _alarms(snapshot: Snapshot, width: int) -> Text:
    style = ("; ".join(snapshot.alarms), "bold red") if snapshot.alarms else "none"
    return _labelled("alarms", style, width=width)


def _decision(snapshot: Snapshot, width: int) -> Text:
    return _labelled("decision", snapshot.decision, width=width)


def _path(snapshot: Snapshot, width: int) -> Text:
    if not snapshot.path:
        return Text()
    return _labelled("because", " and ".join(snapshot.path), width=width)


def _effect(snapshot: Snapshot, width: int) -> Text:
    effect = snapshot.effect
    if effect is None:
        return _labelled("effect", "no window measured yet", width=width)
    at = "own governor" if effect.target_hz is None else megahertz(effect.target_hz)
    words = f"{at}: measured {change_words(effect.saving, effect.slowdown)}"
    if effect.expected_saving is not None or effect.expected_slowdown is not None:
        words += f"; expected {change_words(effect.expected_saving, effect.expected_slowdown)}"
    return _labelled("effect", words, width=width)


def _saving(snapshot: Snapshot, width: int) -> Text:
    energy, time = snapshot.energy_change, snapshot.time_change
    counts = f"{snapshot.windows_governed} governed, {snapshot.windows_baseline} baseline windows"
    if energy is None and time is None:
        return _labelled("saving", f"none known yet: {counts}", width=width)
    words = ", ".join(
        f"{name} {found['value']:+.1%} ({found['low']:+.1%} to {found['high']:+.1%})"
        if found is not None
        else f"{name} not known"
        for name, found in (("energy", energy), ("time", time))
    )
    virtual = " (simulated)" if snapshot.virtual else ""
    budget = f"; budget {snapshot.max_slowdown:+.0%}"
    return _labelled("saving", f"{words}{budget}{virtual}; {counts}", width=width)


def _sensors(snapshot: Snapshot, width: int) -> Text:
    sensors = snapshot.sensors
    rate = "no sweep yet" if sensors.rate_hz is None else f"{sensors.rate_hz:.0f} Hz"
    repeats = f"{sensors.repeats / sensors.reads:.0%} repeats" if sensors.reads else "no reading"
    words = (
        f"{len(snapshot.rails)} rails at {rate}, {sensors.errors} errors, {sensors.gaps} gaps, "
        f"{repeats}, {sensors.overruns} late"
    )
    if sensors.dropped_marks:
        words += f", {sensors.dropped_marks} phase marks lost"
    return _labelled("sensors", words, width=width)


ROWS: tuple[tuple[int, Row], ...] = (
    (1, _title),
    (3, _script),
    (3, _plan),
    (2, _clock),
    (9, _limits),
    (4, _power),
    (10, _rails_in_short),
    (8, _step),
    (11, _heat),
    (12, _alarms),
    (5, _decision),
    (13, _path),
    (7, _effect),
    (6, _saving),
    (14, _sensors),
)
"""Each row with its rank: the smaller the view, the fewer ranks it has."""


def clock_time(seconds: float) -> str:
    """Return h:mm:ss, with days where there are any."""
    return str(timedelta(seconds=int(seconds)))


def pace_words(steps_per_s: float) -> str:
    """Return a pace for people: slow steps by their length."""
    if steps_per_s >= 1:
        return f"{steps_per_s:.3g} steps/s"
    return f"{1 / steps_per_s:.3g} s/step" if steps_per_s > 0 else "no step"


def watts(value: float | None) -> str:
    """Return watts for people; a dash where it is missing."""
    return "- W" if value is None else f"{value:.1f} W"


def joules(value: float | None) -> str:
    """Return joules for people; a dash where it is missing."""
    if value is None:
        return "- J"
    return f"{value:,.0f} J" if value < 1e5 else f"{value / 1e3:,.0f} kJ"


def rail_words(rail: RailState) -> str:
    """Return a rail's watts now, their mean and its joules, in columns."""
    return f"now {watts(rail.power_w):>7}  mean {watts(rail.mean_w):>7}  {joules(rail.energy_j):>9}"


def change_words(saving: float | None, slowdown: float | None) -> str:
    """Return what became of energy and time, as changes."""
    energy = "energy not known" if saving is None else f"{-saving:+.1%} energy"
    time = "time not known" if slowdown is None else f"{slowdown:+.1%} time"
    return f"{energy}, {time}"
