"""SQLite connections and the threads that own them: one writer, a few readers, none of them the event loop.

Connections live as long as the store, because opening one costs more than most queries. Work is handed over as plain
functions of a connection. An in-memory database has a single connection, so its reader is its writer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from loomflow.errors import LoomflowError, SchemaError, StoreError

from .queries import migrations

logger = logging.getLogger("loomflow")

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

APPLICATION_ID = 0x6C6F6F6D  # "loom"
BUSY_TIMEOUT_MS = 30_000
READERS = min(4, os.cpu_count() or 1)


class Connections:
    """The threads and connections of one database. Safe to use from any thread and any event loop."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opening: Future[None] | None = None
        self._local = threading.local()
        self._close: Callable[[], object] | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Open or create the database and migrate it, once; a failed opening is tried again by the next caller."""
        await asyncio.wrap_future(self._opened())

    async def read(self, work: Work[T]) -> T:
        """Run `work` in a read transaction, so that all its queries see one state."""
        await self.open()
        assert self._readers is not None
        return await self._run(self._readers, "DEFERRED", work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a write transaction: all of it is committed, or none if it raises."""
        await self.open()
        assert self._writer is not None
        return await self._run(self._writer, "IMMEDIATE", work)

    async def aclose(self) -> None:
        """Finish the work that was handed over and close every connection."""
        with self._lock:
            close, self._close = self._close, None
            self._opening = None
        if close is not None:
            await asyncio.to_thread(close)

    def _opened(self) -> Future[None]:
        with self._lock:
            failed = self._opening is not None and self._opening.done() and self._opening.exception() is not None
            if self._opening is None or failed:
                if self._close is None:
                    self._start_threads()
                assert self._writer is not None
                self._opening = self._writer.submit(self._prepare)
            return self._opening

    def _start_threads(self) -> None:
        connections: list[sqlite3.Connection] = []
        self._local = threading.local()
        self._writer = ThreadPoolExecutor(1, "loomflow-writer")
        self._readers = self._writer if self.path is None else ThreadPoolExecutor(READERS, "loomflow-reader")
        self._connections = connections
        self._close = weakref.finalize(self, _shut_down, self._writer, self._readers, connections)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self.path)
            self._connections.append(connection)
        return connection

    def _prepare(self) -> None:
        try:
            connection = self._connection()
            _migrate(connection, self.path)
        except (sqlite3.Error, OSError) as error:
            raise _explained(error, self.path) from error

    async def _run(self, executor: ThreadPoolExecutor, mode: str, work: Work[T]) -> T:
        return await asyncio.wrap_future(executor.submit(self._transact, mode, work))

    def _transact(self, mode: str, work: Work[T]) -> T:
        try:
            connection = self._connection()
            connection.execute(f"BEGIN {mode}")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result
        except (sqlite3.Error, OSError) as error:
            raise _explained(error, self.path) from error


def _shut_down(writer: ThreadPoolExecutor, readers: ThreadPoolExecutor, connections: list[sqlite3.Connection]) -> None:
    for executor in {writer, readers}:
        executor.shutdown(wait=True)
    while connections:
        connections.pop().close()


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None and not path.parent.is_dir():
        raise StoreError(f"cannot open {path}: the folder {path.parent} does not exist; create it first")
    connection = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    if path is not None:
        _enter_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. The switch ignores the busy timeout, so it is repeated while others do the same."""
    give_up = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    scripts = migrations("sqlite")
    if _pragma(connection, "application_id") == APPLICATION_ID and _pragma(connection, "user_version") == len(scripts):
        return
    if not connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]:
        raise StoreError("this Python's SQLite has no FTS5 full-text index; use a Python built with it")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection, path, len(scripts)), len(scripts)):
            for statement in _statements(scripts[number]):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(scripts)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: Path | None, newest: int) -> int:
    """The schema version of the file. To be called in a transaction: another process may be creating it."""
    version = _pragma(connection, "user_version")
    if _pragma(connection, "application_id") != APPLICATION_ID:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise SchemaError(f"{path} is an SQLite database of another program; give the memory a file of its own")
        return 0
    if version > newest:
        raise SchemaError(
            f"{path} was written by a newer loomflow (schema {version}, this version knows {newest}); upgrade loomflow"
        )
    return version


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _statements(script: str) -> list[str]:
    statements: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def _explained(error: Exception, path: Path | None) -> LoomflowError:
    where = "the in-memory database" if path is None else str(path)
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return SchemaError(f"{where} is not an SQLite database")
    return StoreError(f"{where}: {error}")
