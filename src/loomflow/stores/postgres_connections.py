"""PostgreSQL connections: a pool, and as many threads that use it.

A transaction takes all its settings with it (`SET LOCAL`), and nothing is prepared on the server, so that a pooler that
hands out another connection for each transaction may stand between.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from loomflow.errors import LoomflowError, StoreError

from .connections import THREAD_NAME, Threads
from .database import Rows, Scope, Work
from .postgres_location import PostgresLocation
from .postgres_schema import migrate, search_path, tables
from .postgres_texts import register
from .queries import queries

T = TypeVar("T")
Connection = psycopg.Connection[Any]

SQL: Final = queries("postgres")
READ: Final = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
WRITE: Final = sql.SQL("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
"""Whoever writes holds the user's row first, and must then see what was committed while it waited."""

MAX_KEY_BYTES = 500
PATIENCE_SECONDS: Final = 30.0
"""So long a transaction waits for a connection, and a pool tries to make one."""
ATTEMPT_SECONDS: Final = 2.0
DEADLOCKS: Final = 5
"""So often a write is made again after the server ended it to resolve a deadlock."""


class PostgresDatabase:
    """A connection, with the queries by name."""

    nobody = "\x01"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def user_key(self, user: str | None) -> str:
        """A user's id, or its digest if it is too long for an index."""
        return user_key(user)

    def run(self, query: str, values: Mapping[str, Any] = {}, /) -> Rows:
        return self.connection.cursor(binary=True).execute(SQL[query].encode(), values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]], /) -> None:
        self.connection.cursor().executemany(SQL[query].encode(), values)

    def run_sized(self, query: str, dimensions: int, values: Mapping[str, Any]) -> Rows:
        """Run a named query about vectors of so many dimensions, which stand in it as `$DIMENSIONS`."""
        text = SQL[query].replace("$DIMENSIONS", str(dimensions))
        return self.connection.cursor(binary=True).execute(text.encode(), values)


def user_key(user: str | None) -> str:
    """A user's id, or its digest if it is too long for an index; '' for the anonymous scope."""
    encoded = (user or "").encode()
    return user or "" if len(encoded) <= MAX_KEY_BYTES else f"\x01{hashlib.sha256(encoded).hexdigest()}"


class PostgresThreads(Threads):
    """A pool of connections, and a thread for each.

    Args:
        location: of the database.
        partitions: see `postgres_schema.migrate`.
    """

    def __init__(self, location: PostgresLocation, partitions: int | None = None) -> None:
        self._location = location
        self._partitions = partitions
        self._search_path = ""
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            location.conninfo, min_size=0, max_size=location.pool_size, open=False, configure=_configure,
            kwargs={"autocommit": True, "prepare_threshold": None}, reconnect_timeout=ATTEMPT_SECONDS, name="loomflow",
        )  # fmt: skip
        self._workers = ThreadPoolExecutor(location.pool_size, f"{THREAD_NAME}-postgres")

    def prepare(self) -> Future[None]:
        return self._workers.submit(self._prepare)

    def submit(self, scope: Scope, work: Work[T], *, writes: bool) -> Future[T]:
        return self._workers.submit(self._transact, scope, work, writes=writes)

    def erase_traces(self) -> Future[None]:
        return self._workers.submit(self._erase_traces)

    def finish(self) -> None:
        self._workers.shutdown(wait=True)
        self._pool.close()

    def _prepare(self) -> None:
        with self._explaining(), psycopg.connect(self._location.conninfo, autocommit=True) as connection:
            migrate(connection, self._location.schema, self._partitions)
            self._search_path = search_path(connection, self._location.schema)
        self._pool.open()

    def _transact(self, scope: Scope, work: Work[T], *, writes: bool) -> T:
        for attempt in range(DEADLOCKS + 1):
            with self._explaining(), self._begun(scope, WRITE if writes else READ) as connection:
                try:
                    result = work(PostgresDatabase(connection))
                except psycopg.errors.DeadlockDetected:
                    if attempt == DEADLOCKS:
                        raise
                    continue
                connection.execute("COMMIT")
                return result
        raise AssertionError

    @contextmanager
    def _begun(self, scope: Scope, begin: sql.SQL) -> Generator[Connection]:
        """A connection in a transaction, which is rolled back unless it is committed."""
        connection = self._connected(self._beginning(scope, begin))
        try:
            yield connection
        finally:
            if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                _roll_back(connection)
            self._pool.putconn(connection)

    def _connected(self, beginning: sql.Composed) -> Connection:
        """A connection on which a transaction was begun. Those that turn out to be broken are given up.

        Nothing was done yet on a connection on which beginning fails, so that another may be taken.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                connection = self._pool.getconn(timeout=ATTEMPT_SECONDS)
            except PoolTimeout:
                if time.monotonic() > deadline:
                    with psycopg.connect(self._location.conninfo):  # says why, if it fails too
                        busy = f"all {self._location.pool_size} connections are busy; raise pool_size in its URL"
                        raise StoreError(f"{self._location.url}: {busy}") from None
                continue
            try:
                connection.execute(beginning)
            except psycopg.OperationalError:
                self._pool.putconn(connection)
                if time.monotonic() > deadline:
                    raise
            except BaseException:
                self._pool.putconn(connection)
                raise
            else:
                return connection

    def _beginning(self, scope: Scope, begin: sql.SQL) -> sql.Composed:
        """The statements that begin a transaction: where its tables are, and whose rows it may see."""
        settings = {"search_path": self._search_path}
        settings |= {"loomflow.everyone": "on"} if scope is ... else {"loomflow.user_id": user_key(scope)}
        pair = sql.SQL("set_config({}, {}, true)")
        pairs = [pair.format(sql.Literal(name), sql.Literal(value)) for name, value in settings.items()]
        return sql.SQL("{}; SELECT {}").format(begin, sql.SQL(", ").join(pairs))

    def _erase_traces(self) -> None:
        with self._explaining(), psycopg.connect(self._location.conninfo, autocommit=True) as connection:
            for table in tables(connection, self._location.schema):
                connection.execute(sql.SQL("VACUUM (FULL) {}").format(table))

    @contextmanager
    def _explaining(self) -> Generator[None]:
        """Errors of the database as those of the library, naming the database without its password."""
        try:
            yield
        except (psycopg.Error, PoolTimeout, OSError) as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> LoomflowError:
        return StoreError(f"{self._location.url}: {' '.join(str(error).split())}")


def _configure(connection: Connection) -> None:
    register(connection.adapters)


def _roll_back(connection: Connection) -> None:
    """End a transaction; a connection on which that fails is not used again."""
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
