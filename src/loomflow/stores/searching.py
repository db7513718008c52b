"""Searching: the partitions in memory, and the rows of what they find."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from loomflow.index import search as searching
from loomflow.index import vectors
from loomflow.index.corpus import Corpus
from loomflow.index.keywords import Mask
from loomflow.index.partition import Partition, VectorColumn
from loomflow.index.parts import AGENT
from loomflow.index.search import Nearness
from loomflow.index.subjects import NOBODY, About
from loomflow.moments import to_micros
from loomflow.records import Embedded, Item, Passage, Search

from . import segments
from .database import Database, Owner
from .partitions import Partitions
from .rows import Row
from .segments import EPISODE, FACT, KINDS

logger = logging.getLogger("loomflow")

ENOUGH = 8
"""With so many facts about whom a question is about, a ranking is not searched for more of them."""

MAX_COMPARED = 10_000
FACT_CHARS = 120
"""What a fact counts beside its text: facts are short, and a block is not to be chosen from hundreds of them."""

Ranked = TypeVar("Ranked", int, tuple[int, float])


@dataclass(frozen=True, slots=True)
class View:
    """What a search looks at: a partition, how near its passages are, and what it is a part of, unless it is all."""

    partition: Partition
    near: Nearness | None
    corpus: Corpus | None = None


class Searcher:
    """Searches the partitions of users, within a transaction of the caller's. Safe to use from several threads."""

    def __init__(self) -> None:
        self._partitions = Partitions()
        self._compared: set[tuple[Owner, int, int, int]] = set()

    def clear(self) -> None:
        """Drop what is in memory."""
        self._partitions.clear()

    def forget(self, owner: Owner) -> None:
        """Drop what is in memory of a user."""
        self._partitions.forget(owner)

    def ranked(
        self, db: Database, kind: int, owner: Owner, search: Search, now: datetime
    ) -> tuple[dict[int, Row], tuple[int, ...], tuple[tuple[int, float], ...]]:
        """The rows that a search finds by words and by vector, and both rankings."""
        wanted = _Wanted(db, kind, owner, search, now)
        with self._view(db, kind, owner, search) as view:
            partition = view.partition
            hidden = self._hidden(db, kind, owner, partition, search)
            about = self._about(db, kind, owner, partition, search)

            def by_words(hidden: Mask | None) -> dict[int, None]:
                ranked = searching.by_words(partition, search, hidden, view.corpus)
                return dict.fromkeys(wanted.first(search.limit, ranked, lambda number: number))

            def by_vector(hidden: Mask | None) -> dict[int, float]:
                ranked = searching.by_vector(partition, view.near, search, hidden)
                return dict(wanted.first(search.limit, ranked, itemgetter(0)))

            lexical, near = by_words(hidden), by_vector(hidden)
            if about != NOBODY:  # however many others there are, the best of these are looked at
                others = searching.of_others(partition, about)
                others = others if hidden is None else others | hidden
                lexical |= by_words(others) if _lacks(partition, lexical, others, search.limit) else {}
                near |= by_vector(others) if _lacks(partition, near, others, search.limit) else {}
        return wanted.rows, tuple(lexical), tuple(near.items())

    def best_passages(
        self, db: Database, kind: int, owner: Owner, search: Search, now: datetime
    ) -> list[tuple[searching.Hit, Row]]:
        """The best passages of a kind with their rows, until there are `search.chars` characters of them."""
        wanted = _Wanted(db, kind, owner, search, now)
        found: list[tuple[searching.Hit, Row]] = []
        chars = 0
        with self._view(db, kind, owner, search) as view:
            partition = view.partition
            hidden = self._hidden(db, kind, owner, partition, search)
            for hits in searching.passages(
                partition, view.near, search, hidden, search.at or now, are_facts=kind == FACT,
                about=self._about(db, kind, owner, partition, search), corpus=view.corpus,
            ):  # fmt: skip
                wanted.check([hit.number for hit in hits])
                for hit in hits:
                    if hit.number in wanted.rows and chars < search.chars:
                        found.append((hit, wanted.rows[hit.number]))
                        chars += hit.part.end - hit.part.start + (FACT_CHARS if kind == FACT else 0)
                if chars >= search.chars:
                    break
        return found

    def _about(self, db: Database, kind: int, owner: Owner, partition: Partition, search: Search) -> About:
        """Whom a question is about, of the subjects of facts."""
        if kind != FACT or not search.text or not partition.size:
            return NOBODY
        user = {"owner": owner, "at": to_micros(search.at)}
        names = db.run("user_names" if search.at is None else "user_names_at", user)
        own = [name for (name,) in (*db.run("user_id", user), *names) if name is not None]
        return partition.subjects.asked(search.text, own, searching.names_there(partition, search))

    def _hidden(self, db: Database, kind: int, owner: Owner, partition: Partition, search: Search) -> Any:
        if kind == FACT:  # what else hides a fact stands in its row
            return searching.hidden_items(partition, Search(at=search.at))
        ids = {"owner": owner, "ids": json.dumps(sorted(search.without_ids))}
        numbers = [number for (number,) in db.run("episode_numbers", ids)] if search.without_ids else []
        return searching.hidden_items(partition, search, numbers)

    @contextmanager
    def _view(self, db: Database, kind: int, owner: Owner, search: Search) -> Generator[View]:
        """What a search for facts or episodes of a user looks at."""
        with self._opened(db, owner, kind) as partition:
            yield View(partition, self._query_column(db, owner, kind, partition, search.query))

    def _opened(self, db: Database, owner: Owner, kind: int) -> AbstractContextManager[Partition]:
        (epoch,) = db.run("epoch", {"owner": owner}).fetchone()
        return self._partitions.opened((owner, kind), epoch, segments.reader(db, owner, kind))

    def _column(
        self,
        db: Database,
        owner: Owner,
        kind: int,
        partition: Partition,
        embedder: int,
        dimensions: int | None = None,
    ) -> VectorColumn | None:
        """The vectors of an embedder, of the dimensions that it made last if none are given; None if it made none."""
        dimensions = dimensions or segments.newest_dimensions(db, owner, kind, embedder)
        if dimensions is None:
            return None
        return self._partitions.column(partition, embedder, dimensions, segments.reader(db, owner, kind))

    def _query_column(
        self, db: Database, owner: Owner, kind: int, partition: Partition, query: Embedded
    ) -> VectorColumn | None:
        """The vectors that a question can be compared with; None if it has no vector."""
        if query.vector is None or vectors.normalised(query.vector) is None:
            return None
        embedder = segments.embedder_no(db, query.embedder)
        column = self._column(db, owner, kind, partition, embedder, len(query.vector))
        key = (owner, kind, embedder, len(query.vector))
        if key not in self._compared:
            if len(self._compared) >= MAX_COMPARED:
                self._compared.clear()
            self._compared.add(key)
            missing = len(searching.missing_vectors(partition, column))
            if missing > 0:
                message = "%d %s have no vector of embedder %s and are found by keyword only; reembed() makes them"
                logger.warning(message, missing, KINDS[kind], query.embedder)
        return column

    def without_vectors(
        self, db: Database, owner: Owner, kind: int, embedder: int, dimensions: int | None = None
    ) -> list[int]:
        """Row numbers of what has no vector of an embedder, of these dimensions if they are given."""
        with self._opened(db, owner, kind) as partition:
            column = self._column(db, owner, kind, partition, embedder, dimensions)
            return searching.missing_vectors(partition, column).tolist()

    def replace_vectors(
        self, db: Database, owner: Owner, kind: int, items: Sequence[tuple[int, int, Embedded]]
    ) -> bool:
        """Write vectors of items: number, passages, vectors, instead of those that they have of the same embedders.

        Returns:
            Whether it is time to merge.
        """
        for name in {embedded.embedder for _, _, embedded in items}:
            embedder = segments.embedder_no(db, name)
            numbers = {number for number, _, embedded in items if embedded.embedder == name}
            numbers -= set(self.without_vectors(db, owner, kind, embedder))
            if numbers:
                self.remove_vectors(db, owner, kind, embedder, numbers)
        return segments.add_vectors(db, owner, kind, items)

    def remove_vectors(self, db: Database, owner: Owner, kind: int, embedder: int, numbers: Collection[int]) -> None:
        """Take out the vectors that items have of an embedder."""
        segments.remove_vectors(db, owner, kind, embedder, numbers)

    def keep_only(self, db: Database, owner: Owner, embedder: int) -> None:
        """Take out the vectors of all other embedders."""
        segments.keep_only(db, owner, embedder)

    def tend(self, db: Database, owner: Owner) -> bool:
        """Bring the index of a user into shape, some of it; whether there is more to do."""
        segments.merge_small(db, owner)
        return False

    def faults(self, db: Database, owner: Owner) -> list[tuple[str, str]]:
        """What is wrong with what is kept of a user beside rows and segments: table, and what."""
        return []

    def rebuild(self, db: Database, owner: Owner) -> None:
        """Make the index of a user, who is held, anew from the rows; vectors stay."""
        segments.rebuild(db, owner)

    def vectors_of(self, db: Database, owner: Owner, kind: int, number: int) -> list[Embedded]:
        """The vectors of a stored item, by every embedder that it has some of."""
        found: list[Embedded] = []
        for name, embedder in db.run("embedders_of", {"owner": owner, "kind": kind}).fetchall():
            with self._opened(db, owner, kind) as partition:
                column = self._column(db, owner, kind, partition, embedder)
                place = int(np.searchsorted(partition.numbers, number))
                if column is not None:
                    begin, end = partition.first[place : place + 2]
                    found.append(Embedded(name, column.codes[begin:end].astype(np.float32)))
        return found


