"""One run at a time in a session, across tasks, threads and event loops of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import ContextVar

from loomflow.errors import SessionError

_held: ContextVar[frozenset[Hashable]] = ContextVar("loomflow_held_sessions", default=frozenset())


class SessionLocks:
    """Locks by key, first come first served. A key that nobody holds takes no memory."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncGenerator[None]:
        """Wait for the turn, and hold the lock for the block.

        Raises:
            SessionError: this task holds the lock already and would wait for itself.
        """
        if key in _held.get():
            raise SessionError(
                f"a run in session {key!r} would wait for itself: it was started from within that session"
            )
        await self._acquire(key)
        token = _held.set(_held.get() | {key})
        try:
            yield
        finally:
            _held.reset(token)
            self._release(key)

    async def _acquire(self, key: Hashable) -> None:
        with self._guard:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque()
                return
            turn: Future[None] = Future()
            queue.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            if not turn.cancel() and turn.done() and not turn.cancelled():  # it was handed the lock meanwhile
                self._release(key)
            raise

    def _release(self, key: Hashable) -> None:
        with self._guard:
            queue = self._waiting[key]
            while queue:
                turn = queue.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            del self._waiting[key]
