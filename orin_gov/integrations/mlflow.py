"""MLflow: a run directory as an MLflow run, or the energy of a loop as metrics while it trains.

    orin_gov.integrations.mlflow.log_run("orin_gov_runs/train-...")

A Hugging Face or Lightning trainer that logs to MLflow has energy in its metrics by its own
integration; this is for everything else.
"""

import os
import time
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric

from orin_gov.errors import RunDirectoryError
from orin_gov.record.recovered import figures_of
from orin_gov.record.run import Run, is_characterization, read_run
from orin_gov.view.series import column

MOST_METRICS = 1000
"""What one request of MLflow may carry."""

OF_STEPS = {"step_energy_j": "energy_j", "step_time_s": "duration_s", "target_hz": "target_hz"}
"""Metrics by step, and the columns they come from."""


def log_run(path: str | os.PathLike[str], run_id: str | None = None) -> str:
    """Log a run directory to an MLflow run, a new one unless `run_id` names it; return its id.

    Settings become parameters, the summary metrics, and each step's energy and time metrics of
    that step. What is missing is not logged.

    Raises:
        RunDirectoryError: it holds nothing of a run, or is a characterization.
    """
    if is_characterization(Path(path)):
        raise RunDirectoryError(f"{path} is a characterization: it has no steps to log")
    run = read_run(Path(path))
    with mlflow.start_run(run_id=run_id, run_name=None if run_id else run.identity) as active:
        mlflow.log_params(_parameters(run))
        mlflow.log_metrics(_summary(run))
        client = mlflow.MlflowClient()
        metrics = _step_metrics(run)
        for begin in range(0, len(metrics), MOST_METRICS):
            client.log_batch(active.info.run_id, metrics[begin : begin + MOST_METRICS])
        return str(active.info.run_id)


def _parameters(run: Run) -> dict[str, Any]:
    objective = run.manifest.get("objective") or {}
    found = {f"orin_gov.{key}": value for key, value in objective.items() if value is not None}
    for key in ("name", "board", "module", "virtual", "l4t", "governing", "orin_gov"):
        if run.manifest.get(key) is not None:
            found[f"orin_gov.{key}"] = run.manifest[key]
    return found


def _summary(run: Run) -> dict[str, float]:
    figures = figures_of(run)
    found = {
        key: float(value)
        for key, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    for key in ("energy_change", "time_change"):
        for part, value in (figures.get(key) or {}).items():
            found[key if part == "value" else f"{key}_{part}"] = float(value)
    return {f"orin_gov/{key}": value for key, value in found.items()}


def _step_metrics(run: Run) -> list[Metric]:
    """Return a metric by step and quantity, at the moment the step ended."""
    started = run.started
    begin_ms = (started.timestamp() if started else time.time()) * 1e3
    steps = run.steps
    if not steps.num_rows:
        return []
    numbers = steps["step"].to_pylist()
    ends_ms = (begin_ms + (steps["end_ns"].to_numpy() - run.origin_ns) * 1e-6).astype(int).tolist()
    return [
        Metric(f"orin_gov/{name}", value, at_ms, number)
        for name, source in OF_STEPS.items()
        for number, at_ms, value in zip(
            numbers, ends_ms, column(steps, source).tolist(), strict=True
        )
        if value == value
    ]
