"""Make one HTML page of runs and characterizations; it holds all it shows and opens offline.

  orin-gov report RUN [RUN ...]

Several are shown side by side. --figures writes every figure of the page as PNG and SVG as well.
Needs matplotlib and jinja2 (pip install 'orin-gov[report]').
"""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov report`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: report.html in the run directory; of several: in this one)",
    )
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="write the figures there, as PNG and SVG"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write the page, and the figures where they are asked for."""
    from orin_gov.errors import OrinGovError
    from orin_gov.view.progress import working

    try:
        from orin_gov.view.report import build_report
    except ImportError as error:
        raise OrinGovError(
            f"report needs matplotlib and jinja2 ({error.name} is missing): "
            "pip install 'orin-gov[report]'"
        ) from error
    output = arguments.output or _default_output(arguments.runs)
    files: list[Path] = []
    try:
        with working("reading and drawing"):
            report = build_report(arguments.runs)
            page = report.html()
        output.write_text(page, encoding="utf-8", errors="backslashreplace")
        if arguments.figures is not None:
            arguments.figures.mkdir(parents=True, exist_ok=True)
            with working("writing figures"):
                files = [
                    file for each in report.drawings() for file in each.save(arguments.figures)
                ]
    except OSError as error:
        raise OrinGovError(
            f"cannot write {error.filename or output}: {error.strerror}; name another place with "
            "--output or --figures"
        ) from error
    notes = {str(section.path): list(section.notes) for section in report.sections}
    if arguments.json:
        told = {"report": str(output), "figures": list(map(str, files)), "notes": notes}
        print(json.dumps(told))
        return 0
    for path, lines in notes.items():
        for line in lines:
            print(f"{path}: {line}")
    print(
        f"wrote {output}" + (f" and {len(files)} figures to {arguments.figures}" if files else "")
    )
    return 0


def _default_output(runs: list[Path]) -> Path:
    return runs[0] / "report.html" if len(runs) == 1 else Path("report.html")
