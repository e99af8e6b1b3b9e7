"""Print the script that makes a shell complete `orin-gov` and its options.

  bash   orin-gov completion bash > ~/.local/share/bash-completion/completions/orin-gov
  zsh    orin-gov completion zsh > ~/.zfunc/_orin-gov       (with ~/.zfunc in $fpath)
  tcsh   orin-gov completion tcsh > ~/.orin-gov.tcsh        (and source it in ~/.tcshrc)

Needs shtab (pip install 'orin-gov[completion]').
"""

import argparse
from pathlib import Path

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `orin-gov completion`."""
    parser.add_argument("shell", metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from orin_gov.commands.manual import whole_parser
    from orin_gov.errors import OrinGovError, UsageError

    if arguments.shell not in SHELLS:
        raise UsageError(f"the shell is {arguments.shell!r}, expected {', '.join(SHELLS)}")
    try:
        import shtab
    except ImportError as error:
        raise OrinGovError("completion needs shtab: pip install 'orin-gov[completion]'") from error
    parser, commands = whole_parser()
    for command in commands.values():
        for action in command._actions:
            if action.type is Path or action.nargs == argparse.REMAINDER:
                folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0
