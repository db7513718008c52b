"""An embedder from any function that turns texts into vectors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loomflow.ports import NOISE

from .loading import check_noise

MAX_CHARS = 8_000
"""Longer texts are cut before they are embedded: hosted models refuse what is over their limit."""


class FunctionEmbedder:
    """Calls `function(texts)`, sync or async; sync functions run in a thread.

    Args:
        function: from a list of n texts to n vectors of one length.
        name: identifies the vector space; the function's own name by default.
        noise: the cosine that unrelated texts reach with it, as far as it is known.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, *, noise: float = NOISE) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self.noise = check_noise(noise)
        self.name = name or f"function:{getattr(function, '__qualname__', type(function).__qualname__)}"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Embed texts, each cut to `MAX_CHARS`; shape [n, d]."""
        short = [text[:MAX_CHARS] for text in texts]
        if self._is_async:
            result = await self._function(short)
        else:
            result = await asyncio.to_thread(self._function, short)
            if inspect.isawaitable(result):
                result = await result
        return np.asarray(result, dtype=np.float32)
