"""Embedding what is stored, so that a failing or hanging embedder loses nothing."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import EmbedderError
from .index.parts import texts_of
from .items import Episode, Fact
from .ports import Embedder
from .records import NOT_EMBEDDED, Embedded

logger = logging.getLogger("loomflow")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

TIMEOUT_SECONDS = 30.0
BATCH = 256
MAX_PASSAGES = 256
"""So many passages of one item are embedded; those after them are found by keyword."""

GIVE_UP_AFTER = 8

FAILED = "embedder %s failed; the text is stored and found by keyword: %r"


def has_direction(embedded: Embedded) -> bool:
    """Whether there is a vector that can be compared: finite and not zero."""
    return importlib.import_module("loomflow.index.vectors").is_usable(embedded.vector)


def _numpy() -> Any:
    """NumPy, loaded with the first vector: a program that only makes an agent starts without it."""
    return importlib.import_module("numpy")


def check_vectors(embedder: Embedder, vectors: Any, count: int) -> None:
    """See that an embedder returned `count` rows of numbers.

    Raises:
        EmbedderError: it did not; says what it returned.
    """
    try:
        is_table = len(vectors) == count and all(len([float(number) for number in row[:1]]) == 1 for row in vectors)
    except (TypeError, ValueError, IndexError, KeyError):
        is_table = False
    if not is_table:
        shape = getattr(vectors, "shape", None) or type(vectors).__name__
        raise EmbedderError(
            f"embedder {embedder.name} must return {count} rows of numbers for {count} texts, got {shape}"
        )


async def embed_items(
    embedder: Embedder | None, items: Sequence[Episode | Fact], *, timeout: float = TIMEOUT_SECONDS
) -> list[Embedded]:
    """Embed the passages of items; an item that cannot be embedded comes back without vectors.

    It is found by keyword then, until `Memory.reembed` has made up for it.

    Args:
        embedder: None embeds nothing.
        items: what to embed.
        timeout: longest wait for all of it, in seconds.
    """
    if embedder is None or not items:
        return [NOT_EMBEDDED] * len(items)
    texts = [texts_of(item) for item in items]
    wanted = [text for passages in texts for text in passages[:MAX_PASSAGES] if text.strip()]
    vectors = iter(await _embed_texts(embedder, wanted, asyncio.get_running_loop().time() + timeout))
    embedded: list[Embedded] = []
    for passages in texts:
        rows: list[Vector | tuple[()] | None] = [
            next(vectors) if text.strip() and place < MAX_PASSAGES else () for place, text in enumerate(passages)
        ]
        embedded.append(_together(embedder, rows))
    return embedded


def _together(embedder: Embedder, vectors: Sequence[Vector | tuple[()] | None]) -> Embedded:
    """The vectors of one item's passages as a table; none if one of them is missing."""
    made = [vector for vector in vectors if vector is not None]
    width = max((len(vector) for vector in made), default=0)
    if len(made) < len(vectors) or not width or any(len(vector) not in {0, width} for vector in made):
        return NOT_EMBEDDED
    return Embedded(embedder.name, _numpy().array([row if len(row) else [0.0] * width for row in made], "float32"))


async def _embed_texts(embedder: Embedder, texts: Sequence[str], deadline: float) -> list[Vector | None]:
    """Vectors of texts, in batches; None for each that failed.

    A failing batch is tried again text by text, so that one bad text does not cost the others their vectors. After a
    time-out, or after `GIVE_UP_AFTER` failures in a row, nothing is tried again.
    """
    made: list[Vector | None] = []
    failures = 0
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        try:
            async with asyncio.timeout_at(deadline):
                vectors = await embedder.embed(batch)
            check_vectors(embedder, vectors, len(batch))
        except Exception as error:
            if len(batch) == 1 or isinstance(error, TimeoutError):
                logger.warning(FAILED, embedder.name, error)
                return made + [None] * (len(texts) - len(made))
            for text in batch:
                made += await _embed_texts(embedder, [text], deadline)
                failures = failures + 1 if made[-1] is None else 0
                if failures >= GIVE_UP_AFTER:
                    return made + [None] * (len(texts) - len(made))
        else:
            made += [_numpy().asarray(vector, "float32") for vector in vectors]
    return made
