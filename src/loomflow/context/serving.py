"""One model for each event loop: connections belong to the loop that opened them, and are closed before it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_ai.models import Model


class ModelPerLoop:
    """Builds a model for each event loop that asks for it, and closes its connections when that loop shuts down.

    The closing stands at the end of an async generator that is started and kept: an event loop finishes those before
    it closes (`loop.shutdown_asyncgens`, which `asyncio.run` calls).
    """

    def __init__(self, build: Callable[[], Model[Any]]) -> None:
        self._build = build
        self._guard = threading.Lock()
        self._serving: dict[asyncio.AbstractEventLoop, _Served] = {}

    async def get(self) -> Model[Any]:
        """The model of the running event loop.

        Raises:
            ModelError: it cannot be built.
        """
        loop = asyncio.get_running_loop()
        with self._guard:
            served = self._serving.get(loop)
            if served is None:
                model = self._build()
                closing = self._serve(loop, model)
                served = self._serving[loop] = _Served(model, closing, asyncio.ensure_future(anext(closing)))
        await asyncio.shield(served.entered)  # a caller that gives up must not stop it for the others
        return served.model

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        served = self._serving.get(asyncio.get_running_loop())
        if served is not None:
            await asyncio.wait([served.entered])
            await served.closing.aclose()

    async def _serve(self, loop: asyncio.AbstractEventLoop, model: Model[Any]) -> AsyncGenerator[None]:
        try:
            async with model:
                yield
        finally:
            with self._guard:
                self._serving.pop(loop, None)


@dataclass(frozen=True, slots=True)
class _Served:
    """A model, the generator that closes it, and the task that entered it."""

    model: Model[Any]
    closing: AsyncGenerator[None]
    entered: asyncio.Future[None]
