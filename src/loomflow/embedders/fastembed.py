"""Models of the fastembed package, which fetches them from their hub on first use and runs them on this machine."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from loomflow.checks import check_limit, check_text
from loomflow.ports import NOISE

from .loading import Loading, check_noise, need_package

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
BATCH_TEXTS = 8
MAX_CHARS = 8_000
"""Longer texts are cut before they are embedded."""


class FastEmbedEmbedder:
    """A model that fastembed knows; `fastembed.TextEmbedding.list_supported_models()` lists them.

    It is fetched and loaded on first use, in a thread. Without a network it has to be in fastembed's cache already, or
    in a folder that is named with `specific_model_path=`.

    Args:
        model: its name.
        threads: how many share the work on one text.
        noise: the cosine that unrelated texts reach with this model, as far as it is known.
        options: more arguments for `fastembed.TextEmbedding`, such as `cache_dir` and `local_files_only`.

    Raises:
        EmbedderError: fastembed is not installed.
    """

    def __init__(self, model: str = DEFAULT_MODEL, *, threads: int = 1, noise: float = NOISE, **options: Any) -> None:
        need_package("fastembed", "fastembed", "FastEmbedEmbedder")
        self._model = check_text("model", model, blank=False)
        self._options = {"threads": check_limit("threads", threads), **options}
        self._loading = Loading(self._load, f"the fastembed model {model}")
        self.name = f"fastembed:{model}"
        self.noise = check_noise(noise)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Embed texts, each cut to `MAX_CHARS`; shape [n, d].

        Raises:
            EmbedderError: the model is unknown or cannot be fetched. The failure stands for a minute.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        model = await self._loading.get()
        return await asyncio.to_thread(_embed, model, [text[:MAX_CHARS] for text in texts], query)

    def _load(self) -> Any:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # see `loomflow.embedders.onnx`
        fastembed: Any = importlib.import_module("fastembed")  # of an extra
        return fastembed.TextEmbedding(self._model, **self._options)


def _embed(model: Any, texts: Sequence[str], query: bool) -> NDArray[np.float32]:
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # batches of similar length
    embed = model.query_embed if query else model.passage_embed
    vectors = cast("list[NDArray[np.float32]]", list(embed([texts[place] for place in order], batch_size=BATCH_TEXTS)))
    rows = np.zeros((len(texts), len(vectors[0])), dtype=np.float32)
    rows[order] = vectors
    return rows
