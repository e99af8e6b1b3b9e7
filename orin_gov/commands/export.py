"""Write runs as tidy tables for pandas, DuckDB, Power BI and whatever else reads such files.

  orin-gov export RUN [RUN ...] --to parquet --output DIR

One file a table (runs, steps, phases, rails, samples, decisions, frequencies, measurements), and
the dictionary that explains their columns. SI units; missing is missing, never zero.
"""

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov export`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "--to", default="parquet", metavar="FORMAT", help="parquet (default), csv or json"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where the files go"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Read the runs and write the tables."""
    from orin_gov.record.export import as_text, export, keys_of
    from orin_gov.record.run import read_run
    from orin_gov.view.progress import working

    runs = [read_run(path) for path in arguments.runs]
    keyed = dict(zip(keys_of([each.identity for each in runs]), runs, strict=True))
    with working("exporting") as tell:
        counts = export(keyed, arguments.to, arguments.output, tell)
    if arguments.json:
        notes = {key: list(each.notes) for key, each in keyed.items()}
        print(json.dumps({"output": str(arguments.output), "rows": counts, "notes": notes}))
        return 0
    for each in runs:
        for note in each.notes:
            print(f"{each.path}: {note}", file=sys.stderr)
    print(f"wrote {arguments.output}: {as_text(counts)} rows")
    return 0
