"""Connections and the threads that own them: none of them is the event loop, and all of them live as long as the store.

Opening a connection costs more than most queries. Work is handed over as plain functions of a connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from loomflow.errors import StoreError

from .database import Database, Scope, Work

logger = logging.getLogger("loomflow")

T = TypeVar("T")
THREAD_NAME = "loomflow"


class Guard(Protocol):
    """Decides whether a database that was opened may be used, and how its texts are written."""

    def admit(self, db: Database, where: str) -> None:
        """Look at a database before anything else, in a write transaction; raises if it may not be used."""
        ...

    def wrap(self, db: Database) -> Database:
        """The connection as work is given it."""
        ...


class Threads(ABC):
    """Threads with a connection each. Their names begin with `THREAD_NAME`. They end with `close`."""

    @abstractmethod
    def prepare(self) -> Future[None]:
        """Create the database or bring it up to date."""

    @abstractmethod
    def submit(self, scope: Scope, work: Work[T], *, writes: bool) -> Future[T]:
        """Hand over a function of a connection, to be run in a transaction."""

    @abstractmethod
    def erase_traces(self) -> Future[None]:
        """Rewrite the database, so that nothing deleted is left in its files."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for what was submitted, then close every connection."""

    def close(self) -> None:
        """Finish; in a thread of its own where the last reference died in one of these, since nobody waits for it."""
        if threading.current_thread().name.startswith(THREAD_NAME):
            threading.Thread(target=self.finish, name="closing a memory").start()
        else:
            self.finish()


class Connections:
    """The connections of one database, opened on first use. Safe to use from any thread and any event loop.

    Args:
        make_threads: starts the threads that own the connections.
        where: what the database is called in errors.
        guard: of a database that is encrypted; None refuses one that is.
    """

    def __init__(self, make_threads: Callable[[], Threads], where: str, guard: Guard | None = None) -> None:
        self._make_threads = make_threads
        self._where = where
        self._guard = guard
        self._lock = threading.Lock()
        self._threads: Threads | None = None
        self._close: Callable[[], object] | None = None
        self._opening: Future[None] | None = None

    async def open(self) -> None:
        """Open or create the database and migrate it, once; a failed opening is tried again by the next caller."""
        await self._open_threads()

    async def read(self, scope: Scope, work: Work[T]) -> T:
        """Run `work` in a read transaction, so that all its queries see one state."""
        return await self._run(scope, work, writes=False)

    async def write(self, scope: Scope, work: Work[T]) -> T:
        """Run `work` in a write transaction: all of it is committed, or none if it raises."""
        return await self._run(scope, work, writes=True)

    def write_later(self, scope: Scope, work: Work[object]) -> None:
        """Run `work` in a write transaction of its own after what is under way; nobody waits for it."""
        with self._lock:
            done = None if self._threads is None else self._threads.submit(scope, self._guarded(work), writes=True)
        if done is not None:
            done.add_done_callback(_log_failure)

    async def erase_traces(self) -> None:
        """Rewrite the database, so that nothing deleted is left in its files."""
        await self._submitted(lambda threads: threads.erase_traces())

    async def aclose(self) -> None:
        """Finish the work that was handed over and close every connection."""
        with self._lock:
            close, self._close = self._close, None
            self._threads = self._opening = None
        if close is not None:
            await asyncio.to_thread(close)

    async def _run(self, scope: Scope, work: Work[T], *, writes: bool) -> T:
        return await self._submitted(lambda threads: threads.submit(scope, self._guarded(work), writes=writes))

    def _guarded(self, work: Work[T]) -> Work[T]:
        guard = self._guard
        return work if guard is None else lambda db: work(guard.wrap(db))

    async def _submitted(self, submit: Callable[[Threads], Future[T]]) -> T:
        while True:
            threads = await self._open_threads()
            with self._lock:
                if threads is self._threads:  # else it was closed meanwhile, and opens again
                    done = submit(threads)
                    break
        return await asyncio.wrap_future(done)

    async def _open_threads(self) -> Threads:
        with self._lock:
            threads, opening = self._opened()
        await asyncio.shield(asyncio.wrap_future(opening))  # a caller that gives up must not cancel it for the others
        return threads

    def _opened(self) -> tuple[Threads, Future[None]]:
        """The threads at work, started if need be, and the opening that everything waits for."""
        if self._threads is None:
            self._threads = self._make_threads()
            self._close = weakref.finalize(self, self._threads.close)
            self._opening = None
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = self._prepared(self._threads)
        return self._threads, self._opening

    def _prepared(self, threads: Threads) -> Future[None]:
        """The opening: the database is brought up to date, then looked at before anything is written."""
        opening: Future[None] = Future()
        guard, where = self._guard, self._where

        def pass_on(done: Future[None], then: Callable[[], object]) -> None:
            try:
                done.result()
                then()
            except BaseException as error:
                opening.set_exception(error)

        def admit(db: Database) -> None:
            if guard is not None:
                guard.admit(db, where)
            elif db.run("is_encrypted").fetchone()[0]:
                raise StoreError(f"{where} is encrypted; give its encryption_key")

        def look(_: object = None) -> None:
            looked = threads.submit(..., admit, writes=guard is not None)
            looked.add_done_callback(lambda done: pass_on(done, lambda: opening.set_result(None)))

        threads.prepare().add_done_callback(lambda done: pass_on(done, look))
        return opening


def _log_failure(done: Future[object]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("maintenance failed, and is tried again after later writes: %s", error)
