"""mem0 without a language model (`infer=False`): a memory a turn, in Qdrant's local store.

Variants: "" is what `pip install mem0ai` gives, which searches by vectors; "keyword" adds its BM25, for which it needs
the package `fastembed`. mem0 would download that encoder's stop words; here they are given to it, and nothing is
fetched. spaCy, which it uses for lemmas where it is installed, changed little.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

SETTINGS = tempfile.TemporaryDirectory()
# Read when these packages are imported, so before that.
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": SETTINGS.name, "ORT_DISABLE_TELEMETRY": "1"}

from harness import Embedder, Episode, Peer, Store, Turn, main  # noqa: E402
from mem0 import Memory  # noqa: E402
from mem0.embeddings.base import EmbeddingBase  # noqa: E402
from mem0.utils.factory import EmbedderFactory  # noqa: E402

USER = "user"
THRESHOLD = 0.0
"""Lowest cosine of a result: fill the budget. With its default of 0.1 the recall is the same or a little lower."""
STOP_WORDS = (
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves what which who whom this that these those am is are "
    "was were be been being have has had having do does did doing a an the and but if or because as until while of "
    "at by for with about against between into through during before after above below to from up down in out on "
    "off over under again further then once here there when where why how all any both each few more most other "
    "some such no nor not only own same so than too very s t can will just don should now d ll m o re ve y"
).split()


class GivenEmbedder(EmbeddingBase):
    """mem0 makes its embedder from a class; this one passes on to the embedder that the harness was given."""

    given: ClassVar[Embedder]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.given.embed([text])[0]


logging.getLogger("mem0.utils.spacy_models").setLevel(logging.ERROR)
EmbedderFactory.provider_to_class["huggingface"] = f"{__name__}.GivenEmbedder"


class Memories(Store):
    def __init__(self, embedder: Embedder, folder: Path, *, keyword: bool) -> None:
        GivenEmbedder.given = embedder
        dimensions = embedder.dimensions
        self._memory = Memory.from_config(
            {
                "embedder": {"provider": "huggingface", "config": {"embedding_dims": dimensions}},
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": str(folder / "qdrant"), "embedding_model_dims": dimensions},
                },
                "llm": {"provider": "openai", "config": {"api_key": "never used"}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        # False is what mem0 sets itself where the encoder's package is not installed.
        self._memory.vector_store._bm25_encoder = bm25_encoder(folder) if keyword else False  # noqa: SLF001

    def add(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            messages = [
                {"role": turn.role, "content": turn.content} | ({"name": turn.name} if turn.name else {})
                for turn in episode.turns
            ]
            self._memory.add(messages, user_id=USER, metadata={"when": episode.when.isoformat()}, infer=False)

    def search(self, question: str, limit: int) -> list[list[Turn]]:
        found = self._memory.search(question, filters={"user_id": USER}, top_k=limit, threshold=THRESHOLD)
        return [[as_turn(memory)] for memory in found["results"]]

    def close(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


def as_turn(memory: dict[str, Any]) -> Turn:
    """A result of its search."""
    name = memory.get("actor_id")
    text = memory["memory"].removeprefix(f"{name}: ")
    return Turn(datetime.fromisoformat(memory["metadata"]["when"]), memory["role"], name, text)


def bm25_encoder(folder: Path) -> Any:
    """The encoder that mem0 makes where its package is installed, with stop words instead of a place to get them."""
    from fastembed import SparseTextEmbedding  # noqa: PLC0415 - only this variant needs it

    return SparseTextEmbedding("Qdrant/bm25", specific_model_path=str(folder), stopwords=set(STOP_WORDS))


class Mem0(Peer):
    version = f"mem0ai {metadata.version('mem0ai')}"

    def __init__(self, variant: str) -> None:
        self._keyword = variant == "keyword"
        found_by = "vectors and BM25" if self._keyword else "vectors"
        self.note = f"infer=False, a memory a turn, Qdrant's local store in a folder, found by {found_by}"

    def open(self, embedder: Embedder | None, folder: Path) -> Store:
        if embedder is None:
            raise SystemExit("mem0 without a network needs a local embedder: give one")
        return Memories(embedder, folder, keyword=self._keyword)


if __name__ == "__main__":
    main(Mem0)
