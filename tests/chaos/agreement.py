"""Whether what a memory stores agrees: rows, keyword index and vectors, of every user."""

from __future__ import annotations

from loomflow import Memory
from loomflow.stores import owners, segments
from loomflow.stores.database import Database
from loomflow.stores.relational import RelationalStore
from loomflow.stores.segments import EPISODE, FACT, KINDS


async def agreement(memory: Memory) -> list[str]:
    """What does not agree, in words; nothing if all is well. Reads the whole index as it is stored."""
    store = memory.store
    assert isinstance(store, RelationalStore)
    searcher = store._searcher
    searcher.clear()
    embedder = memory.embedder
    wrong: list[str] = []
    for user in await memory.users():

        def check(db: Database, user: str | None = user) -> None:
            owner = owners.found(db, user)
            for kind in (EPISODE, FACT):
                rows = [number for (number,) in db.run(f"numbers_of_{KINDS[kind]}", {"owner": owner})]
                with searcher._opened(db, owner, kind) as partition:
                    indexed = partition.numbers.tolist()
                if sorted(rows) != indexed:
                    wrong.append(f"{user}: {KINDS[kind]} {sorted(set(rows) ^ set(indexed))} are not in rows and index")
                if embedder is None:
                    continue
                number = segments.embedder_no(db, embedder.name)
                if missing := searcher.without_vectors(db, owner, kind, number):
                    wrong.append(f"{user}: {KINDS[kind]} {missing} have no vector")

        await store._connections.read(user, check)
    stats = await memory.stats()
    if embedder is not None and stats.unembedded:
        wrong.append(f"stats count {stats.unembedded} without a vector")
    return wrong
