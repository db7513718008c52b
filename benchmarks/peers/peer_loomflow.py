"""The released package `loomflow`: what its agent would inject, or what its search finds.

It shares its import name with this project and nothing else; `reference_loomflow.py`, which times it, says more.

Variants: "" is the text that its agent puts in front of the first request, under its own budget; "search" is its hybrid
search, as many episodes as fit, packed as for the other peers. Where no embedder is given it runs with its default one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from harness import Embedder, Episode, Peer, Store, Turn, main

sys.path.append(str(Path(__file__).resolve().parents[1]))

from reference_loomflow import VERSION, check_peer, peer

USER = "user"


class GivenEmbedder:
    """The peer's protocol of an embedder, over the one that the harness was given."""

    name = "given"

    def __init__(self, given: Embedder) -> None:
        self._given = given
        self.dimensions = given.dimensions

    async def embed(self, text: str) -> list[float]:
        return self._given.embed([text])[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return self._given.embed(texts)


class Searched(Store):
    """The peer's SQLite memory, and its search."""

    def __init__(self, embedder: Embedder | None, folder: Path) -> None:
        made = GivenEmbedder(embedder) if embedder else peer(".memory.embedder").HashEmbedder()
        self.memory = peer(".memory.sqlite").SqliteMemory(str(folder / "memory.db"), embedder=made)
        self.runner = asyncio.Runner()
        self._turns: dict[str, list[Turn]] = {}

    def add(self, episodes: Sequence[Episode]) -> None:
        self.runner.run(self._remember(episodes))

    async def _remember(self, episodes: Sequence[Episode]) -> None:
        kind = peer(".core.types").Episode
        for told in episodes:
            self._turns[told.id] = told.turns
            said = {turn.role: turn.content for turn in told.turns}
            await self.memory.remember(
                kind(
                    id=told.id,
                    session_id=told.session,
                    user_id=USER,
                    occurred_at=told.when,
                    input=said.get("user", ""),
                    output=said.get("assistant", ""),
                )
            )

    def search(self, question: str, limit: int) -> list[list[Turn]]:
        found = self.runner.run(self.memory.recall_scored(question, user_id=USER, limit=limit))
        return [self._turns[match.episode.id] for match in found]

    def close(self) -> None:
        self.runner.close()


class Injected(Searched):
    """The same, and what the peer's agent makes of it."""

    injects = True

    def inject(self, question: str, budget: int) -> str:
        build_messages = getattr(peer(".architecture.react"), "_build_seed_messages")  # noqa: B009
        run = SimpleNamespace(
            memory=self.memory,
            memory_token_budget=budget,
            memory_decay_half_life=None,
            context=SimpleNamespace(user_id=USER, session_id=None),
        )
        _instructions, *recalled, _question = self.runner.run(build_messages(run, "Answer.", question))
        return "\n\n".join(message.content for message in recalled)


class LoomFlow(Peer):
    version = f"loomflow {VERSION}"

    def __init__(self, variant: str) -> None:
        self._kind = Searched if variant == "search" else Injected
        self.note = (
            "SQLite memory, hybrid search of episodes" if variant == "search"
            else "SQLite memory, the text that its agent adds to the first request under its own budget"
        )  # fmt: skip

    def open(self, embedder: Embedder | None, folder: Path) -> Store:
        return self._kind(embedder, folder)


if __name__ == "__main__":
    check_peer()
    main(LoomFlow)
