"""Characterization: a workload at every operating point, in virtual time or as a script runs.

A sweep (orin_gov.policy.sweep) stands where the governor does, in the simulation as in the engine.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orin_gov.board.conditions import read_conditions, read_temperatures
from orin_gov.board.identity import module_of
from orin_gov.board.probe import Board
from orin_gov.caller import Caller, as_caller
from orin_gov.epoch import Epoch
from orin_gov.errors import OrinGovError, UsageError
from orin_gov.policy.sweep import ALL_MEASURED, Stop, Sweep, plan
from orin_gov.policy.window import Window
from orin_gov.readying import VIRTUAL
from orin_gov.record.characterization import (
    append,
    curves,
    finished_board,
    measurement_of,
    open_directory,
    read_measurements,
    write_summary,
)
from orin_gov.settings import Settings, default_run_directory
from orin_gov.supervisor import supervise
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.job import Job
from orin_gov.virtual.plant import BoardModel, load_board
from orin_gov.virtual.simulation import Simulation
from orin_gov.workload.launch import Target, launch, resolve_target
from orin_gov.workload.ring import make_ring

ENDLESS = 2**40
SAME_HZ = 1_000_000


@dataclass(frozen=True)
class Characterization:
    """What the user asked for."""

    epoch: Epoch
    board: str | None = None
    root: Path = Path("/")
    freqs: str = "all"
    repeats: int = 3
    seed: int = 0
    output: Path | None = None
    caller: Caller | None = None

    def manifest(
        self, board: str, workloads: Sequence[str], fingerprint: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """What a run that goes on with another must have in common with it.

        The fingerprint is the board's state: module, power mode and table of clocks.
        """
        return {
            "board": board,
            **({} if fingerprint is None else {"fingerprint": fingerprint}),
            "workloads": list(workloads),
            "freqs": self.freqs,
            "repeats": self.repeats,
            "epoch": {"steps": self.epoch.steps, "seconds": self.epoch.seconds},
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Swept:
    """How a characterization ended: where it lies, on which board, and the code to exit with."""

    path: Path
    board: str
    ended: str
    exit_code: int


def choose_points(freqs: str, table_hz: Sequence[int]) -> list[int]:
    """The operating points of the table that `all`, or a list in MHz, names.

    Raises:
        UsageError: one of them is not in the table.
    """
    if freqs == "all":
        return list(table_hz)
    points = []
    for text in freqs.split(","):
        try:
            wanted_hz = float(text) * 1e6
        except ValueError:
            raise UsageError(f"--freqs has {text!r}, expected all, or MHz as in 306,612") from None
        nearest_hz = min(table_hz, key=lambda hz: abs(hz - wanted_hz))
        if not abs(nearest_hz - wanted_hz) <= SAME_HZ:
            known = ", ".join(f"{hz / 1e6:.0f}" for hz in table_hz)
            raise UsageError(f"--freqs has {text} MHz, expected some of {known}")
        points.append(nearest_hz)
    return sorted(set(points))


def make_sweep(
    wanted: Characterization,
    workload: str,
    table_hz: Sequence[int],
    path: Path,
    thermometer: Callable[[], float | None],
) -> Sweep:
    """The sweep of one workload, without what lies in its run directory already.

    The board's own governor is one of the points.
    """

    def record(stop: Stop, window: Window, temperature_c: float | None) -> None:
        with as_caller(wanted.caller):
            append(path, measurement_of(workload, stop, window, temperature_c))

    points = [None, *choose_points(wanted.freqs, table_hz)]
    done = {each.stop for each in read_measurements(path) if each.workload == workload}
    stops = plan(points, wanted.repeats, wanted.seed)
    return Sweep(stops, done, table_hz[0], thermometer, record)


def sweep_jobs(wanted: Characterization, workloads: Sequence[str]) -> Swept:
    """Sweep workloads on a virtual board in virtual time.

    Raises:
        UsageError: the board, a workload or an operating point is unknown.
        RunDirectoryError: the output holds something else.
    """
    name = wanted.board or ""
    if not name.startswith(VIRTUAL):
        raise UsageError(f"--workload runs in virtual time: name a --board {VIRTUAL}...")
    board = load_board(name.removeprefix(VIRTUAL))
    points = [hz for hz in board.frequencies_hz if hz <= board.cap_hz]
    choose_points(wanted.freqs, points)
    jobs = {workload: parse_workload(workload).job(board) for workload in workloads}
    path = wanted.output or default_run_directory(workloads[0].replace("/", "-"))
    title = f"virtual board {board.name}"
    fingerprint = {
        "module": module_of("\n".join(board.compatible)),
        "power_mode": board.mode.name,
        "table_hz": list(board.frequencies_hz),
        "virtual": name.removeprefix(VIRTUAL),
    }
    open_directory(path, wanted.manifest(title, workloads, fingerprint))
    sweeps = [
        _sweep_job(wanted, board, points, workload, job, path) for workload, job in jobs.items()
    ]
    return _finish(path, title, max(sweeps, key=lambda sweep: sweep.left), 0)


def _sweep_job(
    wanted: Characterization,
    board: BoardModel,
    points: Sequence[int],
    workload: str,
    job: Job,
    path: Path,
) -> Sweep:
    # What a job does only at its end has no place among measurements of its steps.
    endless = replace(job, steps=ENDLESS, pauses=())
    simulation = Simulation(board, endless, wanted.epoch, wanted.seed)
    sweep = make_sweep(wanted, workload, points, path, lambda: simulation.temperature_c)
    if sweep.ended is None:
        for _ in simulation.run(sweep):
            if sweep.ended is not None:
                break
    return sweep


def sweep_script(wanted: Characterization, words: Sequence[str], module: bool) -> Swept:
    """Sweep a script as it runs; it is started anew as long as each start measures something.

    Raises:
        OrinGovError: it cannot be started, or the board cannot be governed.
    """
    with as_caller(wanted.caller):
        target = resolve_target(words, module)
    path = wanted.output or default_run_directory(target.name)
    if (board := finished_board(path)) is not None:
        with as_caller(wanted.caller):
            open_directory(path, wanted.manifest(board, [target.name]))
        return Swept(path, board, ALL_MEASURED, 0)
    while True:
        before = len(read_measurements(path))
        code, title, sweep = _launch(wanted, target, path)
        if sweep.ended or code or len(read_measurements(path)) == before:
            with as_caller(wanted.caller):
                return _finish(path, title, sweep, code)


def _launch(wanted: Characterization, target: Target, path: Path) -> tuple[int, str, Sweep]:
    """Run the script once under a sweep; returns its exit code, the board's title and the sweep."""
    made: list[tuple[str, Sweep]] = []

    def decide(board: Board, points: tuple[int, ...]) -> Sweep:
        def thermometer() -> float | None:
            return read_temperatures(board.root).get("gpu")

        title = board.identity.title
        with as_caller(wanted.caller):
            open_directory(path, wanted.manifest(title, [target.name], _fingerprint(board)))
        sweep = make_sweep(wanted, target.name, points, path, thermometer)
        made.append((title, sweep))
        return sweep

    settings = Settings(
        board=wanted.board,
        root=wanted.root,
        epoch=wanted.epoch,
        strict=True,
        output=path / f"launch-{len(list(path.glob('launch-*'))) + 1}",
        caller=wanted.caller,
    )
    ring = make_ring()
    try:
        code = supervise(
            settings,
            target.name,
            target.hooked,
            lambda fd: launch(target, fd, wanted.caller),
            ring,
            decide,
        )
    finally:
        os.close(ring)
    return code, *made[0]


def _fingerprint(board: Board) -> dict[str, object]:
    mode = read_conditions(board.root, board.gpu).power_mode
    return {
        "module": board.identity.module,
        "power_mode": mode.name if mode else None,
        "table_hz": list(board.gpu.table_hz) if board.gpu else [],
        "virtual": board.identity.virtual,
    }


def _finish(path: Path, title: str, sweep: Sweep, code: int) -> Swept:
    """Write the summary; a sweep that was cut short is no success."""
    ended = sweep.ended or "the script ended before all was measured; the same command goes on"
    write_summary(path, title, curves(read_measurements(path)), ended, sweep.left)
    return Swept(path, title, ended, code or (OrinGovError.exit_code if sweep.left else 0))
