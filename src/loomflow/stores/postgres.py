"""The PostgreSQL store: a memory that many processes on many machines share."""

from __future__ import annotations

from functools import partial

from loomflow.ports import Clock

from .base import system_clock
from .connections import Connections, Guard
from .database import Database, Owner
from .postgres_connections import PostgresThreads
from .postgres_location import postgres_location
from .postgres_searching import LargeSearcher
from .relational import RelationalStore


class PostgresStore(RelationalStore):
    """A memory in a PostgreSQL database with pgvector.

    Args:
        url: see `postgres_location`; the schema is created on first use.
        clock: source of the present moment.
        partitions: into how many tables each table is split by the hash of the user, when they are created; None as it
            is.
        guard: encrypts it, see `loomflow.stores.sealing.Sealing`; large users are searched in memory then.

    Raises:
        ConfigError: the URL has the wrong form.
    """

    def __init__(
        self, url: str, clock: Clock = system_clock, *, partitions: int | None = None, guard: Guard | None = None
    ) -> None:
        self._location = postgres_location(url)
        self._being_indexed: set[Owner] = set()
        connections = Connections(partial(PostgresThreads, self._location, partitions), self._location.url, guard)
        super().__init__(connections, clock, LargeSearcher(self._location.exact_up_to, self._index_later))

    @property
    def url(self) -> str:
        return self._location.url

    def _index_later(self, owner: Owner) -> None:
        """Go on filling the tables of a large user, unless that is under way."""
        if owner not in self._being_indexed:
            self._being_indexed.add(owner)
            self._connections.write_later(str(owner), lambda db: self._tend(db, str(owner), owner))

    def _tend(self, db: Database, user: str | None, owner: Owner) -> None:
        is_more = False
        try:
            is_more = self._searcher.tend(db, owner)
        finally:
            self._being_indexed.discard(owner)
        if is_more:
            self._index_later(owner)
