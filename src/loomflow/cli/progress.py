"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .display import console, one_line


@contextmanager
def progress_bar(what: str, total: int | None) -> Generator[Callable[[int], None]]:
    """Show a bar while it is open. It is given what has been done since it was last told."""
    with _shown() as progress:
        task = progress.add_task(one_line(what), total=total)
        yield lambda amount: progress.update(task, advance=amount)


@contextmanager
def counting_bar(what: str) -> Generator[Callable[[int, int], None]]:
    """Show a bar while it is open. It is given how much has been done, of how much."""
    with _shown() as progress:
        task = progress.add_task(one_line(what), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _shown() -> Progress:
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
