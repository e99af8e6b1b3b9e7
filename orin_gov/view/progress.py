"""Progress of what takes longer than a moment: on a terminal only, on stderr, gone when done."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner with `what` is being done; in a pipe, or without a terminal, show nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield
