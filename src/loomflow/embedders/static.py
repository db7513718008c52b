"""The embedded default: static word vectors whose weights lie in the `wordllama` package.

A text's vector is the mean of its tokens' vectors. That is weaker than a transformer and far faster, and needs no
network, no key and no GPU. The hybrid search adds the exact words to it.

Only the two data files of the package are read: its own loader tries to fetch the tokenizer from the network.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from loomflow.errors import EmbedderError

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
MAX_CHARS = 8_000
INLINE_CHARS = 20_000
"""Up to so much text is embedded on the spot; more goes to a thread, to keep the event loop free."""

FEW = 16

_loading = threading.Lock()


class StaticEmbedder:
    """Mean of static token vectors, 256 dimensions. Loaded once a process, on first use, in a thread."""

    name = "wordllama:l2_supercat_256"
    noise = 0.35
    """Cosines up to this are common between unrelated English texts."""

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
    if len(texts) <= FEW:  # not as a batch, which starts threads
        encodings = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
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
    return _weights(folder / WEIGHTS), Tokenizer.from_file(str(folder / TOKENIZER))


def _weights(file: Path) -> NDArray[np.float16]:
    """The one table of a safetensors file, mapped: only the rows that are used are read, once for all processes.

    The format: the length of the header in 8 bytes, the header in JSON, the numbers.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        table: dict[str, Any] = json.loads(opened.read(length))["embedding.weight"]
    if table["dtype"] != "F16":
        raise EmbedderError(f"the table in {file} is of {table['dtype']}; install the pinned version of wordllama")
    start = 8 + length + table["data_offsets"][0]
    return np.asarray(np.memmap(file, np.float16, "r", start, tuple(table["shape"])))
