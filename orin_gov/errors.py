"""The errors of orin_gov: each message says what was found, what was expected and what to do."""


class OrinGovError(Exception):
    """Base of every error raised on purpose; `exit_code` is what a command then ends with."""

    exit_code = 125  # the tool itself failed, as with timeout(1) and env(1)


class UsageError(OrinGovError):
    """The command line or an argument is wrong."""

    exit_code = 2


class TargetNotFoundError(OrinGovError):
    """The script or command to run does not exist."""

    exit_code = 127


class TargetNotRunnableError(OrinGovError):
    """The script or command to run exists but cannot be run."""

    exit_code = 126


class TargetSyntaxError(OrinGovError):
    """The script is not Python; plain `python` would end with the same code."""

    exit_code = 1


class BoardError(OrinGovError):
    """The board, or a part of it that is needed, was not found or cannot be used."""


class PolicyError(OrinGovError):
    """A policy file is malformed, of another version, or does not fit."""


class RunDirectoryError(OrinGovError):
    """A run directory exists already, or cannot be read."""
