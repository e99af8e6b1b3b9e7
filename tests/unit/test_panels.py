"""The rows of the view: what is shown of a run at every size."""

import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from snapshots import MHZ, MOMENT, NOTHING

from orin_gov.phases import PHASES
from orin_gov.view.bars import ladder, phase_bar
from orin_gov.view.panels import clock_time, joules, rows
from orin_gov.view.state import Snapshot
from orin_gov.view.terminal import LEAST_COLUMNS

VIEWS = Path(__file__).parents[1] / "data/view"
SIZES = [(120, 30), (80, 24), (40, 12)]


def drawn(snapshot: Snapshot, width: int, height: int) -> str:
    """Return the view as it stands at the foot of a terminal of that size."""
    console = Console(record=True, width=width, file=StringIO(), legacy_windows=False)
    for text in rows(snapshot, width - 1, height // 2):
        console.print(text, no_wrap=True, crop=True)
    return console.export_text()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_view_looks_as_kept(width: int, height: int) -> None:
    kept = (VIEWS / f"{width}x{height}.txt").read_text(encoding="utf-8")
    assert drawn(MOMENT, width, height) == kept


def plain(snapshot: Snapshot, width: int = 150, height: int = 40) -> str:
    return "\n".join(text.plain for text in rows(snapshot, width, height))


def test_everything_is_shown_where_there_is_room() -> None:
    seen = plain(MOMENT)
    for part in (
        "verifying ─ finetune_sst2.py on virtual board",
        "0:01:23  step 1,045  1.87 steps/s  ETA 0:02:10",
        "now 1224 MHz, target 1122 MHz",
        "floor 306 MHz, cap 1224 MHz, load 66%, board's governor nvhost_podgov",
        "now 34.5 W, mean 33.1 W, 2,745 J (simulated)",
        "VDD_GPU_SOC      now  18.2 W  mean  17.9 W    1,480 J",
        "VDDQ_VDD2_1V8AO  now     - W  mean   6.3 W      425 J",
        "forward 31%",
        "cpu 45 °C  gpu 48 °C  tj 51 °C",
        "alarms    none",
        "refine 1122 MHz: 3.8% gained; is its neighbour better?",
        "clock_share 0.952 > 0.88 and load 0.658 <= 0.71",
        "1224 MHz: measured -1.2% energy, +7.8% time; expected -3.8% energy, +2.4% time",
        "energy -5.3% (-6.0% to -4.1%), time +4.3% (+2.0% to +6.1%); budget +10% (simulated)",
        "4 governed, 2 baseline windows",
        "4 rails at 200 Hz, 0 errors, 1 gaps, 47% repeats, 3 late",
    ):
        assert part in seen


def test_what_is_missing_is_said_and_no_number_is_made_up() -> None:
    seen = plain(NOTHING)
    for part in (
        "now - MHz",
        "floor - MHz, cap - MHz",
        "which rails make up the module is not known",
        "none found",
        "no steps seen yet",
        "no temperature known",
        "no window measured yet",
        "none known yet: 0 governed, 0 baseline windows",
        "0 rails at no sweep yet, 0 errors, 0 gaps, no reading",
    ):
        assert part in seen
    for absent in ("ETA", "steps/s", "because", "(simulated)", " 0.0 W", " 0 J"):
        assert absent not in seen


PLANNED = replace(MOMENT, steps_planned=2000, deadline_s=3600.0, energy_budget_j=36_000.0)


def test_a_plan_is_told_with_what_is_left_and_what_the_rest_takes() -> None:
    assert (
        "plan      955 of 2,000 steps to go; about 8 min 30 s of the 58 min 37 s left; "
        "about 4.69 Wh of the 9.24 Wh left (simulated)"
    ) in plain(PLANNED)
    assert "plan  " not in plain(MOMENT)
    slow = replace(PLANNED, steps_per_s=None, energy_budget_j=None)
    assert "955 of 2,000 steps to go; 58 min 37 s left\n" in plain(slow)
    assert "energy is not measured" in plain(replace(PLANNED, total=NOTHING.total))
    assert "0 of 2,000 steps to go; 58 min 37 s left; 9.24 Wh" in plain(
        replace(PLANNED, steps=2001)
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"deadline_s": 120.0}, "about 8 min 30 s, but 37 s left"),
        ({"deadline_s": 60.0}, "the deadline was 23 s ago"),
        ({"energy_budget_j": 3600.0}, "about 4.69 Wh, but 0.237 Wh left"),
        ({"energy_budget_j": 1000.0}, "about 4.69 Wh, but 0 Wh left"),
    ],
)
def test_a_plan_that_would_be_missed_stands_out(changes: dict[str, float], told: str) -> None:
    (row,) = (text for text in rows(replace(PLANNED, **changes), 150, 40) if told in text.plain)
    (alarm,) = (span for span in row.spans if span.style == "bold red")
    assert told in row.plain[alarm.start : alarm.end]


