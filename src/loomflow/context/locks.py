"""One run at a time in a session, across tasks, threads and event loops of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from loomflow.errors import SessionError

_inside: ContextVar[tuple[Hold, ...]] = ContextVar("loomflow_inside_runs", default=())


class Hold:
    """A lock that is held, until it is released."""

    def __init__(self, locks: SessionLocks, key: Hashable) -> None:
        self.locks = locks
        self.key = key
        self.is_held = True

    @contextmanager
    def inside(self) -> Generator[None]:
        """Mark what is called in the block, and the tasks that it starts, as part of the run that holds the lock."""
        token = _inside.set((*_inside.get(), self))
        try:
            yield
        finally:
            _inside.reset(token)


class SessionLocks:
    """Locks by key, first come first served. A key that nobody holds takes no memory."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncGenerator[Hold]:
        """Wait for the turn, and hold the lock for the block.

        Raises:
            SessionError: called from inside the run that holds the lock, which would wait for itself.
        """
        if any(hold.is_held and hold.locks is self and hold.key == key for hold in _inside.get()):
            raise SessionError(
                f"a run in session {key!r} would wait for itself: it was started from within that session"
            )
        await self._acquire(key)
        hold = Hold(self, key)
        try:
            yield hold
        finally:
            hold.is_held = False
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
