"""What the rows of a store stand on: a connection within a transaction, that knows the queries by name.

Each backend has its dialect of the named queries in `sql/<dialect>/queries.sql`; the code that asks them is shared, see
`relational.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Protocol, TypeVar

from .rows import Owner

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

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]], /) -> None:
        """Run a named query that changes rows once for each of `values`."""
        ...


Work = Callable[[Database], T]
