"""One run at a time in a session, across tasks, threads and event loops of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from .errors import SessionError

OWN_TASK_WAIT_SECONDS = 5.0
"""How long a task waits for a lock that it holds itself: an abandoned stream is closed, and lets go, within moments."""

_inside: ContextVar[tuple[Hold, ...]] = ContextVar("loomflow_inside_runs", default=())
_blocked_loops: ContextVar[tuple[asyncio.AbstractEventLoop, ...]] = ContextVar("loomflow_blocked_loops", default=())


class Hold:
    """A place in the queue for a lock: first waiting, then holding it, then done."""

    def __init__(self, locks: SessionLocks, key: Hashable) -> None:
        self.locks = locks
        self.key = key
        self.loop = asyncio.get_running_loop()
        self.task: asyncio.Task[Any] | None = asyncio.current_task()
        self.turn: Future[None] = Future()
        self.is_held = False

    @contextmanager
    def inside(self) -> Generator[None]:
        """Mark what is called in the block, and the tasks that it starts, as part of the run that holds the lock."""
        token = _inside.set((*_inside.get(), self))
        try:
            yield
        finally:
            _inside.reset(token)


@contextmanager
def blocking(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Mark what is called in the block as keeping `loop` from running until it is done."""
    token = _blocked_loops.set((*_blocked_loops.get(), loop))
    try:
        yield
    finally:
        _blocked_loops.reset(token)


class SessionLocks:
    """Locks by key, first come first served. A key that nobody holds takes no memory."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queues: dict[Hashable, deque[Hold]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncGenerator[Hold]:
        """Wait for the turn, and hold the lock for the block.

        Raises:
            SessionError: the wait would never end: called from inside the run that holds the lock, or from code that
                keeps the holder's event loop from running.
        """
        hold = Hold(self, key)
        if any(other.is_held and other.locks is self and other.key == key for other in _inside.get()):
            raise self._endless(key)
        await self._acquire(hold)
        try:
            yield hold
        finally:
            self._release(hold)

    async def _acquire(self, hold: Hold) -> None:
        with self._guard:
            queue = self._queues.setdefault(hold.key, deque())
            if any(other.loop in _blocked_loops.get() for other in queue):
                raise self._endless(hold.key)
            is_own = bool(queue) and queue[0].task is hold.task
            hold.is_held = not queue
            queue.append(hold)
        if hold.is_held:
            return
        try:
            async with asyncio.timeout(OWN_TASK_WAIT_SECONDS if is_own else None):
                await asyncio.wrap_future(hold.turn)
        except BaseException as error:
            self._release(hold)
            if isinstance(error, TimeoutError):
                raise self._endless(hold.key) from error
            raise

    def _release(self, hold: Hold) -> None:
        """Leave the queue, and hand the lock on if it was held."""
        with self._guard:
            was_held, hold.is_held = hold.is_held, False
            queue = self._queues.get(hold.key, deque())
            if hold in queue:  # a waiter that was cancelled may have been passed over already
                queue.remove(hold)
            while was_held and queue and not queue[0].turn.set_running_or_notify_cancel():
                queue.popleft()
            if was_held and queue:
                queue[0].is_held = True
                queue[0].turn.set_result(None)
            if not queue:
                self._queues.pop(hold.key, None)

    def _endless(self, key: Hashable) -> SessionError:
        return SessionError(f"a run in session {key!r} would wait for itself: it was started from within that session")
