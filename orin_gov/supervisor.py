"""The supervisor: one governed run, from the first look at the board to the summary."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from orin_gov import __version__
from orin_gov._phases import PhaseRing
from orin_gov.board.conditions import read_conditions
from orin_gov.board.gpu import Gpu
from orin_gov.board.probe import Board
from orin_gov.caller import as_caller
from orin_gov.control import Control, stand_by, take_control
from orin_gov.deciding import as_trusted, load_policy, make_governor
from orin_gov.governed_run import GovernedRun
from orin_gov.memory import settle_allocators
from orin_gov.meter import Meter
from orin_gov.policy.decider import Decider
from orin_gov.policy.tree import Policy
from orin_gov.readying import (
    find_board,
    obstacle_to,
    operating_points,
    quicken,
    restore_left,
    virtual_board,
)
from orin_gov.record.writer import RunWriter, create_run_directory
from orin_gov.running import announced
from orin_gov.settings import Settings, default_run_directory
from orin_gov.signals import Workload, block_signals
from orin_gov.view.lines import print_warning
from orin_gov.view.live import live_view

Start = Callable[[int], Workload]


Decide = Callable[[Board, tuple[int, ...]], Decider]
"""Makes what decides in the governor's place, from the board and its operating points."""


def supervise(
    settings: Settings,
    name: str,
    stepped: bool,
    start: Start,
    ring: int,
    decide: Decide | None = None,
) -> int:
    """Run the workload that `start` starts, governed; return the exit code to end with.

    `name` is the script's, for the run directory; `stepped` tells whether it can mark its steps in
    the shared memory behind the descriptor `ring`, which `start` is given.

    Raises:
        OrinGovError: something the run cannot do without is missing. Nothing was started then.
    """
    settle_allocators()
    with as_caller(settings.caller if settings.policy else None):
        policy = load_policy(settings.policy)
    with ExitStack() as stack:
        virtual = stack.enter_context(virtual_board(settings.board, ring))
        board = find_board(virtual.root if virtual else settings.root)
        if not settings.dry_run and board.gpu and not board.gpu.unwritable_files():
            restore_left(board.root)
            board = find_board(board.root)
        points = operating_points(board)
        obstacle = obstacle_to(board, settings)
        advise = settings.dry_run or obstacle is not None
        if decide is None and (obstacle is None or board.awaits_gpu):
            policy = as_trusted(policy, board)
        governor: Decider = (
            decide(board, points)
            if decide is not None
            else make_governor(board, points, policy, settings, advise)
        )
        control, take = _take_over(stack, board, settings, obstacle)
        path = settings.output or default_run_directory(name)
        with as_caller(settings.caller):  # a run that is refused leaves none
            create_run_directory(path)
        if settings.fast_sensors:
            board = quicken(board, control)
        manifest = _manifest(settings, name, board, policy, control)
        with as_caller(settings.caller):
            writer = stack.enter_context(RunWriter(path, [rail.label for rail in board.rails]))
            writer.manifest(manifest)
        rails = [rail.label for rail in board.rails]
        meter = Meter(rails, board.total_rails, round(board.cycle_s * 1e9))
        answer = stack.enter_context(meter.served(ring))
        view = stack.enter_context(live_view(settings.live))
        stack.enter_context(announced(path))
        block_signals()
        workload = start(ring)
        answer()
        if virtual:
            virtual.adopt(workload.pid)
        run = GovernedRun(settings, name, board, governor, points, control, take, writer, view)
        return run.see_through(workload, PhaseRing(ring), stepped, meter)


def _take_over(
    stack: ExitStack, board: Board, settings: Settings, obstacle: str | None
) -> tuple[Control | None, Callable[[Gpu], Control] | None]:
    """Take the GPU into control, or stand by for one that is yet to come; say what is in the way."""
    control, take = None, None
    if not obstacle and not settings.dry_run:
        assert board.gpu is not None
        control = stack.enter_context(take_control(board.root, board.gpu))
    elif board.awaits_gpu and not settings.dry_run:
        take = stack.enter_context(stand_by(board.root))
    if obstacle:
        so = "governed once it appears" if take else "measured but not governed"
        print_warning(f"{obstacle}; the script runs on, {so}")
    return control, take


def _manifest(
    settings: Settings, name: str, board: Board, policy: Policy, control: Control | None
) -> dict[str, object]:
    return {
        "orin_gov": __version__,
        "name": name,
        "argv": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "clock_ns": time.monotonic_ns(),
        "board": board.identity.title,
        "module": board.identity.module,
        "virtual": board.identity.virtual,
        "l4t": board.identity.l4t,
        "jetpack": board.identity.jetpack,
        "table_hz": list(board.gpu.table_hz) if board.gpu else [],
        "rails": [rail.label for rail in board.rails],
        "total_rails": None if board.total_rails is None else list(board.total_rails),
        "time_constant_s": board.time_constant_s,
        "fast_sensors": settings.fast_sensors,
        "conditions": read_conditions(board.root, board.gpu).as_json(),
        "objective": vars(settings.objective),
        "governing": control is not None,
        "policy": dict(policy.card),
    }
