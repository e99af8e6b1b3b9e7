"""The library: governing a training loop of one's own, with the same supervisor beside it."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import orin_gov
from orin_gov.errors import BoardError, UsageError
from orin_gov.phases import DATA, PHASES
from orin_gov.workload.marker import Marker
from orin_gov.workload.metering import Measurement, Meter, identity
from orin_gov.workload.ring import make_ring
from orin_gov.workload.session import attach, current_marker, detach, meter_address

logger = logging.getLogger(__name__)

T = TypeVar("T")

GOODBYE = "bye\n"


class Governor:
    """Governs the GPU while the body of a with statement trains.

        with orin_gov.Governor(objective="energy", max_slowdown=0.05) as gov:
            for batch in gov.steps(loader):
                with gov.phase("forward"):
                    loss = model(batch)

    The supervisor is a process of its own: this one never waits for it, and trains on if it dies.
    Inside a script that `orin-gov run` already governs, this only adds its marks to that run.
    Phases are marked by the hooks in torch as well; `phase` is for what they cannot see.
    `capped_power` says which power `power_cap_w` is on: that of the module, of the gpu (its rail),
    or the module's p99. A job of so many `steps` is to end within `deadline_s` seconds of entering,
    and to take no more than `energy_budget_j` of the module's energy.

    Thread-safety: one training thread; phases begun in another one meanwhile are not marked.
    """

    def __init__(
        self,
        objective: str = "energy",
        max_slowdown: float = 0.10,
        power_cap_w: float | None = None,
        epoch: str = "3",
        board: str | None = None,
        policy: str | os.PathLike[str] | None = None,
        output: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        strict: bool = False,
        capped_power: str = "module",
        deadline_s: float | None = None,
        energy_budget_j: float | None = None,
        steps: int | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "objective": objective,
            "max_slowdown": max_slowdown,
            "power_cap_w": power_cap_w,
            "capped_power": capped_power,
            "deadline_s": deadline_s,
            "energy_budget_j": energy_budget_j,
            "steps": steps,
            "epoch": epoch,
            "board": board,
            "policy": None if policy is None else os.fspath(policy),
            "output": None if output is None else os.fspath(output),
            "dry_run": dry_run,
            "strict": strict,
            "name": Path(sys.argv[0] or "python").name,
            "pid": os.getpid(),
        }
        self._supervisor: _Supervisor | None = None
        self._marker: Marker | None = None
        self._meter = Meter(None)
        self.run_directory: Path | None = None

    def __enter__(self) -> "Governor":
        """Start governing.

        Raises:
            BoardError: there is no board to govern, or an option is wrong; the message says which.
        """
        self._marker = current_marker()
        if self._marker is not None:
            self._meter = Meter(meter_address())
            return self
        ring = make_ring()
        try:
            self._supervisor = _Supervisor(ring)
            self._hand_over(self._supervisor)
            self._marker = attach(os.dup(ring))
            self._meter = Meter(meter_address())
        finally:
            os.close(ring)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop governing; returns when the board is put back and the summary printed."""
        self._meter.close()
        supervisor, self._supervisor = self._supervisor, None
        # A forked child that leaves the block has not begun it, and ends it for nobody.
        if supervisor is None or self._options["pid"] != os.getpid():
            return
        detach()
        supervisor.end()

    def steps(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the batches of `loader`; each one is a step, and fetching it is the data phase.

        Without this, the steps of the optimizer are the steps.
        """
        marker = self.marker
        marker.explicit_steps = True
        batches = iter(loader)
        try:
            while True:
                with marker.phase(DATA):
                    try:
                        batch = next(batches)
                    except StopIteration:
                        marker.end_epoch()
                        return
                yield batch
                marker.step()
        finally:
            marker.explicit_steps = False

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Mark the body of a with statement as the phase `name`.

        Raises:
            UsageError: there is no such phase.
        """
        if name not in PHASES:
            raise UsageError(f"phase is {name!r}, expected one of {', '.join(PHASES)}")
        return self.marker.phase(PHASES.index(name))

    def add_work(self, units: float) -> None:
        """Add tokens or samples to the step under way, where the hooks cannot count them."""
        self.marker.add_work(units)

    def begin_window(self, key: str, sync_execution: bool = True) -> None:
        """Begin to measure under the name `key`; windows may overlap. As in Zeus' monitor.

        With `sync_execution` the GPU is waited for first, so that the window holds what it does.
        """
        self._meter.begin_window(key, sync_execution)

    def end_window(
        self, key: str, sync_execution: bool = True, cancel: bool = False
    ) -> Measurement:
        """Return time and energy since `begin_window(key)`; None where the energy is not known.

        It waits for the sensors, about a tenth of a second: measure epochs rather than steps.
        """
        return self._meter.end_window(key, sync_execution, cancel)

    def readings(self) -> dict[str, float]:
        """Return `energy_j` since the start of the run and `clock_hz`, what is known of them."""
        return self._meter.readings()

    @property
    def marker(self) -> Marker:
        """What marks phases and steps; for the integrations.

        Raises:
            UsageError: the governor is not in force.
        """
        if self._marker is None:
            raise UsageError("use the governor inside its with statement")
        return self._marker

    def _hand_over(self, supervisor: "_Supervisor") -> None:
        """Send the options to the supervisor and wait until it governs."""
        answer = supervisor.ask(self._options)
        if "run_directory" not in answer:
            supervisor.end()
            self._supervisor = None
            raise BoardError(answer.get("error", "the supervisor did not start"))
        self.run_directory = Path(answer["run_directory"])


class _Supervisor:
    """The supervisor's process, and this one's end of the pipe that it reads.

    A bare descriptor, which is ours only as long as it is the same pipe: a script that closes all
    descriptors may have a file of its own under the number by now.
    """

    def __init__(self, ring: int) -> None:
        reader, self._pipe = os.pipe()
        self._identity = identity(self._pipe)
        # By its file, not by name: the package may be importable here only through sys.path.
        package_root = str(Path(orin_gov.__file__).parents[1])
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orin_gov.attached", str(ring)],
                stdin=reader,
                stdout=subprocess.PIPE,
                pass_fds=(ring,),
                env=dict(os.environ, PYTHONPATH=path),
                text=True,
            )
        finally:
            os.close(reader)

    def ask(self, options: dict[str, Any]) -> dict[str, str]:
        """Send the options; return what the supervisor answers when it governs, or cannot."""
        self._say(json.dumps(options) + "\n")
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            answer: dict[str, str] = json.loads(answers.readline() or "{}")
        return answer

    def end(self) -> None:
        """Say that training is over, and wait until the supervisor has ended.

        Said, and not only by closing the pipe: a forked data worker may hold it open.
        """
        if self._identity is not None and identity(self._pipe) == self._identity:
            self._say(GOODBYE)
            os.close(self._pipe)
        self._process.wait()

    def _say(self, text: str) -> None:
        with suppress(BrokenPipeError):  # it has ended: then there is nothing to be said
            os.write(self._pipe, text.encode())
