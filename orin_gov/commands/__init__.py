"""The command line: one module a command; this is their list."""

import argparse
import importlib
import keyword
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "run": "run a training script, governed",
    "top": "watch a run from another terminal",
    "doctor": "say what was found of a board, what is missing, and what mends it",
    "restore": "put a board back that a killed run left changed",
    "report": "make one HTML page of runs, with figures",
    "export": "write runs as tidy tables: parquet, csv or json",
    "setup": "let a group set the GPU's clock, so that no root is needed",
    "explain": "show a policy's tree, or each decision of a run with its path",
    "replay": "say what another policy or budget would have saved, over a run",
    "fit": "fit a policy on characterizations, or on the virtual board",
    "characterize": "measure a workload at every operating point, and draw the curves",
    "import": "turn a log of tegrastats into a run directory",
    "completion": "print what makes a shell complete these commands",
}
"""Each command by name; orin_gov.commands.NAME has add_arguments(parser) and run(arguments).

A name that is a word of Python has a module with an underscore after it.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    top = _top_parser()
    arguments = top.parse_args(words[:1])
    name = arguments.command + ("_" if keyword.iskeyword(arguments.command) else "")
    module = importlib.import_module(f"orin_gov.commands.{name}")
    parser = argparse.ArgumentParser(
        prog=f"orin-gov {arguments.command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    # Imported here: --help must not pay for what only a running command needs.
    from orin_gov.errors import OrinGovError

    try:
        code = int(module.run(parser.parse_args(words[1:])))
        sys.stdout.flush()
        return code
    except OrinGovError as error:
        from orin_gov.view.lines import print_error

        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from signal import SIGPIPE

        # Who reads it, `head` for one, has enough; what is still in the buffer must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + SIGPIPE


def _formatter(prog: str) -> argparse.HelpFormatter:
    # With a width, argparse need not import shutil to ask for the terminal's: a fifth of the time.
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def _top_parser() -> argparse.ArgumentParser:
    from orin_gov import __version__

    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="orin-gov",
        description="Lower the energy of fine-tuning on NVIDIA Jetson Orin.",
        epilog=f"commands:\n{listing}\n\n`orin-gov COMMAND --help` tells more.",
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"orin-gov {__version__}")
    parser.add_argument(
        "command", choices=COMMANDS, metavar="COMMAND", help="what to do, see below"
    )
    return parser
