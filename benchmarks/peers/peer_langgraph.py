"""LangGraph's `InMemoryStore` with an index: an item an episode, found by the cosine of its text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path

from harness import Embedder, Episode, Peer, Store, Turn, main
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

USER = ("memories", "user")


class Items(Store):
    def __init__(self, embedder: Embedder) -> None:
        self._store = InMemoryStore(
            index={
                "dims": embedder.dimensions,
                "embed": lambda texts: embedder.embed(list(texts)),
                "fields": ["text"],
            }
        )

    def add(self, episodes: Sequence[Episode]) -> None:
        self._store.batch([PutOp(USER, episode.id, value(episode)) for episode in episodes])

    def search(self, question: str, limit: int) -> list[list[Turn]]:
        found = self._store.search(USER, query=question, limit=limit)
        return [
            [Turn(datetime.fromisoformat(one.value["when"]), *said) for said in one.value["turns"]] for one in found
        ]


def value(episode: Episode) -> dict[str, object]:
    """What is stored: the text that is searched, and what a block is written from."""
    return {
        "text": "\n".join(turn.content for turn in episode.turns),
        "when": episode.when.isoformat(),
        "turns": [[turn.role, turn.name, turn.text] for turn in episode.turns],
    }


class LangGraph(Peer):
    version = f"langgraph {metadata.version('langgraph')}"
    note = "InMemoryStore, an item an episode; all are put in one batch"

    def open(self, embedder: Embedder | None, folder: Path) -> Store:
        if embedder is None:
            raise SystemExit("LangGraph's store searches vectors only: give an embedder")
        return Items(embedder)


if __name__ == "__main__":
    main(lambda variant: LangGraph())
