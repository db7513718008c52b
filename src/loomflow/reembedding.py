"""Embedding what has no vector yet, batch by batch, so that stopping loses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .embedding import check_vectors, embed_items, has_direction
from .items import Episode, Fact
from .ports import Embedder, Store

logger = logging.getLogger("loomflow")

REEMBED_BATCH = 64
TIMEOUT_SECONDS = 300.0
"""For one batch: nobody waits for an answer here, and a local model may need minutes for long texts."""


async def reembed_user(
    store: Store,
    embedder: Embedder | None,
    user_id: str | None,
    batch: int,
    progress: Callable[[int], None] | None,
    known: dict[str, int],
) -> int:
    """Embed the facts and episodes of a user that have no vector of `embedder`; see `loomflow.Memory.reembed`.

    `known` remembers how long the vectors of an embedder are, from one user to the next.
    """
    if embedder is None:
        return 0
    done = skip = failed = 0
    while True:
        dimensions = known.get(embedder.name)
        episodes, facts = await store.unembedded(user_id, embedder.name, batch + skip, dimensions=dimensions)
        items: list[Episode | Fact] = [*episodes, *facts][skip : skip + batch]
        if not items and embedder.name not in known:
            if not await _learn_dimensions(embedder, known):
                return 0
            continue
        if not items:
            break
        embedded = await embed_items(embedder, items, timeout=TIMEOUT_SECONDS)
        made = [(item, one) for item, one in zip(items, embedded, strict=True) if has_direction(one)]
        await store.set_vectors(
            user_id,
            {item.id or "": one for item, one in made if isinstance(item, Episode)},
            {item.id or "": one for item, one in made if isinstance(item, Fact)},
        )
        for _, one in made[:1]:
            assert one.vector is not None
            known[embedder.name] = one.vector.shape[-1]
        done += len(made)
        skip += len(items) - len(made)
        failed += sum(one.vector is None for one in embedded)
        if progress is not None:
            progress(len(items))
        if all(one.vector is None for one in embedded):
            break  # it is down: the rest would only be refused one by one
    if not failed and (done or not skip):
        await store.drop_vectors(user_id, but=embedder.name)
    return done


async def _learn_dimensions(embedder: Embedder, known: dict[str, int]) -> bool:
    """Find out how long the vectors of an embedder are, which may have changed under its name; False if it fails."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            vectors = await embedder.embed(["dimensions"])
        check_vectors(embedder, vectors, 1)
    except Exception as error:
        logger.warning("embedder %s failed, nothing was embedded: %r", embedder.name, error)
        return False
    known[embedder.name] = len(vectors[0])
    return True
