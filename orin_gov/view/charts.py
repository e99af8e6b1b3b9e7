"""The figures of a report over time: power, clock, phases and steps, in the style that is set.

They return None where there is nothing to draw.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from orin_gov.record.run import Run
from orin_gov.view.figure import COLOURS
from orin_gov.view.series import (
    BINS,
    clock_curve,
    column,
    phase_shares,
    rail_curves,
    since_start,
    state_spans,
    thin,
)

OWN, GOVERNED = "#777777", "#0072B2"
GOVERNED_BAND = "#e3eef7"
PHASE_COLOURS = {
    "idle": "#dddddd",
    "data": "#E69F00",
    "forward": "#56B4E9",
    "backward": "#0072B2",
    "optimizer": "#009E73",
    "eval": "#CC79A7",
    "checkpoint": "#000000",
}
PAGE_IN = 9.6
UNITS = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From how many seconds on an axis counts in which unit."""


def timeline(run: Run) -> Figure | None:
    """Power by rail, the clock and the phases' shares over time, on one axis of time."""
    rails = rail_curves(run)
    clock = clock_curve(run)
    moments, shares = phase_shares(run)
    heights = [(3.0, bool(rails)), (1.3, clock is not None), (1.0, bool(shares))]
    if not any(shown for _, shown in heights):
        return None
    ratios = [height for height, shown in heights if shown]
    figure = Figure(figsize=(PAGE_IN, 0.6 + 0.95 * sum(ratios)), layout="constrained")
    panels = list(
        figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    )
    last_s = _end_s(run)
    scale, unit = next((scale, unit) for least, scale, unit in UNITS if last_s >= least)
    for axes in panels:
        _shade(axes, run, scale)
    if rails:
        _draw_rails(panels.pop(0), rails, scale)
    if clock is not None:
        _draw_clock(panels.pop(0), run, scale)
    if shares:
        _draw_phases(panels.pop(0), moments / scale, shares)
    figure.axes[-1].set_xlabel(f"time since the start ({unit})")
    figure.axes[-1].set_xlim(0, last_s / scale)
    return figure


def plain(text: str) -> str:
    """Return a name as matplotlib shows it as it is: a dollar begins a formula there."""
    return text.replace("$", r"\$")


def _end_s(run: Run) -> float:
    ends = [
        since_start(run, table, name)[-1]
        for table, name in ((run.samples, "t_ns"), (run.steps, "end_ns"))
        if table.num_rows
    ]
    return float(max(ends, default=1.0))


def _shade(axes: Axes, run: Run, scale: float) -> None:
    """Shade where a target was held; a day has too many stretches to shade each."""
    spans = [(begin, end) for begin, end, governed in state_spans(run) if governed]
    if len(spans) <= BINS:
        for begin, end in spans:
            axes.axvspan(begin / scale, end / scale, color=GOVERNED_BAND, linewidth=0, zorder=0)


def _draw_rails(axes: Axes, rails: Mapping[str, Any], scale: float) -> None:
    for index, (rail, curve) in enumerate(rails.items()):
        module = rail == "module"
        colour = "#222222" if module else COLOURS[index % len(COLOURS)]
        if module:
            axes.fill_between(curve.t / scale, curve.low, curve.high, color="#cccccc", linewidth=0)
        width = 1.3 if module else 0.9
        axes.plot(curve.t / scale, curve.mean, color=colour, linewidth=width, label=plain(rail))
    axes.set_ylabel("power (W)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)


def _draw_clock(axes: Axes, run: Run, scale: float) -> None:
    curve = clock_curve(run)
    assert curve is not None
    axes.plot(curve.t / scale, curve.mean / 1e6, color=OWN, linewidth=0.8, label="clock")
    target = column(run.steps, "target_hz") / 1e6
    if len(target) and not np.isnan(target).all():
        thinned = thin(since_start(run, run.steps, "end_ns"), target)
        axes.plot(
            thinned.t / scale,
            thinned.mean,
            color=GOVERNED,
            linewidth=1.4,
            drawstyle="steps-mid",
            label="target",
        )
    axes.set_ylabel("clock (MHz)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)


def _draw_phases(axes: Axes, t: Any, shares: Mapping[str, Any]) -> None:
    axes.stackplot(
        t,
        [np.nan_to_num(share) for share in shares.values()],
        colors=[PHASE_COLOURS[phase] for phase in shares],
        labels=list(shares),
        linewidth=0,
    )
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("phases")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=7, labelspacing=0.2)


def step_series(run: Run) -> Figure | None:
    """Energy and time of each step over the run, under a target and under the board's governor."""
    steps = run.steps
    if not steps.num_rows:
        return None
    number, target = column(steps, "step"), column(steps, "target_hz")
    figure = Figure(figsize=(PAGE_IN, 3.6), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    quantities = (("energy_j", "energy per step (J)"), ("duration_s", "time per step (s)"))
    for axes, (name, label) in zip(panels, quantities, strict=True):
        values = column(steps, name)
        for own, colour, told in (
            (True, OWN, "board's own governor"),
            (False, GOVERNED, "governed"),
        ):
            chosen = np.isnan(target) if own else ~np.isnan(target)
            if chosen.any() and not np.isnan(values[chosen]).all():
                _draw_points(axes, number[chosen], values[chosen], colour, told)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    if not panels[0].has_data():
        panels[0].text(
            0.5, 0.5, "energy was not measured", ha="center", transform=panels[0].transAxes
        )
    panels[1].set_xlabel("step")
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, markerscale=2.5)
    return figure


def _draw_points(axes: Axes, x: Any, y: Any, colour: str, label: str) -> None:
    curve = thin(x, y)
    if len(x) > BINS:
        axes.fill_between(curve.t, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(curve.t, curve.mean, ".", color=colour, markersize=3.5, label=label)
