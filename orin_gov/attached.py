"""The supervisor of a training loop that started it itself: `python -m orin_gov.attached RING`.

One line of JSON, the options, comes on stdin; one line, the run directory or an error, goes to
stdout. The training loop is over when another line comes, stdin ends or its process has ended: it
has left its with statement, or has died.
"""

import json
import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_gov.epoch import parse_epoch
from orin_gov.errors import OrinGovError
from orin_gov.policy.objective import Objective
from orin_gov.settings import Settings, default_run_directory
from orin_gov.supervisor import supervise


@dataclass(frozen=True)
class AttachedWorkload:
    """The process that trains: our parent. A forked child of it may hold our stdin open."""

    pid: int

    def poll(self) -> int | None:
        """Return 0 once something is said, stdin has ended, or the process has."""
        said, _, _ = select.select([sys.stdin], [], [], 0)
        return 0 if said or os.getppid() != self.pid else None

    def send_signal(self, number: int, /) -> None:
        """Do nothing: a terminal's signals reach the training process as they reach us."""


def main(ring: int) -> int:
    """Govern until stdin ends."""
    # Ctrl-C is the training loop's to handle; we end when it has.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options: dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        settings = _settings(options)

        def start(ring: int) -> AttachedWorkload:
            _answer(run_directory=str(settings.output))
            return AttachedWorkload(options["pid"])

        return supervise(settings, options["name"], True, start, ring)
    except OrinGovError as error:
        _answer(error=str(error))
        return error.exit_code


def _settings(options: dict[str, Any]) -> Settings:
    output = options["output"]
    return Settings(
        board=options["board"],
        objective=Objective(
            options["objective"],
            float(options["max_slowdown"]),
            options["power_cap_w"],
            options["capped_power"],
            options["deadline_s"],
            options["energy_budget_j"],
            options["steps"],
        ),
        epoch=parse_epoch(options["epoch"]),
        policy=Path(options["policy"]) if options["policy"] else None,
        dry_run=options["dry_run"],
        strict=options["strict"],
        output=Path(output) if output else default_run_directory(options["name"]),
    )


def _answer(**content: str) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
