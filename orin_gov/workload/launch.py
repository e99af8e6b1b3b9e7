"""Launching the user's target exactly as it would have been launched without us."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orin_gov.caller import Caller
from orin_gov.errors import (
    TargetNotFoundError,
    TargetNotRunnableError,
    TargetSyntaxError,
    UsageError,
)

INJECT = Path(__file__).parent / "inject"
PYTHON = re.compile(r"python(\d+(\.\d+)?)?$")

FOUND = signal.getsignal(signal.SIGCHLD)
"""As it was when we were started: ignored by some who start us, and changed before the script is."""


@dataclass(frozen=True)
class Target:
    """What to run: the argument vector, whether it is a Python we can hook, a name for people."""

    argv: tuple[str, ...]
    hooked: bool
    name: str


def resolve_target(words: Sequence[str], module: bool) -> Target:
    """Return the target that the words after our own options name.

    `train.py ARGS` and, with `module`, `package.module ARGS` run under this Python;
    `-- COMMAND ARGS` runs anything, and is hooked where the command is a Python.

    Raises:
        UsageError: there are no words.
        TargetNotFoundError, TargetNotRunnableError, TargetSyntaxError: it cannot be run.
    """
    if not words or words == ["--"]:
        raise UsageError("nothing to run: name a script, -m a.module, or -- a command")
    if module:
        return Target((sys.executable, "-m", *words), True, words[0])
    if words[0] == "--":
        return _command(words[1:])
    check_script(Path(words[0]))
    return Target((sys.executable, *words), True, Path(words[0]).name)


def _command(words: Sequence[str]) -> Target:
    name = Path(words[0]).name
    if shutil.which(words[0]) is None:
        if shutil.which(words[0], os.F_OK) or Path(words[0]).exists():
            raise TargetNotRunnableError(f"{words[0]} is not executable; chmod +x {words[0]}")
        raise TargetNotFoundError(f"{words[0]}: command not found")
    return Target(tuple(words), bool(PYTHON.match(name)), name)


def check_script(path: Path) -> None:
    """Check that `path` is a script Python can start, before anything is touched.

    Raises:
        TargetNotFoundError, TargetNotRunnableError, TargetSyntaxError: it is not.
    """
    try:
        if not path.exists():
            raise TargetNotFoundError(
                f"{path}: no such script; to run a command: orin-gov run -- {path}"
            )
        if path.is_dir() or zipfile.is_zipfile(path):
            return  # python runs their __main__.py
        source = path.read_bytes()
    except OSError as error:
        raise TargetNotRunnableError(f"{path} cannot be read: {error.strerror}") from error
    try:
        compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f" (line {error.lineno})" if error.lineno else ""
        raise TargetSyntaxError(f"{path} is not Python: {error.msg}{place}") from error
    except ValueError as error:  # null bytes, up to Python 3.11
        raise TargetSyntaxError(f"{path} is not Python: {error}") from error


def launch(target: Target, ring: int, caller: Caller | None = None) -> subprocess.Popen[bytes]:
    """Start the target with this process's streams, working directory and environment.

    Where there is a `caller`, it is that user's process, with all groups and the environment from
    before sudo. Its signal mask is emptied, as ours may be blocked, and
    it ignores SIGCHLD where we were started so. A hooked target inherits the
    ring's descriptor, which it closes before the script begins.

    Raises:
        TargetNotFoundError, TargetNotRunnableError: the system refused to run it.
    """
    env = os.environ if caller is None else caller.env
    try:
        return subprocess.Popen(
            target.argv,
            env=_environment(env, ring) if target.hooked else env,
            pass_fds=(ring,) if target.hooked else (),
            preexec_fn=_give_signals_back,
            user=None if caller is None else caller.uid,
            group=None if caller is None else caller.gid,
            extra_groups=None if caller is None else caller.groups,
        )
    except FileNotFoundError as error:
        raise TargetNotFoundError(f"{target.argv[0]}: {error.strerror}") from error
    except OSError as error:
        whose = (
            f" for {caller.env.get('USER', caller.uid)}, whose process it would be"
            if caller
            else ""
        )
        raise TargetNotRunnableError(f"{target.argv[0]}: {error.strerror}{whose}") from error


def _give_signals_back() -> None:
    signal.signal(signal.SIGCHLD, FOUND)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _environment(before: Mapping[str, str], ring: int) -> dict[str, str]:
    env = dict(before, ORIN_GOV_RING=str(ring), PYTHONPATH=str(INJECT))
    if "PYTHONPATH" in before:
        env["ORIN_GOV_PYTHONPATH"] = before["PYTHONPATH"]
    if before.get("PYTHONPATH"):
        env["PYTHONPATH"] += os.pathsep + before["PYTHONPATH"]
    return env