def test_a_plan_takes_a_row_of_its_own_and_none_where_there_is_none() -> None:
    without, planned = (rows(each, 100, 17) for each in (MOMENT, PLANNED))
    assert len(without) == 17  # each rail in its own
    assert any("VDD_CPU_CV 6.1 W" in text.plain for text in planned), "they share one"
    assert len(rows(PLANNED, 100, 18)) == 18


def test_slow_steps_are_told_by_their_length() -> None:
    assert "4 s/step" in plain(replace(MOMENT, steps_per_s=0.25))


def test_an_energy_that_is_not_known_is_told_beside_the_time() -> None:
    assert "energy not known, time +4.3%" in plain(replace(MOMENT, energy_change=None))


def test_an_alarm_comes_before_all_but_the_title() -> None:
    alarmed = replace(MOMENT, alarms=("oc3: 2 over-current events", "[red]as it is"))
    first, second = rows(alarmed, 79, 2)
    assert first.plain.startswith("─ verifying")
    assert "oc3: 2 over-current events; [red]as it is" in second.plain
    assert all("alarms" not in text.plain for text in rows(MOMENT, 79, 6))


@pytest.mark.parametrize("width", [20, 30, 45, 59])
def test_a_virtual_board_is_told_at_any_width(width: int) -> None:
    title = rows(MOMENT, width, 1)[0].plain
    assert title.startswith("─ verifying, virtu")
    assert "virtual" not in rows(replace(MOMENT, virtual=False), width, 1)[0].plain


names = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=40)
numbers = st.one_of(st.none(), st.floats(0, 1e12))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 250),
    st.integers(0, 60),
    st.sampled_from([MOMENT, NOTHING]),
    names,
    numbers,
    st.integers(0, 10**10),
)
def test_whatever_fits_is_shown_at_any_size(
    width: int, height: int, moment: Snapshot, name: str, pace: float | None, hz: int
) -> None:
    odd = replace(moment, name=name, decision=name, steps_per_s=pace, clock_hz=hz, cap_hz=hz)
    texts = rows(odd, width, height)
    assert len(texts) <= height
    assert all(text.cell_len <= width for text in texts)
    if width >= LEAST_COLUMNS and height:
        assert texts[0].plain


def test_the_ladder_shows_floor_cap_clock_and_target() -> None:
    within = replace(MOMENT, floor_hz=510 * MHZ, cap_hz=1122 * MHZ, target_hz=612 * MHZ)
    assert ladder(replace(within, clock_hz=918 * MHZ), 40).plain == (
        "········├───▲───┴───┴───●───┴───┤·······"
    )
    assert ladder(replace(within, clock_hz=612 * MHZ), 40).plain[12] == "◆"
    # A clock that is off, or beyond the table, stands at its end.
    assert ladder(replace(within, clock_hz=0), 40).plain[0] == "●"
    assert ladder(replace(within, clock_hz=sys.maxsize), 40).plain[-1] == "●"
    assert ladder(within, 5).plain == ""
    assert ladder(NOTHING, 40).plain == ""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.001, 10), min_size=1, max_size=7).map(lambda parts: (parts, sum(parts))),
    st.integers(1, 200),
)
def test_the_phase_bar_is_as_wide_as_asked_for(
    parts: tuple[list[float], float], width: int
) -> None:
    shares = {phase: part / parts[1] for phase, part in zip(PHASES, parts[0], strict=False)}
    assert phase_bar(shares, width).cell_len == width
    assert phase_bar({}, width).cell_len == 0


def test_small_words() -> None:
    assert clock_time(3 * 86400 + 62.9) == "3 days, 0:01:02"
    assert joules(99_999.0) == "99,999 J"
    assert joules(1.5e6) == "1,500 kJ"


if __name__ == "__main__":  # writes the kept views anew: read them before they are committed
    for width, height in SIZES:
        (VIEWS / f"{width}x{height}.txt").write_text(drawn(MOMENT, width, height), encoding="utf-8")
