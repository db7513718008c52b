"""Keyword search in SQLite: FTS5 with BM25, narrowed to one user inside the index, at a bounded cost.

Scoring a row costs about two microseconds, so a word that is in most of a large memory would cost more than all else
together. Up to `EXACT` items everything is scored. Beyond, words found `COMMON` times or more do not bring in rows of
their own where rarer words have found enough; they still count towards the score of the rows that those brought in. A
question that has common words only is answered from the newest `AMONG` rows that match.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from .queries import queries

SQL: Final = queries("sqlite")
EXACT = 2_000
COMMON = 1_000
AMONG = 4_000
ENOUGH = 64


def keyword_search(db: sqlite3.Connection, kind: str, user_no: int, words: Sequence[str]) -> Callable[[int], list[int]]:
    """A function from a depth to so many row numbers, best first; equals newest first.

    Args:
        db: a connection in a read transaction.
        kind: "episodes" or "facts".
        user_no: whose rows; no others are visited.
        words: any of which may match, see `loomflow.words.query_words`.
    """
    sql, values = _plan(db, kind, user_no, [_term(word) for word in words])

    def best_rows(depth: int) -> list[int]:
        return [number for (number,) in db.execute(sql, values | {"limit": depth})]

    return best_rows


def _plan(db: sqlite3.Connection, kind: str, user_no: int, terms: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The query to run, and its values but for the limit."""
    mine = f'u : "{user_no}"'
    plain = (SQL[f"match_{kind}"], {"query": f"{mine} AND {_any(terms)}"})
    size = db.execute(SQL[f"count_{kind}"], {"user_no": user_no, "limit": EXACT + 1}).fetchone()[0]
    if size <= EXACT:
        return plain
    counting = SQL[f"count_matching_{kind}"]
    counts = {
        term: db.execute(counting, {"query": f"{mine} AND {_any([term])}", "limit": COMMON}).fetchone()[0]
        for term in terms
    }
    common = [term for term, count in counts.items() if count == COMMON]
    if not common:
        return plain
    telling = [term for term, count in counts.items() if 0 < count < COMMON]
    if sum(counts[term] for term in telling) >= ENOUGH:
        # The user's own term stands in for "true": common words add to the score and bring in nothing.
        query = f"{mine} AND {_any(telling)} AND ({mine} OR {_any(common)})"
        return SQL[f"match_{kind}"], {"query": query}
    return SQL[f"newest_matching_{kind}"], {"query": plain[1]["query"], "among": AMONG}


def _any(terms: Sequence[str]) -> str:
    return f"text : ({' OR '.join(terms)})"


def _term(word: str) -> str:
    """A word as an FTS5 string, which cannot be syntax; a trailing `*` asks for a prefix."""
    return f'"{word[:-1]}" *' if word.endswith("*") else f'"{word}"'
