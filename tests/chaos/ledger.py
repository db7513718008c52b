"""How much is tried, and the account of it: what was done to the memory, how often, and what came of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from rich import box
from rich.console import Console
from rich.table import Table

HEADS = ("Fault", "Tried", "Survived", "Worst", "What was measured")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much each test tries.

    Attributes:
        kills: of writers, on each store.
        seconds: of load, on each store.
        runs, sessions: of an agent that must not grow.
        pages: of a file that are overwritten, one at a time.
        away: seconds for which the PostgreSQL server is gone.
    """

    name: str
    kills: int
    seconds: float
    runs: int
    sessions: int
    pages: int
    away: float


SCALES = {
    "short": Scale("short", kills=15, seconds=2, runs=400, sessions=40, pages=12, away=1),
    "long": Scale("long", kills=200, seconds=60, runs=5_000, sessions=500, pages=120, away=8),
}


def scale() -> Scale:
    """The scale that LOOMFLOW_CHAOS names: "short" unless it is set.

    Raises:
        ValueError: it names another.
    """
    name = os.environ.get("LOOMFLOW_CHAOS") or "short"
    if name not in SCALES:
        raise ValueError(f"LOOMFLOW_CHAOS must be one of {', '.join(SCALES)}, got {name!r}")
    return SCALES[name]


@dataclass(slots=True)
class Entry:
    """A line of the ledger.

    Attributes:
        fault: what was done.
        tried, survived: how often, and after how many of them all was well.
        worst: the largest of what was measured, as it is to be shown.
        measured: what that is.
    """

    fault: str
    measured: str
    tried: int = 0
    survived: int = 0
    worst: str = ""
    _largest: float = field(default=-1.0)

    def count(self, value: float, unit: str = "ms") -> None:
        """Note one that survived, and what was measured."""
        self.survived += 1
        if value > self._largest:
            self._largest = value
            self.worst = f"{value:,.0f} {unit}" if value >= 10 or unit != "ms" else f"{value:.1f} {unit}"

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Something that is tried; it survived, and is timed, if nothing is raised."""
        self.tried += 1
        start = perf_counter()
        yield
        self.count((perf_counter() - start) * 1000)


@dataclass(slots=True)
class Ledger:
    """What was tried in one run of the tests."""

    entries: list[Entry] = field(default_factory=list[Entry])

    def entry(self, fault: str, measured: str) -> Entry:
        """A new line."""
        self.entries.append(Entry(fault, measured))
        return self.entries[-1]

    def rows(self) -> list[tuple[str, ...]]:
        return [(one.fault, f"{one.tried:,}", f"{one.survived:,}", one.worst, one.measured) for one in self.entries]

    def print(self, console: Console) -> None:
        """Print it as a table."""
        table = Table(title="Reliability", box=box.SIMPLE_HEAD)
        for head in HEADS:
            table.add_column(head, justify="right" if head in HEADS[1:4] else "left", overflow="fold")
        for row in self.rows():
            table.add_row(*row)
        console.print(table)

    def write(self, path: Path) -> None:
        """Write it as a page of Markdown, with what it ran on."""
        lines = [_line(HEADS), _line(["---", "---:", "---:", "---:", "---"]), *map(_line, self.rows())]
        machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
        head = f"# Reliability\n\nWritten by `make chaos`; see `docs/chaos.md`. Machine: {machine}.\n\n"
        path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def kind_of(url: str) -> str:
    """The store that a memory URL names, as the ledger calls it."""
    return "PostgreSQL" if url.startswith("postgres") else "SQLite"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
