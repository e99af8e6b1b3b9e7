"""The report: one HTML page that holds all it shows, and the same figures as files."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

from orin_gov import __version__
from orin_gov.errors import RunDirectoryError
from orin_gov.record.characterization import best, curves, read_measurements
from orin_gov.record.recovered import figures_of
from orin_gov.record.run import Run, is_characterization, read_run, strange_records
from orin_gov.view import charts, comparisons, facts, rows
from orin_gov.view.figure import STYLE, curves_figure

DPI = 200
XML_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)


@dataclass(frozen=True)
class Drawing:
    """One figure of the report with its caption; `name` is unique and its files' stem."""

    name: str
    caption: str
    figure: Figure

    def svg(self) -> str:
        """Return the figure as an <svg> element to stand in a page beside others."""
        with mpl.rc_context(STYLE):
            text = io.StringIO()
            self.figure.savefig(text, format="svg", metadata={"Date": None})
        return _inline(text.getvalue(), self.name)

    def save(self, folder: Path) -> list[Path]:
        """Write NAME.png and NAME.svg into a folder; returns their paths."""
        with mpl.rc_context(STYLE):
            paths = [folder / f"{self.name}.png", folder / f"{self.name}.svg"]
            self.figure.savefig(paths[0], dpi=DPI)
            self.figure.savefig(paths[1], metadata={"Date": None})
        return paths


@dataclass(frozen=True)
class Section:
    """One run, or one characterization, as the page shows it."""

    title: str
    path: Path
    kind: str
    origin: facts.Fact | None = None
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    headline: Sequence[tuple[str, str, str]] = ()
    board: Sequence[facts.Fact] = ()
    quality: Sequence[facts.Fact] = ()
    rails: Sequence[Mapping[str, str]] = ()
    phases: Sequence[Mapping[str, str]] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    decisions_left_out: int = 0
    best: Sequence[tuple[str, str]] = ()
    drawings: Sequence[Drawing] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """Everything the page shows: what compares the runs, then a section each."""

    sections: Sequence[Section]
    names: Sequence[str]
    comparison: Sequence[tuple[str, list[str]]]
    comparing: Sequence[Drawing]

    def html(self) -> str:
        """Return the page; it refers to nothing outside itself."""
        source = resources.files("orin_gov.view") / "report.html"
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(source.read_text(encoding="utf-8"))
        return template.render(report=self, version=__version__)

    def drawings(self) -> Iterator[Drawing]:
        """Yield every figure of the page."""
        yield from self.comparing
        for section in self.sections:
            yield from section.drawings


def build_report(paths: Sequence[Path]) -> Report:
    """Read run directories, of runs and characterizations alike, and draw their figures.

    Raises:
        RunDirectoryError: one of them holds nothing of a run.
    """
    sections, runs = [], []
    with mpl.rc_context(STYLE):
        for index, path in enumerate(paths, start=1):
            prefix = f"{index}-" if len(paths) > 1 else ""
            with strange_records(path):
                if is_characterization(path):
                    sections.append(_characterization_section(path, prefix))
                    continue
                run = read_run(path)
                runs.append(run)
                sections.append(_run_section(run, prefix))
        names = _distinct_names(runs)
        figures = [figures_of(run) for run in runs]
        several = len(runs) > 1
        compared = comparisons.changes(names, figures) if several else None
    return Report(
        sections,
        names,
        rows.comparison(runs, figures) if several else (),
        [Drawing("comparison", "Dots with their 95 % intervals.", compared)] if compared else [],
    )


def _distinct_names(runs: Sequence[Run]) -> list[str]:
    """Name the runs by their directories, with a number where two are called the same."""
    names = [run.identity for run in runs]
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def _run_section(run: Run, prefix: str) -> Section:
    figures = figures_of(run)
    decisions, beyond = rows.decision_rows(run)
    return Section(
        title=run.name,
        path=run.path,
        kind="run",
        origin=facts.origin(run),
        notes=run.notes,
        warnings=figures.get("warnings") or (),
        headline=facts.headline(figures),
        board=list(facts.board_facts(run)),
        quality=list(facts.quality_facts(figures)),
        rails=rows.rail_rows(run, figures),
        phases=rows.phase_rows(run),
        decisions=decisions,
        decisions_left_out=beyond,
        drawings=list(_run_drawings(run, figures, prefix)),
    )


def _run_drawings(run: Run, figures: Mapping[str, Any], prefix: str) -> Iterator[Drawing]:
    table_hz = run.manifest.get("table_hz") or ()
    drawn = (
        (
            "power",
            "Power by rail, the GPU's clock, and how the steps divide into phases. Shaded: a target "
            "was held; white: the board's own governor. Grey band: least and most of the module.",
            charts.timeline(run),
        ),
        ("steps", "Energy and time of each step, or of bins of steps.", charts.step_series(run)),
        (
            "clocks",
            "What a unit of work took at each target. Open mark: the board's own governor at its "
            "mean clock. Bars: 95 %. Times differ by more than the clock where the job changes.",
            comparisons.against_clock(run),
        ),
        (
            "time-at-clock",
            "Time at each clock, as it was read.",
            comparisons.clock_shares(figures.get("clock_s") or {}, table_hz),
        ),
    )
    for name, caption, figure in drawn:
        if figure is not None:
            yield Drawing(prefix + name, caption, figure)


def _characterization_section(path: Path, prefix: str) -> Section:
    notes: list[str] = []
    try:
        found = curves(read_measurements(path))
    except RunDirectoryError as error:
        found = {}
        notes.append(str(error))
    run = read_run(path) if (path / "manifest.json").exists() else None
    manifest = run.manifest if run else {}
    notes += run.notes if run else ["manifest.json is missing"]
    if run and run.summary and run.summary.get("left"):
        notes.append(f"{run.summary['left']} measurements are still to be taken")
    board = str(manifest.get("board") or "unknown board")
    least = {name: best(points) for name, points in found.items()}
    virtual = board.removeprefix("virtual board ") if board.startswith("virtual") else None
    drawings = []
    if found:
        caption = (
            "Energy, time and power of a unit of work against the GPU's clock, each relative to "
            "the highest clock; bars: standard deviation over the rounds."
        )
        drawings.append(Drawing(f"{prefix}curves", caption, curves_figure(found, board)))
    else:
        notes.append("measurements.jsonl has no complete measurement yet")
    return Section(
        title=path.resolve().name,
        path=path,
        kind="characterization",
        origin=("simulated", f"The board was virtual ({virtual}): all figures are simulated.")
        if virtual
        else None,
        notes=notes,
        board=[("board", board), *_sweep_facts(manifest)],
        best=[
            (name, f"least energy at {point.target_hz / 1e6:.0f} MHz")
            for name, point in least.items()
            if point is not None and point.target_hz
        ],
        drawings=drawings,
    )


def _sweep_facts(manifest: Mapping[str, Any]) -> Iterator[facts.Fact]:
    for key in ("workloads", "freqs", "repeats", "seed"):
        if key in manifest:
            value = manifest[key]
            yield key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _inline(svg: str, name: str) -> str:
    """Return an SVG without its XML head and fixed size, its ids told apart from other figures'."""
    svg = XML_HEAD.sub("", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'
