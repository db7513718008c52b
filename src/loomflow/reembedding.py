"""Embedding what has no vector yet, batch by batch, so that stopping loses nothing."""

from __future__ import annotations

from collections.abc import Callable

from .embedding import embed_items, has_direction
from .items import Episode, Fact
from .ports import Embedder, Store

REEMBED_BATCH = 64
TIMEOUT_SECONDS = 300.0
"""For one batch: nobody waits for an answer here, and a local model may need minutes for long texts."""


async def reembed_user(
    store: Store, embedder: Embedder | None, user_id: str | None, batch: int, progress: Callable[[int], None] | None
) -> int:
    """Embed the facts and episodes of a user that have no vector of `embedder`; see `loomflow.Memory.reembed`."""
    if embedder is None:
        return 0
    done = skip = 0
    while True:
        episodes, facts = await store.unembedded(user_id, embedder.name, batch + skip)
        items: list[Episode | Fact] = [*episodes, *facts][skip : skip + batch]
        if not items:
            break
        embedded = await embed_items(embedder, items, timeout=TIMEOUT_SECONDS)
        made = [(item, one) for item, one in zip(items, embedded, strict=True) if has_direction(one)]
        await store.set_vectors(
            user_id,
            {item.id or "": one for item, one in made if isinstance(item, Episode)},
            {item.id or "": one for item, one in made if isinstance(item, Fact)},
        )
        done += len(made)
        skip += len(items) - len(made)
        if progress is not None:
            progress(len(items))
    if skip == 0:
        await store.drop_vectors(user_id, but=embedder.name)
    return done
