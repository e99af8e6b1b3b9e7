"""Let a group set the GPU's clock, so that no root is needed: a udev rule, and nothing that runs.

  sudo orin-gov setup --group video
  sudo orin-gov setup --remove

Members of the group may write the three files governor, min_freq and max_freq of the GPU's devfreq
node, and nothing else. The rule holds from now on and after every boot.

  sudo orin-gov setup --service USER

adds a service that runs a script as that user, governed:

  sudo systemctl start orin-gov@$(systemd-escape --path /home/USER/train.py)
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `orin-gov setup`."""
    parser.add_argument("--group", metavar="NAME", help="who may set the GPU's clock")
    parser.add_argument(
        "--service", metavar="USER", help="install orin-gov@.service, which runs a script as USER"
    )
    parser.add_argument("--remove", action="store_true", help="take back all that setup installs")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the board's file system starts (default /)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Install or remove."""
    from orin_gov.errors import UsageError
    from orin_gov.rights import RULE, UNIT, grant, install_service, revoke

    wanted = bool(arguments.group or arguments.service)
    if wanted == arguments.remove:
        raise UsageError("name a --group, or a user for a --service, or --remove")
    if arguments.remove:
        files = revoke(arguments.root)
        print(f"removed: /{RULE} and /{UNIT}; only root may write {_names(files)}")
    if arguments.group:
        files = grant(arguments.root, arguments.group, _gid(arguments.group))
        print(f"installed: /{RULE}; group {arguments.group} may write {_names(files)}")
        print(f"next: sudo usermod -aG {arguments.group} USER, then log in anew")
    if arguments.service:
        install_service(arguments.root, arguments.service)
        print(f"installed: /{UNIT}; then: sudo systemctl daemon-reload")
    return 0


def _gid(group: str) -> int:
    import grp

    from orin_gov.errors import UsageError

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(
            f"there is no group {group!r}; make it with: sudo groupadd --system {group}"
        ) from None


def _names(files: list[Path]) -> str:
    return " ".join(map(str, files)) or "the GPU's files, once it appears"
