"""Whether the server's tables of a large user say what the segments say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from loomflow.index import segments
from loomflow.index.segments import Segment

from .index_checking import Disagreement, read_keywords, read_vectors
from .postgres_connections import PostgresDatabase
from .postgres_indexing import MOST_TERMS, signed, term_of, text_of
from .segments import EPISODE, KEYWORDS

CHUNK: Final = 1024

VectorKey = tuple[int, int, int]
"""An embedder, the dimensions, and the number of an episode."""


def large_faults(db: PostgresDatabase, owner: str) -> list[tuple[str, str]]:
    """Compare what the tables have of a user with the readable segments: table, and what is wrong."""
    up_to: dict[int, int] = dict(db.run("large_read", {"owner": owner}).fetchall())
    found = {"large_episodes": _episodes(db, owner, up_to), "large_vectors": _vectors(db, owner, up_to)}
    return [(table, str(differs)) for table, differs in found.items() if differs]


def _episodes(db: PostgresDatabase, owner: str, up_to: dict[int, int]) -> Disagreement:
    found = Disagreement()
    left = {number for (number,) in db.run("large_numbers", {"owner": owner})}
    for segment_no, data in _segments(db, owner, KEYWORDS):
        segment = read_keywords(data)
        episodes = [] if segment is None else segments.split(segment)
        numbers = [int(one.numbers[0]) for one in episodes]
        rows = {row[0]: row for row in db.run("all_large_episodes", {"owner": owner, "numbers": numbers})}
        for number, one in zip(numbers, episodes, strict=True):
            if number in rows:
                found.wrong += not _is_right(owner, one, rows[number])
            elif segment_no <= up_to.get(KEYWORDS, 0):
                found.missing += 1
        left -= rows.keys()
    found.left_over = len(left)
    return found


def _is_right(owner: str, episode: Segment, row: tuple[Any, ...]) -> bool:
    _, session, time, length, terms, segment = row
    expected = {term_of(owner, key) for key in episode.keys.tolist()}
    return (
        (session, time, length) == (signed(int(episode.sessions[0])), int(episode.times[0]), int(episode.length.sum()))
        and (terms is None if len(episode.keys) > MOST_TERMS else set(terms or ()) == expected)
        and segment == segments.to_bytes(episode)
    )


def _vectors(db: PostgresDatabase, owner: str, up_to: dict[int, int]) -> Disagreement:
    found = Disagreement()
    left: set[VectorKey] = set(db.run("large_vector_numbers", {"owner": owner}).fetchall())
    there = frozenset(left)
    embedders = {embedder for embedder, _, _ in there} | (up_to.keys() - {KEYWORDS})
    wrong: set[VectorKey] = set()
    right: set[VectorKey] = set()
    for embedder in sorted(embedders):
        for segment_no, data in _segments(db, owner, embedder):
            coded = read_vectors(data)
            if coded is None:
                continue
            size = coded.codes.shape[1]
            ends: list[int] = np.cumsum([0, *coded.counts]).tolist()
            expected = {
                (embedder, size, number): {
                    place: text_of(coded.codes[at])
                    for place, at in enumerate(range(begin, end)) if coded.inverse[at] > 0
                }
                for number, begin, end in zip(coded.numbers.tolist(), ends[:-1], ends[1:], strict=True)
            }  # fmt: skip
            for chunk in _chunks(expected):
                stored = _stored(db, owner, chunk)
                for key in chunk:
                    if key in there:
                        (right if stored[key] == expected[key] else wrong).add(key)
                    elif expected[key] and segment_no <= up_to.get(embedder, 0):
                        found.missing += 1
            left -= expected.keys()
    found.wrong, found.left_over = len(wrong - right), len(left)
    return found


def _stored(db: PostgresDatabase, owner: str, keys: list[VectorKey]) -> dict[VectorKey, dict[int, str]]:
    stored: dict[VectorKey, dict[int, str]] = defaultdict(dict)
    values = {"owner": owner, "numbers": [number for _, _, number in keys]}
    for embedder, size, number, place, text in db.run("all_large_vectors", values):
        stored[embedder, size, number][place] = text
    return stored


def _segments(db: PostgresDatabase, owner: str, embedder: int) -> Iterator[tuple[int, bytes]]:
    key = {"owner": owner, "kind": EPISODE, "embedder_no": embedder}
    for number, _ in db.run("segment_sizes", key).fetchall():
        yield number, db.run("segment", key | {"no": number}).fetchone()[0]


def _chunks(keys: Iterable[VectorKey]) -> Iterator[list[VectorKey]]:
    left = iter(keys)
    while chunk := list(islice(left, CHUNK)):
        yield chunk
