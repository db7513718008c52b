"""What the rows of a store stand on: a connection within a transaction, and the threads that give one out.

Each backend has its dialect of the named queries in `sql/<dialect>/queries.sql`; the code that asks them is shared, see
`relational.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import EllipsisType
from typing import Any, Protocol, TypeVar

from .rows import Owner, Row

T = TypeVar("T")

Scope = str | EllipsisType | None
"""Whose rows a transaction is for: a user's (None: the anonymous scope), or `...` for everyone's."""


class Rows(Protocol):
    """What a query returned; may be read once."""

    @property
    def rowcount(self) -> int:
        """How many rows the query changed."""
        ...

    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection within a transaction. To be used by one thread, until the transaction ends."""

    @property
    def nobody(self) -> Owner:
        """The key of a user who has nothing here."""
        ...

    def user_key(self, user: str | None) -> str:
        """What stands for a user in the database."""
        ...

    def run(self, query: str, values: Mapping[str, Any] = {}, /) -> Rows:
        """Run a named query of the dialect."""
        ...


Work = Callable[[Database], T]


class Connections(Protocol):
    """The connections of one database, and the threads that use them. Safe to use from any thread and event loop."""

    async def open(self) -> None:
        """Open or create the database and migrate it, once; a failed opening is tried again by the next caller."""
        ...

    async def read(self, scope: Scope, work: Work[T]) -> T:
        """Run `work` in a read transaction, so that all its queries see one state."""
        ...

    async def write(self, scope: Scope, work: Work[T]) -> T:
        """Run `work` in a write transaction: all of it is committed, or none if it raises."""
        ...

    def write_later(self, scope: Scope, work: Work[object]) -> None:
        """Run `work` in a write transaction of its own after what is under way; nobody waits for it."""
        ...

    async def erase_traces(self) -> None:
        """Rewrite the database, so that nothing deleted is left in its files."""
        ...

    async def aclose(self) -> None:
        """Finish the work that was handed over and close every connection."""
        ...


__all__ = ["Connections", "Database", "Owner", "Row", "Rows", "Scope", "Work"]
