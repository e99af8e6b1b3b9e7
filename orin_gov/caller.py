"""Whose run this is under sudo: the script, and all that is read or written for it, is the caller's.

Root is for the board alone. A file of the run that root wrote would follow whatever link the script
has put in its place.
"""

import ctypes
import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

OF_THE_USER = ("HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "USER", "USERNAME")
"""What sudo sets to root's. All else that it gives is the caller's, or was given on its line."""


@dataclass(frozen=True)
class Caller:
    """A user by number, with all groups, and the environment that was the user's before sudo."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    env: Mapping[str, str]


def find_caller() -> Caller | None:
    """Return who called us through sudo, or None where we are nobody else than we seem."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdecimal() or not gid.isdecimal() or int(uid) == 0:
        return None
    try:
        entry = pwd.getpwuid(int(uid))
    except KeyError:
        return Caller(int(uid), int(gid), (int(gid),), _environment({}))
    own = {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name, "USER": entry.pw_name}
    groups = os.getgrouplist(entry.pw_name, int(gid))
    return Caller(int(uid), int(gid), tuple(groups), _environment({**own, "SHELL": entry.pw_shell}))


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return what sudo was called with, and what it gives beyond that, but for its own traces."""
    before = _before_sudo()
    given = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_THE_USER and not name.startswith("SUDO_")
    }
    path = {"PATH": os.environ["PATH"]} if "PATH" in os.environ else {}
    return {**path, **own, **before, **given}


def _before_sudo() -> dict[str, str]:
    """Return the environment that sudo itself was started in, empty where it cannot be seen."""
    for process in psutil.Process().parents():
        try:
            if process.name() == "sudo":
                return {name: value for name, value in process.environ().items() if name}
        except psutil.Error:
            return {}
    return {}


@contextmanager
def as_caller(caller: Caller | None) -> Iterator[None]:
    """Have this thread open files with the rights of the caller, in the block.

    Nothing changes where there is no caller. Thread-safe: other threads keep their rights.

    Raises:
        PermissionError: the kernel does not let us be the caller.
    """
    if caller is None:
        yield
        return
    if set(os.getgroups()) != set(caller.groups):
        os.setgroups(caller.groups)  # for good: root's own groups give root nothing
    was = _set_file_ids(caller.uid, caller.gid)
    try:
        yield
    finally:
        _set_file_ids(*was)


def _set_file_ids(uid: int, gid: int) -> tuple[int, int]:
    """Set the ids this thread opens files with; return what they were.

    A thread's own, unlike the effective ids, which are the process's; see setfsuid(2).
    """
    libc = ctypes.CDLL(None)
    was = libc.setfsuid(-1), libc.setfsgid(-1)
    libc.setfsgid(gid)
    libc.setfsuid(uid)
    if (libc.setfsuid(-1), libc.setfsgid(-1)) != (uid, gid):
        raise PermissionError(f"files cannot be opened as user {uid}, group {gid}")
    return was
