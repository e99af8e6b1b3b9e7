"""The labelled review sentences both examples train on, as `make venv` puts them beside Python."""

import sys
from pathlib import Path

DEFAULT_FOLDER = Path(sys.prefix) / "share" / "orin_gov"
FILE_NAME = "movieReviewSnippets_GroundTruth.txt"


def read_reviews(folder: Path) -> list[tuple[float, str]]:
    """Mean score and text of each of the 10,605 movie review snippets, in the order of the file.

    The file is part of the vaderSentiment 3.3.1 source package (Hutto and Gilbert, ICWSM 2014):
    tab-separated number, mean score of at least 20 raters from -4 (most negative) to 4, text.
    Ends the program with a message where the file is not in `folder`.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        sys.exit(f"no {FILE_NAME} in {folder}: run `make venv`, or name its folder with --data DIR")
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(float(score), text) for _, score, text in rows]
