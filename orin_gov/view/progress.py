"""Progress of what takes longer than a moment: on a terminal only, on stderr, gone when done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Tell = Callable[[str], None]


@contextmanager
def working(what: str) -> Iterator[Tell]:
    """Show that `what` goes on, with how far it is as the given function is told; a pipe is spared.

    A terminal that cannot move its cursor (TERM=dumb) is spared as well.
    """
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda part: None
        return
    with console.status(f"{what} ...") as status:
        yield lambda part: status.update(f"{what}: {part} ...")
