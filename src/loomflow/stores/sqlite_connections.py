"""SQLite connections: one writer, a few readers. An in-memory database has one connection: its reader is its writer."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from loomflow.errors import LoomflowError, SchemaError, StoreError

from .connections import THREAD_NAME, Threads
from .database import Scope, Work
from .queries import migrations, queries

T = TypeVar("T")

SQL: Final = queries("sqlite")
APPLICATION_ID = 0x6C6F6F6D  # "loom"
SQLITE_HEADER = b"SQLite format 3\x00"
BUSY_TIMEOUT_MS = 30_000
READERS = min(4, os.cpu_count() or 1)


class SQLiteDatabase:
    """A connection, with the queries by name."""

    nobody = 0

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def user_key(self, user: str | None) -> str:
        return user or ""

    def run(self, query: str, values: Mapping[str, Any] = {}, /) -> sqlite3.Cursor:
        return self.connection.execute(SQL[query], values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]], /) -> None:
        self.connection.executemany(SQL[query], values)


class SQLiteThreads(Threads):
    """A writer thread, reader threads, and the connection of each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._writer = ThreadPoolExecutor(1, f"{THREAD_NAME}-writer")
        self._readers = self._writer if path is None else ThreadPoolExecutor(READERS, f"{THREAD_NAME}-reader")

    def prepare(self) -> Future[None]:
        return self._writer.submit(self._prepare)

    def submit(self, scope: Scope, work: Work[T], *, writes: bool) -> Future[T]:
        if writes:
            return self._writer.submit(self._transact, "IMMEDIATE", work)
        return self._readers.submit(self._transact, "DEFERRED", work)

    def erase_traces(self) -> Future[None]:
        return self._writer.submit(self._erase_traces)

    def finish(self) -> None:
        for executor in {self._writer, self._readers}:
            executor.shutdown(wait=True)
        while self._connections:
            self._connections.pop().close()

    def _prepare(self) -> None:
        try:
            _refuse_other_files(self._path)
            _migrate(self._connection(), self._path)
        except (sqlite3.Error, OSError) as error:
            raise _explained(error, self._path) from error

    def _erase_traces(self) -> None:
        try:
            for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                self._connection().execute(statement).fetchall()
        except sqlite3.Error as error:
            raise _explained(error, self._path) from error

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self._path)
            self._connections.append(connection)
        return connection

    def _transact(self, mode: str, work: Work[T]) -> T:
        try:
            connection = self._connection()
            connection.execute(f"BEGIN {mode}")
            try:
                result = work(SQLiteDatabase(connection))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result
        except (sqlite3.Error, OSError) as error:
            raise _explained(error, self._path) from error


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None and not path.parent.is_dir():
        raise StoreError(f"cannot open {path}: the folder {path.parent} does not exist; create it first")
    if path is not None and path.is_dir():
        raise StoreError(f"cannot open {path}: it is a folder; name a file in it")
    connection = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
    try:
        _configure(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection, path: Path | None) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    if path is not None:
        connection.execute("BEGIN")
        _version(connection, path, len(migrations("sqlite")))  # before anything is changed in a file of another program
        connection.execute("COMMIT")
        _enter_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")


def _refuse_other_files(path: Path | None) -> None:
    """SQLite takes a short file of any kind for an empty database, and would write over it."""
    if path is not None and path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
                raise SchemaError(f"{path} is not an SQLite database; give the memory a file of its own")


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
    if "readonly" in str(error):
        return StoreError(f"{where} cannot be written; even reading needs write access to it and to its folder")
    return StoreError(f"{where}: {error}")
