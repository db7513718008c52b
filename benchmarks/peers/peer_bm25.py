"""Plain BM25 over turns, with the package `bm25s`: what keyword search alone gives.

Each turn is a document "speaker: text". Set up as the package's own example: English stop words and stemmer.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import bm25s
import Stemmer
from harness import Embedder, Episode, Peer, Store, Turn, main


class Index(Store):
    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._turns: list[Turn] = []
        self._index = bm25s.BM25()

    def add(self, episodes: Sequence[Episode]) -> None:
        self._turns = [turn for episode in episodes for turn in episode.turns]
        self._index.index(self._words([turn.content for turn in self._turns]), show_progress=False)

    def search(self, question: str, limit: int) -> list[list[Turn]]:
        found, _ = self._index.retrieve(
            self._words([question]), corpus=self._turns, k=min(limit, len(self._turns)), show_progress=False
        )
        return [[turn] for turn in found[0]]

    def _words(self, texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False)


class BM25(Peer):
    version = f"bm25s {metadata.version('bm25s')}"
    note = "a document a turn, English stop words and stemmer; the index is built once, for all turns together"

    def open(self, embedder: Embedder | None, folder: Path) -> Store:
        return Index()


if __name__ == "__main__":
    main(lambda variant: BM25(), vectors=False)
