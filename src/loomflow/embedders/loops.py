"""What holds connections, once for each event loop: they belong to the loop that opened them."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Opened: TypeAlias = tuple[T, AbstractAsyncContextManager[Any]]
"""Something, and the context in which its connections are open."""

_open: set[_Served[Any]] = set()
"""What is open now. What is garbage only together with its connections would lose them before it can close them."""


class OnePerLoop(Generic[T]):
    """Builds one for each event loop that asks for it, and closes its connections when that loop shuts down.

    They are closed earlier by `aclose`, or when nobody holds this object any more.
    """

    def __init__(self, build: Callable[[], Opened[T]]) -> None:
        self._build = build
        self._guard = threading.Lock()
        self._serving: dict[asyncio.AbstractEventLoop, _Served[T]] = {}
        weakref.finalize(self, _drop, self._serving).atexit = False

    async def get(self) -> T:
        """That of the running event loop. Raises what building it raises."""
        loop = asyncio.get_running_loop()
        with self._guard:
            for known in [known for known, served in self._serving.items() if served.is_over or known.is_closed()]:
                _open.discard(self._serving.pop(known))
            served = self._serving.get(loop)
            if served is None:
                served = self._serving[loop] = _Served(*self._build())
        await asyncio.shield(served.entered)  # a caller that gives up must not stop it for the others
        return served.one

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        served = self._serving.get(asyncio.get_running_loop())
        if served is not None:
            await served.close()


class _Served(Generic[T]):
    """What was built, in an entered context.

    The closing stands at the end of an async generator that is started and kept: an event loop finishes those before
    it closes (`loop.shutdown_asyncgens`, which `asyncio.run` calls).
    """

    def __init__(self, one: T, context: AbstractAsyncContextManager[Any]) -> None:
        self.one = one
        self.is_over = False
        self._closing = self._serve(context)
        self.entered: asyncio.Future[None] = asyncio.ensure_future(anext(self._closing))
        self._task: asyncio.Task[None] | None = None
        _open.add(self)

    async def close(self) -> None:
        await asyncio.wait([self.entered])
        await self._closing.aclose()

    def close_soon(self) -> None:
        self._task = asyncio.ensure_future(self.close())

    async def _serve(self, context: AbstractAsyncContextManager[Any]) -> AsyncGenerator[None]:
        try:
            async with context:
                yield
        finally:
            self.is_over = True
            _open.discard(self)


def _drop(serving: Mapping[asyncio.AbstractEventLoop, _Served[Any]]) -> None:
    for loop, served in serving.items():
        if loop.is_running() and not served.is_over:
            with suppress(RuntimeError):  # it has closed since
                loop.call_soon_threadsafe(served.close_soon)
