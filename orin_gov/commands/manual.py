"""The manual of the command line, made from the parsers: `python -m orin_gov.commands.manual`.

It is what docs/cli.md holds. Written by hand rather than by argparse, whose layout changes with
Python's version.
"""

import argparse
import importlib
import keyword
import sys
from collections.abc import Iterator

from orin_gov.commands import COMMANDS

HEAD = """# The command line

Made from the parsers by `python -m orin_gov.commands.manual > docs/cli.md`.

```
orin-gov COMMAND [options]
```

`orin-gov` and `python -m orin_gov` are the same. Facts go to stdout, as JSON where a command has
`--json`; progress, warnings and errors go to stderr. The exit code is 0 where all is well, 2 for wrong
usage, 125 where orin-gov itself failed; `run` ends with the script's own, `doctor` with 1 where
something is missing.

| command | |
|---|---|
"""


def whole_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return one parser with every command in it, and the commands' own by name."""
    parser = argparse.ArgumentParser(prog="orin-gov", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    group = parser.add_subparsers(dest="command")
    commands = {}
    for name, summary in COMMANDS.items():
        module = importlib.import_module(
            f"orin_gov.commands.{name}{'_' if keyword.iskeyword(name) else ''}"
        )
        command = group.add_parser(name, help=summary, description=module.__doc__)
        module.add_arguments(command)
        commands[name] = command
    return parser, commands


def manual() -> str:
    """Return the manual as Markdown."""
    _, commands = whole_parser()
    listing = "".join(
        f"| [`{name}`](#orin-gov-{name}) | {summary} |\n" for name, summary in COMMANDS.items()
    )
    chapters = (
        chapter for name, command in commands.items() for chapter in _chapter(name, command)
    )
    return HEAD + listing + "".join(chapters)


def _chapter(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"\n## orin-gov {name}\n\n"
    yield f"```\n{_usage(name, command)}\n```\n\n"
    for paragraph in (command.description or "").strip().split("\n\n"):
        code = paragraph.startswith("  ")
        yield f"```\n{paragraph}\n```\n\n" if code else f"{paragraph}\n\n"
    rows = [
        (_flags(action), action.help.replace("%%", "%"))
        for action in command._actions
        if action.help and action.help != argparse.SUPPRESS and action.dest != "help"
    ]
    if rows:
        yield "| option | |\n|---|---|\n"
    for flags, told in rows:
        yield f"| {_cell(flags)} | {_cell(told)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _usage(name: str, command: argparse.ArgumentParser) -> str:
    if command.usage:
        return command.usage.replace("%%", "%")
    words = [
        f"[{action.metavar}]" if action.nargs == "?" else _repeated(action)
        for action in command._actions
        if not action.option_strings and action.help != argparse.SUPPRESS
    ]
    return " ".join([f"orin-gov {name} [options]", *words])


def _repeated(action: argparse.Action) -> str:
    word = str(action.metavar or action.dest.upper())
    return f"{word} [{word} ...]" if action.nargs == "+" else word


def _flags(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    if not action.option_strings:
        return f"`{value.strip()}`"
    return ", ".join(f"`{flag}{value}`" for flag in action.option_strings)


if __name__ == "__main__":
    sys.stdout.write(manual())
