"""Keyword search in SQLite: FTS5 with BM25, narrowed to one user inside the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from .queries import queries

SQL: Final = queries("sqlite")


def keyword_search(db: sqlite3.Connection, kind: str, user_no: int, words: Sequence[str], limit: int) -> list[int]:
    """Row numbers of what has any of `words`, best first; equals newest first.

    Args:
        db: a connection in a read transaction.
        kind: "episodes" or "facts".
        user_no: whose rows; no others are visited.
        words: see `loomflow.words.query_words`; at least one.
        limit: how many at most.
    """
    terms = " OR ".join(_term(word) for word in words)
    values = {"query": f'u : "{user_no}" AND text : ({terms})', "limit": limit}
    return [number for (number,) in db.execute(SQL[f"match_{kind}"], values)]


def _term(word: str) -> str:
    """A word as an FTS5 string, which cannot be syntax; a trailing `*` asks for a prefix."""
    return f'"{word[:-1]}" *' if word.endswith("*") else f'"{word}"'
