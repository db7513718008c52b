"""The PostgreSQL store: a memory that many processes on many machines share."""

from __future__ import annotations

from functools import partial

from loomflow.ports import Clock

from .base import system_clock
from .connections import Connections
from .postgres_connections import PostgresThreads
from .postgres_location import postgres_location
from .relational import RelationalStore


class PostgresStore(RelationalStore):
    """A memory in a PostgreSQL database with pgvector.

    Args:
        url: see `postgres_location`; the schema is created on first use.
        clock: source of the present moment.
        partitions: into how many tables each table is split by the hash of the user, when they are created; None as it
            is.

    Raises:
        ConfigError: the URL has the wrong form.
    """

    def __init__(self, url: str, clock: Clock = system_clock, *, partitions: int | None = None) -> None:
        self._location = postgres_location(url)
        super().__init__(Connections(partial(PostgresThreads, self._location, partitions)), clock)

    @property
    def url(self) -> str:
        return self._location.url
