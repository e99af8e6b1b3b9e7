"""The figure of a characterization: energy, time and power against the GPU's clock, by workload."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from orin_gov.record.characterization import Point, best

Curves = Mapping[str, Sequence[Point]]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette: told apart by colour-blind readers as well."""

MARKERS = "osD^vP*"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "orin_gov",
    "figure.dpi": 100,
}

Value = Callable[[Point], float | None]
PANELS: tuple[tuple[str, Value, Value], ...] = (
    ("Energy per unit of work", lambda p: p.energy_j, lambda p: p.energy_sd),
    ("Time per unit of work", lambda p: p.time_s, lambda p: p.time_sd),
    ("Mean power", lambda p: p.power_w, lambda p: p.power_sd),
)


def draw_curves(curves: Curves, board: str, folder: Path) -> tuple[Path, Path]:
    """Draw `figure.png` and `figure.svg` in a folder; returns their paths."""
    with mpl.rc_context(STYLE):
        figure = curves_figure(curves, board)
        paths = folder / "figure.png", folder / "figure.svg"
        figure.savefig(paths[0], dpi=220)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def curves_figure(curves: Curves, board: str) -> Figure:
    """Return the figure, drawn in the style that is set.

    Every value is relative to the one at the highest pinned clock.
    """
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    for letter, axes, (title, value, spread) in zip(
        "abc", figure.subplots(1, len(PANELS)), PANELS, strict=True
    ):
        axes.set_title(f"({letter}) {title}", loc="left", fontsize=9.5)
        axes.set_xlabel("GPU clock (MHz)")
        _draw_panel(axes, curves, value, spread)
    figure.axes[0].set_ylabel("relative to the top clock")
    _explain(figure, board)
    return figure


def _draw_panel(axes: Axes, curves: Curves, value: Value, spread: Value) -> None:
    for index, (name, points) in enumerate(curves.items()):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        pinned = [point for point in points if point.target_hz and value(point) is not None]
        if not pinned:
            continue
        top = value(pinned[-1]) or 1.0
        axes.errorbar(
            [(point.target_hz or 0) / 1e6 for point in pinned],
            [(value(point) or 0.0) / top for point in pinned],
            [(spread(point) or 0.0) / top for point in pinned],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=1.8,
            label=name,
        )
        _mark_own(axes, points, value, top, colour, marker)
        if (least := best(points)) is not None:
            _ring(axes, least, value, top, colour)


def _ring(axes: Axes, least: Point, value: Value, top: float, colour: str) -> None:
    """A halo around the point of least energy, in every panel."""
    height = value(least)
    if height is not None:
        axes.scatter(
            (least.target_hz or 0) / 1e6, height / top, s=130, color=colour, alpha=0.22, linewidth=0
        )


def _mark_own(
    axes: Axes, points: Sequence[Point], value: Value, top: float, colour: str, marker: str
) -> None:
    """An open mark at the mean clock of the board's own governor."""
    for point in points:
        height = value(point)
        if point.target_hz is None and height is not None:
            axes.plot(
                point.clock_hz / 1e6,
                height / top,
                marker=marker,
                markersize=8,
                markerfacecolor="none",
                markeredgecolor=colour,
                linestyle="none",
            )


def _explain(figure: Figure, board: str) -> None:
    """The legend: the workloads, what the marks mean, and on which board all this was."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    grey = "#666666"
    handles += [
        Line2D([], [], color=grey, marker="o", markersize=7, linestyle="", markerfacecolor="none"),
        Line2D([], [], color=grey, marker="o", markersize=10, linestyle="", alpha=0.3),
    ]
    labels += ["board's own governor", "least energy"]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, columnspacing=1.6)
    told = f"{board}; bars: standard deviation over the rounds"
    figure.suptitle(told, fontsize=8, color="#555555", ha="right", x=0.995)
