"""Reading a run directory, up to the last complete record."""

import json
from pathlib import Path
from typing import Any

from orin_gov.errors import RunDirectoryError
from orin_gov.record.writer import VERSION


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of the run in `path`.

    Raises:
        RunDirectoryError: it is missing, broken or of another version.
    """
    return _read_json(path / "manifest.json")


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of the run in `path`.

    Raises:
        RunDirectoryError: it is missing (the run was cut off), broken or of another version.
    """
    return _read_json(path / "summary.json")


def read_decisions(path: Path) -> list[dict[str, Any]]:
    """Return the decisions of the run in `path`, in order; a half-written last line is left out.

    Raises:
        RunDirectoryError: there is no list of decisions, or it is damaged.
    """
    try:
        text = (path / "decisions.jsonl").read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in complete.splitlines()]
    except OSError as error:
        raise RunDirectoryError(f"{path} is no run directory: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{path / 'decisions.jsonl'} is damaged: {error}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise RunDirectoryError(f"{path} is not of version {VERSION}")
    return content
