"""Embedding what is stored, so that a failing embedder loses nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .ports import NOT_EMBEDDED, Embedded, Embedder

logger = logging.getLogger("loomflow")


async def embed_all(embedder: Embedder | None, texts: Sequence[str]) -> list[Embedded]:
    """Embed texts; one that cannot be embedded comes back without a vector, and is found by keyword until it is.

    A failing batch is tried again text by text, so that one bad text does not cost the others their vectors.
    """
    if embedder is None or not texts:
        return [NOT_EMBEDDED] * len(texts)
    try:
        vectors = await embedder.embed(texts)
        if len(vectors) != len(texts):
            raise ValueError(f"{len(vectors)} vectors for {len(texts)} texts")
    except Exception as error:
        if len(texts) == 1:
            logger.warning("embedder %s failed; the text is stored and found by keyword: %r", embedder.name, error)
            return [NOT_EMBEDDED]
        return [(await embed_all(embedder, [text]))[0] for text in texts]
    return [Embedded(embedder.name, vector) for vector in vectors]
