"""What the user chose for a run, and where it is recorded."""

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from orin_gov.caller import Caller
from orin_gov.epoch import Epoch
from orin_gov.policy.objective import Objective
from orin_gov.policy.upkeep import BASELINE_SHARE


@dataclass(frozen=True)
class Settings:
    """What the user chose for a run; the defaults are those of the command line."""

    board: str | None = None
    root: Path = Path("/")
    objective: Objective = field(default_factory=Objective)
    epoch: Epoch = field(default_factory=Epoch)
    baseline_share: float = BASELINE_SHARE
    policy: Path | None = None
    dry_run: bool = False
    strict: bool = False
    fast_sensors: bool = False
    metrics_port: int | None = None
    live: bool | None = False  # None: where there is a terminal for it
    output: Path | None = None
    caller: Caller | None = None


def default_run_directory(name: str) -> Path:
    """Return a new name for a run directory below the working directory."""
    stem = re.sub(r"[^\w.-]", "_", name.removesuffix(".py")) or "run"
    return Path("orin_gov_runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
