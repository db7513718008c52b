"""Large users in PostgreSQL: the server finds what a question can be about, and only that is ranked here.

A search reads the episodes that the server finds nearest by words and by vector, what was said around them, the newest
ones, and a sample; these make a partition that is scored as everyone's is, see `loomflow.index.corpus`. Every query has
the user, and what the search leaves out, inside; the limit applies after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loomflow.index import keywords, segments, vectors
from loomflow.index.corpus import Corpus, KnownCosines
from loomflow.index.partition import AFTER, BEFORE, Partition
from loomflow.index.segments import Segment, digest, session_digest
from loomflow.index.vectors import CodedVectors
from loomflow.moments import to_micros
from loomflow.records import Search

from .database import Database, Owner
from .postgres_checking import large_faults
from .postgres_connections import PostgresDatabase
from .postgres_indexing import index_some, signed, term_of, text_of
from .searching import Searcher, View
from .segments import EPISODE, KEYWORDS, embedder_no, merge_small, newest_dimensions

MOST_BEHIND: Final = 10_000
"""With more items than this not in the tables yet, a user is searched exactly."""

CANDIDATES: Final = 256
"""So many episodes, at least, are looked for by words, and as many passages by vector."""
CANDIDATES_A_RESULT: Final = 4
CHARS_A_RESULT: Final = 200

MOST_MATCHES: Final = 10_000
"""Words that more episodes have than this find nothing by themselves where rarer words do."""
COMMON: Final = 0.05
"""Of words that a larger share of the sample has, the sample says how many episodes have them."""

SAMPLED_SESSIONS: Final = 32
AROUND: Final = 32
"""Of a session in the sample, at most so many episodes before and after a place in it."""
MOST_OF_SESSION: Final = 2_000
"""Sessions are measured up to this length."""

MAX_WIDTH: Final = 1_000
DECIMALS: Final = 6

_COSINE = np.dtype([("number", ">i8"), ("place", ">i4"), ("cosine", ">f4")])


class LargeSearcher(Searcher):
    """Searches small users in memory, and large ones on the server.

    Args:
        exact_up_to: so many episodes make a user large if there is one more.
        catch_up: called with a user whose tables are behind; whether they are filled is up to it.
    """

    def __init__(self, exact_up_to: int, catch_up: Callable[[Owner], None]) -> None:
        super().__init__()
        self._exact_up_to = exact_up_to
        self._catch_up = catch_up

    def tend(self, db: Database, owner: Owner) -> bool:
        merge_small(db, owner)
        return self._is_large(db, owner) and index_some(_server(db), str(owner))

    def remove_vectors(self, db: Database, owner: Owner, kind: int, embedder: int, numbers: Collection[int]) -> None:
        super().remove_vectors(db, owner, kind, embedder, numbers)
        if kind == EPISODE and isinstance(db, PostgresDatabase):
            db.run("delete_large_vectors", {"owner": owner, "embedder_no": embedder, "numbers": list(numbers)})

    def keep_only(self, db: Database, owner: Owner, embedder: int) -> None:
        super().keep_only(db, owner, embedder)
        if isinstance(db, PostgresDatabase):
            size = newest_dimensions(db, owner, EPISODE, embedder)
            db.run("keep_large_vectors", {"owner": owner, "embedder_no": embedder, "dimensions": size})

    def faults(self, db: Database, owner: Owner) -> list[tuple[str, str]]:
        return large_faults(db, str(owner)) if isinstance(db, PostgresDatabase) else []

    def rebuild(self, db: Database, owner: Owner) -> None:
        super().rebuild(db, owner)
        if isinstance(db, PostgresDatabase):  # filled anew from the segments, as after writes
            db.run("delete_large", {"owner": owner})

    @contextmanager
    def _view(self, db: Database, kind: int, owner: Owner, search: Search) -> Generator[View]:
        if kind == EPISODE and self._is_large(db, owner):
            query = search.query
            embedder = KEYWORDS if query.vector is None else embedder_no(db, query.embedder)
            if all(self._is_ready(db, owner, number) for number in {KEYWORDS, embedder}):
                yield _LargeUser(_server(db), str(owner), search, embedder).view()
                return
            self._catch_up(owner)
        with super()._view(db, kind, owner, search) as view:
            yield view

    def _is_large(self, db: Database, owner: Owner) -> bool:
        """Whether a user is large, in a database whose text the server can read."""
        if not isinstance(db, PostgresDatabase):
            return False
        items, _ = db.run("large_state", {"owner": owner, "embedder_no": KEYWORDS}).fetchone()
        return items > self._exact_up_to

    def _is_ready(self, db: Database, owner: Owner, embedder: int) -> bool:
        _, behind = db.run("large_state", {"owner": owner, "embedder_no": embedder}).fetchone()
        return behind <= MOST_BEHIND


def _server(db: Database) -> PostgresDatabase:
    assert isinstance(db, PostgresDatabase)
    return db


@dataclass(frozen=True, slots=True)
class _Sample:
    numbers: NDArray[np.int64]
    parts: list[Segment]
    segment: Segment | None
    tail: list[Segment]
    total: int


class _LargeUser:
    """One search of a large user's episodes."""

    def __init__(self, db: PostgresDatabase, owner: str, search: Search, embedder: int) -> None:
        self._db = db
        self._owner = owner
        self._search = search
        self._query = None if search.query.vector is None else vectors.normalised(search.query.vector)
        self._embedder = embedder
        self._newest_vectors = [] if self._query is None else self._vectors_in_tail(len(self._query))
        results = max(search.limit, search.chars // CHARS_A_RESULT)
        self._wanted = max(CANDIDATES, results * CANDIDATES_A_RESULT)
        ids = json.dumps(sorted(search.without_ids))
        hidden = db.run("episode_numbers", self._key | {"ids": ids}).fetchall() if search.without_ids else []
        without = search.without_session
        self._filter = {
            "session": None if without is None else signed(session_digest(without)),
            "at": to_micros(search.at),
            "hidden": [number for (number,) in hidden],
        }

    @property
    def _key(self) -> dict[str, Any]:
        return {"owner": self._owner}

    def view(self) -> View:
        """What the search looks at."""
        sample = self._sampled()
        having = self._having(sample)
        found = self._by_words(having, sample) | self._by_vector()
        known = set(sample.numbers.tolist())
        others = (found | self._neighbours(found)) - known
        partition = self._partition(sample, sorted(others))
        corpus = self._corpus(partition, sample, having)
        return View(partition, self._cosines(partition), corpus)

    def _sampled(self) -> _Sample:
        rows = self._db.run("large_sample", self._key | {"sessions": SAMPLED_SESSIONS, "around": AROUND}).fetchall()
        parts = [segments.from_bytes(data) for _, data in rows]
        numbers = np.array([number for number, _ in rows], np.int64)
        (newest,) = self._db.run("large_newest", self._key).fetchone()
        tail = [
            segments.from_bytes(data) for (data,) in self._db.run("large_tail", self._key | {"embedder_no": KEYWORDS})
        ]
        tail = [segments.only(one, one.numbers > newest) for one in tail]
        total, _ = self._db.run("large_state", self._key | {"embedder_no": KEYWORDS}).fetchone()
        return _Sample(numbers, parts, segments.merge(parts) if parts else None, tail, total)

    def _having(self, sample: _Sample) -> dict[str, int]:
        """How many episodes have each word: counted where it is rare in the sample, else about."""
        words = list(dict.fromkeys(self._search.words))
        if not words:
            return {}
        in_sample = {word: 0 if sample.segment is None else _items_having(sample.segment, word) for word in words}
        size = max(len(sample.numbers), 1)
        rare = [word for word in words if in_sample[word] <= COMMON * size]
        terms = [term_of(self._owner, digest(word)) for word in rare]
        counted = self._db.run("large_having", self._key | {"terms": terms, "most": MOST_MATCHES + 1}).fetchall()
        having = {word: round(in_sample[word] / size * sample.total) for word in words}
        for word, (count,) in zip(rare, counted, strict=True):
            having[word] = count if count <= MOST_MATCHES else max(count, having[word])
        in_tail = {word: sum(_items_having(one, word) for one in sample.tail) for word in words}
        return {word: having[word] + (in_tail[word] if word in rare else 0) for word in words}

    def _by_words(self, having: dict[str, int], sample: _Sample) -> set[int]:
        looked_for: list[str] = []
        matches = 0
        for word in sorted((word for word in having if having[word]), key=having.__getitem__):
            matches += having[word]
            if looked_for and matches > MOST_MATCHES:
                break
            looked_for.append(word)
        lengths = [float(one.length.sum()) for one in sample.parts]
        values = {
            "terms": [term_of(self._owner, digest(word)) for word in looked_for],
            "weights": [keywords.idf(having[word], sample.total) for word in looked_for],
            "k1": keywords.K1,
            "b": keywords.B,
            "mean": max(float(np.mean(lengths)) if lengths else 1.0, 1.0),
            "limit": self._wanted,
        }
        return {number for (number,) in self._db.run("large_by_words", self._key | self._filter | values)}

    def _by_vector(self) -> set[int]:
        if self._query is None:
            return set()
        values = self._key | self._filter | self._of_question | {"limit": self._wanted}
        self._db.run("search_widely", {"width": str(min(self._wanted, MAX_WIDTH))})
        found = self._db.run_sized("large_by_vector", len(self._query), values).fetchall()
        if len(found) < self._wanted:  # the index stopped early, or there are no more
            found = self._db.run("large_by_vector_exactly", values).fetchall()
        for coded in self._newest_vectors:
            found += self._db.run("without_large_vectors", values | {"numbers": coded.numbers.tolist()}).fetchall()
        return {number for (number,) in found}

    def _vectors_in_tail(self, dimensions: int) -> list[CodedVectors]:
        """The vectors that the server's tables may not have yet."""
        rows = self._db.run("large_tail", self._key | {"embedder_no": self._embedder})
        tail = [vectors.from_bytes(data) for (data,) in rows]
        return [coded for coded in tail if coded.codes.shape[1] == dimensions]

    @property
    def _of_question(self) -> dict[str, Any]:
        assert self._query is not None
        codes, _ = vectors.encode(self._query[None, :])
        return {"embedder_no": self._embedder, "dimensions": len(self._query), "vector": text_of(codes[0])}

    def _neighbours(self, numbers: Collection[int]) -> set[int]:
        values = {"numbers": sorted(numbers), "before": BEFORE, "after": AFTER}
        return {number for (number,) in self._db.run("large_neighbours", self._key | values)}

    def _partition(self, sample: _Sample, others: Sequence[int]) -> Partition:
        rows = self._db.run("large_segments", self._key | {"numbers": others})
        parts = [*sample.parts, *(segments.from_bytes(data) for (data,) in rows)]
        parts = [*sorted(parts, key=lambda one: int(one.numbers[0])), *(one for one in sample.tail if len(one.numbers))]
        partition = Partition(0)
        if parts:
            partition.append(segments.merge(parts))
        return partition

    def _corpus(self, partition: Partition, sample: _Sample, having: dict[str, int]) -> Corpus | None:
        if len(partition.numbers) >= sample.total:
            return None
        digests = [signed(one) for one in partition.session_digests]
        rows = self._db.run("large_sessions", self._key | {"sessions": digests, "most": MOST_OF_SESSION}).fetchall()
        items, lengths = (np.array([row[at] for row in rows], np.float32) for at in (0, 1))
        in_hand = np.bincount(partition.sessions, minlength=len(rows))
        own = np.bincount(partition.of_passages("session"), partition.of_passages("length"), len(rows))
        return Corpus(
            sample.total, having, np.isin(partition.numbers, sample.numbers),
            np.maximum(items, in_hand), np.maximum(lengths, own).astype(np.float32),
        )  # fmt: skip

    def _cosines(self, partition: Partition) -> KnownCosines | None:
        """The cosines of all passages with the question: the server's, and of the newest ones our own."""
        if self._query is None or not partition.size:
            return None
        values = np.zeros(partition.size, np.float32)
        has_vector = np.zeros(partition.size, np.bool_)
        for coded in self._newest_vectors:
            _place(partition, coded, vectors.cosines(self._query, coded.codes, coded.inverse), values, has_vector)
        of_question = self._of_question | {"numbers": partition.numbers.tolist()}
        (data,) = self._db.run("large_cosines", self._key | of_question).fetchone()
        rows = np.frombuffer(data, _COSINE)
        items = np.searchsorted(partition.numbers, rows["number"])
        places = partition.first[items] + rows["place"]
        values[places], has_vector[places] = rows["cosine"], True
        return KnownCosines(values.round(DECIMALS), has_vector)  # as far as both agree


def _place(
    partition: Partition,
    coded: CodedVectors,
    cosines: NDArray[np.float32],
    values: NDArray[np.float32],
    has_vector: NDArray[np.bool_],
) -> None:
    """Put cosines where their items stand in a partition."""
    at = np.minimum(np.searchsorted(partition.numbers, coded.numbers), len(partition.numbers) - 1)
    fits = (partition.numbers[at] == coded.numbers) & (np.diff(partition.first)[at] == coded.counts)
    source = np.repeat(fits, coded.counts) & (coded.inverse > 0)
    target = np.repeat(partition.first[at] - np.cumsum([0, *coded.counts[:-1]]), coded.counts) + np.arange(len(source))
    values[target[source]], has_vector[target[source]] = cosines[source], True


def _items_having(segment: Segment, word: str) -> int:
    """How many items of a segment have a word."""
    key = np.uint32(digest(word))
    at = int(np.searchsorted(segment.keys, key))
    if at == len(segment.keys) or segment.keys[at] != key:
        return 0
    passages = segment.ids[segment.offsets[at] : segment.offsets[at + 1]]
    return len(np.unique(np.searchsorted(segment.first, passages, side="right")))
