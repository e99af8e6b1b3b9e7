"""Rights without root: a udev rule that lets a group write the GPU's devfreq files, and no other."""

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orin_gov.board.gpu import find_gpu
from orin_gov.errors import BoardError, UsageError

RULE = "etc/udev/rules.d/60-orin_gov.rules"
FILES = ("governor", "min_freq", "max_freq")

GPU_KERNEL_NAMES = "*.gpu|*.gv11b|*.gp10b|*.gm20b|*.ga10b|*.gb10b|gpu-gpc-*"
"""The GPU's devfreq node by its kernel name, on every Jetson; video engines have others."""

GROUP = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
"""What useradd takes for a name; in a rule, anything else might say more than a name."""

TEMPLATE = """\
# orin-gov setup --group {group}: its members may set the GPU's clock. orin-gov setup --remove
ACTION=="add|change", SUBSYSTEM=="devfreq", KERNEL=="{names}", \\
  RUN+="/bin/chgrp {group}{paths}", RUN+="/bin/chmod g+w{paths}"
"""


UNIT = "etc/systemd/system/orin-gov@.service"

SERVICE = """\
# orin-gov setup --service {user}: runs a script as that user, governed. orin-gov setup --remove
[Unit]
Description=%f under orin-gov
After=nvpmodel.service

[Service]
User={user}
WorkingDirectory=~
ExecStart="{python}" -m orin_gov run "%f"
ExecStopPost="{python}" -m orin_gov restore
KillMode=mixed
NoNewPrivileges=yes
"""
"""KillMode: the script is ended through us, and what is left after it. Where even the warden was
killed, the last line restores."""


def install_service(root: Path, user: str) -> None:
    """Install a service that runs a script, its instance, as `user`.

    Raises:
        UsageError: that is no name of a user.
        BoardError: it cannot be written.
    """
    if not GROUP.fullmatch(user):
        raise UsageError(f"--service is {user!r}, expected the name of a user")
    with _told(root):
        write_atomically(root / UNIT, SERVICE.format(user=user, python=sys.executable))


def rule_text(group: str) -> str:
    """Return the rule for a group.

    udev runs the programs itself, without a shell; the kernel makes the files anew at every boot.

    Raises:
        UsageError: that is no name of a group.
    """
    if not GROUP.fullmatch(group):
        raise UsageError(f"--group is {group!r}, expected the name of a group")
    paths = "".join(f" /sys%p/{name}" for name in FILES)
    return TEMPLATE.format(group=group, names=GPU_KERNEL_NAMES, paths=paths)


def grant(root: Path, group: str, gid: int) -> list[Path]:
    """Install the rule for the board under `root`; return the files that it holds for at once.

    Raises:
        UsageError: `group` is no name of a group.
        BoardError: something cannot be written.
    """
    text = rule_text(group)
    with _told(root):
        write_atomically(root / RULE, text)
        files = _files(root)
        for file in files:
            _own(file, gid, stat.S_IWGRP)
    return files


def revoke(root: Path) -> list[Path]:
    """Remove the rule and the service; return the files that only root may write again.

    Raises:
        BoardError: something cannot be written.
    """
    with _told(root):
        for name in (RULE, UNIT):
            (root / name).unlink(missing_ok=True)
        files = _files(root)
        for file in files:
            _own(file, 0, 0)
    return files


def write_atomically(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all; a link in its place is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o644), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _files(root: Path) -> list[Path]:
    gpu = find_gpu(root)
    return [file for name in FILES if gpu and (file := gpu.directory / name).exists()]


def _own(file: Path, gid: int, bits: int) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode) & ~stat.S_IWGRP
        os.fchown(descriptor, -1, gid)
        os.fchmod(descriptor, mode | bits)
    finally:
        os.close(descriptor)


@contextmanager
def _told(root: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise BoardError(
            f"no right to change {error.filename or root}; try it with sudo"
        ) from error
    except OSError as error:
        raise BoardError(f"cannot change {error.filename or root}: {error.strerror}") from error
