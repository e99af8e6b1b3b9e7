"""The figures of a report that compare: clocks with each other, and runs with their baselines.

They return None where there is nothing to draw.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from orin_gov.record.run import Run
from orin_gov.view.charts import GOVERNED, OWN, PAGE_IN, plain
from orin_gov.view.series import AtClock, by_target


def against_clock(run: Run) -> Figure | None:
    """Energy and time per unit of work at each clock that was held, relative to the board's own."""
    points = [each for each in by_target(run) if np.isfinite(each.clock_hz)]
    own = next((each for each in points if each.target_hz is None), None)
    if len(points) < 2:
        return None
    base = own or points[-1]
    figure = Figure(figsize=(PAGE_IN, 2.9), layout="constrained")
    for axes, title, energy in zip(
        figure.subplots(1, 2),
        ("Energy per unit of work", "Time per unit of work"),
        (1, 0),
        strict=True,
    ):
        axes.set_title(title, loc="left", fontsize=9.5)
        axes.set_xlabel("GPU clock (MHz)")
        _draw_at_clocks(axes, points, base, bool(energy))
    told = "the board's own governor" if own else f"{base.clock_hz / 1e6:.0f} MHz"
    figure.axes[0].set_ylabel(f"relative to {told}", fontsize=8)
    return figure


def _draw_at_clocks(axes: Axes, points: Sequence[AtClock], base: AtClock, energy: bool) -> None:
    whole = (base.energy_j if energy else base.time_s) or 0.0
    shown = [each for each in points if (each.energy_j if energy else each.time_s)]
    if not whole or not shown:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
        return
    for each in shown:
        value, error = (
            (each.energy_j, each.energy_error) if energy else (each.time_s, each.time_error)
        )
        axes.errorbar(
            each.clock_hz / 1e6,
            (value or 0.0) / whole,
            1.96 * (error or 0.0) / whole,
            marker="o",
            markersize=5.5,
            markerfacecolor="white" if each.target_hz is None else GOVERNED,
            color=OWN if each.target_hz is None else GOVERNED,
            capsize=2,
        )
    axes.axhline(1.0, color=OWN, linewidth=0.8, linestyle=":")


def clock_shares(clock_s: Mapping[str, float], table_hz: Sequence[int]) -> Figure | None:
    """Time at each clock, as shares; clocks of the board's table are shown where none was spent."""
    total = sum(clock_s.values())
    if not total:
        return None
    spent = {int(hz): seconds / total for hz, seconds in clock_s.items()}
    clocks = sorted(set(table_hz) | {hz for hz, share in spent.items() if share >= 0.001})
    figure = Figure(figsize=(PAGE_IN, 2.2), layout="constrained")
    axes = figure.subplots()
    heights = [spent.get(hz, 0.0) for hz in clocks]
    bars = axes.bar([f"{hz / 1e6:.0f}" for hz in clocks], heights, color=GOVERNED, width=0.7)
    axes.bar_label(
        bars, [f"{share:.0%}" if share >= 0.005 else "" for share in heights], fontsize=8
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("GPU clock (MHz)")
    axes.set_ylabel("share of the time")
    axes.tick_params(axis="x", labelrotation=45 if len(clocks) > 14 else 0)
    axes.grid(visible=False, axis="x")
    return figure


def changes(names: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Energy and time of several runs against each one's own baseline, with their intervals."""
    if not any(each.get("energy_change") or each.get("time_change") for each in summaries):
        return None
    figure = Figure(figsize=(PAGE_IN, 1.1 + 0.34 * len(names)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, title in zip(
        panels, ("energy_change", "time_change"), ("energy", "time"), strict=True
    ):
        axes.set_title(
            f"Change of {title} against the run's own baseline", loc="left", fontsize=9.5
        )
        axes.axvline(0.0, color=OWN, linewidth=0.8)
        for row, summary in enumerate(summaries):
            if not (found := summary.get(key)):
                axes.text(
                    0.02, row, "not compared", va="center", transform=axes.get_yaxis_transform()
                )
            else:
                value, low, high = (found[part] for part in ("value", "low", "high"))
                axes.plot([low, high], [row, row], color=GOVERNED, linewidth=1.6)
                axes.plot(value, row, "o", color=GOVERNED, markersize=5)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_yticks(range(len(names)), list(map(plain, names)))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
    return figure