class _Wanted:
    """The rows that a search may return, looked up by number and kept."""

    def __init__(self, db: Database, kind: int, owner: Owner, search: Search, now: datetime) -> None:
        self.rows: dict[int, Row] = {}
        self._checked: set[int] = set()
        self._db = db
        self._query = "episodes_by_no" if kind == EPISODE else "facts_by_no"
        self._values: dict[str, Any] = {
            "owner": owner,
            "session_id": search.without_session,
            "ids": json.dumps(sorted(search.without_ids)) if search.without_ids else None,
            "at": to_micros(search.at),
            "now": to_micros(search.at or now),
        }

    def check(self, numbers: Sequence[int]) -> None:
        """Look up the rows among `numbers` that pass the filters."""
        new = [number for number in numbers if number not in self._checked]
        if new:
            self._checked.update(new)
            values = self._values | {"numbers": json.dumps(new)}
            self.rows.update((row[0], row) for row in self._db.run(self._query, values))

    def first(self, limit: int, ranked: Iterator[Ranked], number: Callable[[Ranked], int]) -> list[Ranked]:
        """The first `limit` of a ranking that pass: the filters apply before the limit (rules R9, R11, R17)."""
        passed: list[Ranked] = []
        while len(passed) < limit and (batch := list(islice(ranked, limit))):
            self.check([number(one) for one in batch])
            passed += [one for one in batch if number(one) in self.rows]
        return passed[:limit]


def _lacks(partition: Partition, found: Collection[int], others: Mask, limit: int) -> bool:
    """Whether a full ranking of facts has fewer than `ENOUGH` about whom the question is about."""
    if len(found) < limit:
        return False
    places = np.searchsorted(partition.numbers, np.fromiter(found, np.int64))
    return int(np.count_nonzero(~others[places])) < ENOUGH


def passage_of(hit: searching.Hit, item: Item) -> Passage[Item]:
    """A hit with its item, as the port returns it."""
    return Passage(
        item, hit.part.side == AGENT, hit.part.start, hit.part.end, hit.number, hit.score, hit.relevance, hit.signals,
        hit.coverage, hit.similarity,
    )  # fmt: skip
