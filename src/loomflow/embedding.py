"""Embedding what is stored, so that a failing or hanging embedder loses nothing."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any

from .errors import EmbedderError
from .ports import NOT_EMBEDDED, Embedded, Embedder

logger = logging.getLogger("loomflow")

TIMEOUT_SECONDS = 30.0


def has_direction(embedded: Embedded) -> bool:
    """Whether there is a vector that can be compared: finite and not zero."""
    if embedded.vector is None:
        return False
    length = math.hypot(*(float(number) for number in embedded.vector))
    return 0 < length < math.inf


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


async def embed_all(
    embedder: Embedder | None, texts: Sequence[str], *, timeout: float = TIMEOUT_SECONDS
) -> list[Embedded]:
    """Embed texts; one that cannot be embedded comes back without a vector, and is found by keyword until it is.

    A failing batch is tried again text by text, so that one bad text does not cost the others their vectors. After a
    time-out nothing is tried again.

    Args:
        embedder: None embeds nothing.
        texts: what to embed, non-blank.
        timeout: longest wait for one call of the embedder, in seconds.
    """
    if embedder is None or not texts:
        return [NOT_EMBEDDED] * len(texts)
    try:
        async with asyncio.timeout(timeout):
            vectors = await embedder.embed(texts)
        check_vectors(embedder, vectors, len(texts))
    except Exception as error:
        if len(texts) == 1 or isinstance(error, TimeoutError):
            logger.warning("embedder %s failed; the text is stored and found by keyword: %r", embedder.name, error)
            return [NOT_EMBEDDED] * len(texts)
        return [(await embed_all(embedder, [text], timeout=timeout))[0] for text in texts]
    return [Embedded(embedder.name, vector) for vector in vectors]
