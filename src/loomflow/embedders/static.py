"""The embedded default: static word vectors whose weights lie in the `wordllama` package.

A text's vector is the mean of its tokens' vectors. That is weaker than a transformer and far faster, and needs no
network, no key and no GPU. The hybrid search adds the exact words to it.

Only the two data files of the package are read: its own loader tries to fetch the tokenizer from the network.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from loomflow.errors import EmbedderError

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
MAX_CHARS = 8_000
INLINE_CHARS = 20_000
"""Up to so much text is embedded on the spot; more goes to a thread, to keep the event loop free."""

_loading = threading.Lock()


class StaticEmbedder:
    """Mean of static token vectors, 256 dimensions. Loaded once a process, on first use, in a thread."""

    name = "wordllama:l2_supercat_256"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Embed texts, each cut to `MAX_CHARS`; shape [n, 256]. A text without known tokens is a zero row.

        Raises:
            EmbedderError: the package or its files are missing.
        """
        short = [text[:MAX_CHARS] for text in texts]
        if _model.cache_info().currsize and sum(map(len, short)) <= INLINE_CHARS:
            return _embed(short)
        return await asyncio.to_thread(_embed, short)


def _embed(texts: Sequence[str]) -> NDArray[np.float32]:
    with _loading:
        weights, tokenizer = _model()
    rows = np.zeros((len(texts), weights.shape[1]), dtype=np.float32)
    if len(texts) == 1:  # not as a batch of one, which starts threads
        encodings = [tokenizer.encode(texts[0], add_special_tokens=False)]
    else:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    for row, encoding in zip(rows, encodings, strict=True):
        if encoding.ids:
            row[:] = weights[encoding.ids].mean(axis=0, dtype=np.float32)
    return rows


@cache
def _model() -> tuple[NDArray[np.float16], Tokenizer]:
    package = importlib.util.find_spec("wordllama")
    if package is None or not package.submodule_search_locations:
        raise EmbedderError("the default embedder needs the package wordllama: pip install wordllama")
    folder = Path(package.submodule_search_locations[0])
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise EmbedderError(f"the package wordllama has no file {name}; install the pinned version of it")
    weights = cast("NDArray[np.float16]", load_file(folder / WEIGHTS)["embedding.weight"])
    return weights, Tokenizer.from_file(str(folder / TOKENIZER))
