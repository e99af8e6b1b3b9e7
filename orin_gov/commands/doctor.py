"""Say what was found of a board, what is missing, and the command that mends it.

Ends with 0 where a governor can work, with 1 where something is missing.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orin_gov.board.identity import Identity
    from orin_gov.board.probe import Board


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov doctor`."""
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the board's file system starts (default /)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    from orin_gov.board.journal import journal_path
    from orin_gov.board.probe import open_board
    from orin_gov.errors import BoardError

    try:
        board = open_board(arguments.root)
    except BoardError as error:
        if arguments.json:
            mend = "orin-gov run --board virtual:agx-orin-64gb train.py"
            told = {"what": str(error), "mend": mend}
            print(json.dumps({"board": None, "ready": False, "problems": [told]}))
            return 1
        print(f"missing  {error}")
        print("  mend   without a Jetson: orin-gov run --board virtual:agx-orin-64gb train.py")
        return 1
    problems = board.problems()
    changed = journal_path(board.root).exists()
    if arguments.json:
        print(json.dumps(_as_json(board, changed)))
        return 1 if problems else 0
    _print_found(board)
    if changed:
        print("changed  by a run that goes on, or was killed; then mend it with: orin-gov restore")
    for problem in problems:
        print(f"missing  {problem.what}")
        print(f"  mend   {problem.mend}")
    if not problems:
        print("ready    orin-gov run train.py")
    return 1 if problems else 0


def _as_json(board: "Board", changed: bool) -> dict[str, Any]:
    """Return the findings as plain values: SI units, None for what is not known."""
    from orin_gov.board.conditions import read_conditions

    identity, total, problems = board.identity, board.total_rails, board.problems()
    return {
        "board": identity.title,
        "module": identity.module,
        "virtual": identity.virtual,
        "l4t": identity.l4t,
        "jetpack": identity.jetpack,
        "gpu": _gpu_json(board),
        "rails": [
            {
                "rail": rail.label,
                "chip": rail.chip,
                "channel": rail.channel,
                "in_total": None if total is None else rail.label in total,
                "fault": rail.fault() or None,
            }
            for rail in board.rails
        ],
        "total_rails": None if total is None else list(total),
        "time_constant_s": board.time_constant_s,
        "resolves_phases": board.resolves_phases,
        "conditions": read_conditions(board.root, board.gpu).as_json(),
        "changed": changed,
        "ready": not problems,
        "problems": [{"what": problem.what, "mend": problem.mend} for problem in problems],
    }


def _gpu_json(board: "Board") -> dict[str, Any] | None:
    from orin_gov.errors import BoardError

    gpu = board.gpu
    if gpu is None:
        return None
    try:
        limits = gpu.read_range()
        edges: tuple[int | None, int | None] = limits.min_hz, limits.max_hz
    except BoardError:
        edges = None, None
    return {
        "name": gpu.directory.name,
        "governor": gpu.governor() or None,
        "table_hz": list(gpu.table_hz),
        "min_hz": edges[0],
        "max_hz": edges[1],
    }


def _print_found(board: "Board") -> None:
    identity = board.identity
    print(f"board    {identity.title}, module {identity.module or 'unknown'}")
    print(f"release  {_release_words(identity)}")
    for line in (*_gpu_lines(board), *_rail_lines(board), *_condition_lines(board)):
        print(line)


def _release_words(identity: "Identity") -> str:
    jetpack = f"JetPack {identity.jetpack}" if identity.jetpack else None
    if identity.l4t is None:
        return f"{jetpack or 'unknown'} (no /etc/nv_tegra_release)"
    return f"L4T {identity.l4t}" + (f" ({jetpack})" if jetpack else "")


def _gpu_lines(board: "Board") -> Iterator[str]:
    from orin_gov.errors import BoardError

    if board.gpu is None:
        return
    yield f"gpu      {board.gpu.directory.name}, governor {board.gpu.governor() or 'unknown'}"
    try:
        limits = board.gpu.read_range()
        words = f"{limits.min_hz / 1e6:g}-{limits.max_hz / 1e6:g} MHz"
    except BoardError:
        words = "unknown"
    table = " ".join(f"{hz / 1e6:g}" for hz in board.gpu.table_hz) or "no"
    yield f"clocks   {table} MHz; limits {words}"


def _rail_lines(board: "Board") -> Iterator[str]:
    total = board.total_rails
    for rail in board.rails:
        apart = "" if total is None or rail.label in total else ", not in the total"
        fault = rail.fault()
        silent = f": no reading, {fault}" if fault else ""
        yield f"rail     {rail.label} ({rail.chip} channel {rail.channel}{apart}){silent}"
    if total is None:
        yield "total    unknown: no table tells which rails make up this module's power"
    else:
        yield f"total    {' + '.join(total)}"


def _condition_lines(board: "Board") -> Iterator[str]:
    from orin_gov.board.conditions import read_conditions

    found = read_conditions(board.root, board.gpu)
    if mode := found.power_mode:
        cap = "no GPU cap" if mode.gpu_max_hz is None else f"GPU to {mode.gpu_max_hz / 1e6:g} MHz"
        known = f"{mode.name}, {cap}" if mode.name else "not in nvpmodel.conf"
        waits = ", waits for a reboot to be in force" if mode.waits_for_reboot else ""
        yield f"mode     {mode.number} ({known}{waits})"
    rate = f"at {found.emc_rate_hz / 1e6:g} MHz" if found.emc_rate_hz else None
    emc_cap = f"cap {found.emc_cap_hz / 1e6:g} MHz" if found.emc_cap_hz else None
    if rate or emc_cap:
        yield f"memory   {', '.join(filter(None, (rate, emc_cap)))}"
    known_c = {zone: value for zone, value in found.temperature_c.items() if value is not None}
    if known_c:
        hottest = max(known_c, key=lambda zone: known_c[zone])
        yield f"heat     {hottest} {known_c[hottest]:g} C is the hottest of {len(known_c)} zones"
    counts = [f"{name.upper()} {count}" for name, count in found.over_current_events.items()]
    if counts:
        yield f"current  over-current events since boot: {', '.join(counts)}"
    for sensor in board.sensors:
        if sensor.samples is None:
            yield f"sensors  {sensor.chip}: averaging unknown, {sensor.file} tells none"
    if not board.resolves_phases:
        mend = " (--fast-sensors, as root, changes that for a run)" if board.can_be_quicker else ""
        yield (
            f"sensors  average {board.averaging} readings and lag by "
            f"{board.time_constant_s:.2g} s: phases cannot be told apart{mend}"
        )
