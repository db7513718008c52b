"""Searching a partition: whole items by two rankings, or passages by all signals."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from loomflow.moments import to_micros
from loomflow.records import Search
from loomflow.words import query_terms

from .corpus import Corpus
from .keywords import Floats, Mask, score_items
from .partition import Partition, VectorColumn
from .parts import AGENT, Part
from .questions import asks_time, dates_in, named
from .scoring import DAY_MICROS, FACT_WEIGHTS, WEIGHTS, Signals, relevance, score
from .segments import session_digest
from .subjects import NOBODY, About
from .vectors import Vector, normalised

RESCORED: Final = 2
"""So many times the wanted number of neighbours is compared again with the question's exact vector."""

MAX_PASSAGES: Final = 2_000


class Nearness(Protocol):
    """What says how near the passages of a partition are to a question: a `VectorColumn`, or a store's own answer."""

    @property
    def has_vector(self) -> Mask: ...

    def cosines(self, query: Vector, /) -> NDArray[np.float32]: ...

    def exact(self, query: Vector, passages: NDArray[np.integer[Any]], /) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: the row number of its item, which part of it, and what was found out about it."""

    number: int
    part: Part
    score: float
    relevance: float
    signals: dict[str, float]
    coverage: float
    similarity: float | None


def hidden_items(partition: Partition, search: Search, numbers: Collection[int] = ()) -> Mask | None:
    """Which items a search leaves out, shape [m]; None if it leaves out none.

    Args:
        partition: of m items.
        search: with its session and moment.
        numbers: further row numbers to leave out.
    """
    hidden: list[Mask] = []
    if search.without_session is not None:
        place = partition.session_place(session_digest(search.without_session))
        if place is not None:
            hidden.append(partition.sessions == place)
    if numbers:
        hidden.append(np.isin(partition.numbers, np.fromiter(numbers, np.int64)))
    if search.at is not None:
        hidden.append(partition.times > to_micros(search.at))
    return np.logical_or.reduce(hidden) if hidden else None


def of_others(partition: Partition, about: About) -> Mask:
    """Which facts are about somebody else than a question is about, shape [m]."""
    subjects = np.fromiter(about.named | about.asker, np.int32)
    return ~np.isin(partition.of_passages("name")[partition.first[:-1]], subjects)


def names_there(partition: Partition, search: Search) -> frozenset[int] | None:
    """Whose passages were there at the moment of the search, as places in `partition.names`; None for all."""
    visible = _visible(partition, search)
    return None if visible is None else frozenset(partition.of_passages("name")[visible].tolist())


def by_words(partition: Partition, search: Search, hidden: Mask | None, corpus: Corpus | None = None) -> Iterator[int]:
    """Row numbers of the items that have any of the words, best first; equals newest first."""
    if not search.words or not partition.size:
        return
    scores = score_items(partition, search.words, _visible(partition, search), corpus)
    if hidden is not None:
        scores[hidden] = 0
    for places in _descending(scores, search.limit, scores > 0):
        yield from partition.numbers[places].tolist()


def by_vector(
    partition: Partition, column: Nearness | None, search: Search, hidden: Mask | None
) -> Iterator[tuple[int, float]]:
    """Row numbers and cosines of the items with a vector, nearest first; equals newest first.

    An item is as near as the nearest of its passages.
    """
    query = None if search.query.vector is None else normalised(search.query.vector)
    if column is None or query is None or not partition.size:
        return
    near = np.where(column.has_vector, column.cosines(query), -np.inf)
    begins = partition.first[:-1].astype(np.intp)
    best = np.maximum.reduceat(near, begins).astype(np.float32)
    if hidden is not None:
        best[hidden] = -np.inf
    for places in _descending(best, search.limit * RESCORED, np.isfinite(best)):
        exact = _exact(partition, column, query, places)
        order = np.lexsort((-places, -exact))
        yield from zip(partition.numbers[places[order]].tolist(), exact[order].tolist(), strict=True)


def _exact(
    partition: Partition, column: Nearness, query: NDArray[np.float32], places: NDArray[np.intp]
) -> NDArray[np.float32]:
    """The cosines of items, at `places`, with the question's vector as it is: each of its nearest passage."""
    begins, ends = partition.first[places], partition.first[places + 1]
    sizes = ends - begins
    starts = np.cumsum(sizes) - sizes
    of_items = np.repeat(begins - starts, sizes) + np.arange(int(sizes.sum()), dtype=np.int32)
    return np.clip(np.maximum.reduceat(column.exact(query, of_items), starts), -1, 1)


def passages(
    partition: Partition,
    column: Nearness | None,
    search: Search,
    hidden: Mask | None,
    now: datetime,
    *,
    are_facts: bool,
    about: About = NOBODY,
    corpus: Corpus | None = None,
) -> Iterator[list[Hit]]:
    """Passages best first, in batches of at least `search.chars` characters.

    Args:
        partition, column, search, hidden, now: what to search for, and in what.
        are_facts: of facts, or of what was said.
        about: of facts, whom the question is about.
        corpus: what the partition is a part of; None if it is the whole.
    """
    if not partition.size:
        return
    query = None if search.query.vector is None else normalised(search.query.vector)
    near = None if column is None or query is None else column.cosines(query)
    found = score(
        partition,
        FACT_WEIGHTS if are_facts else WEIGHTS,
        words=query_terms(search.text) if are_facts else search.words,
        cosines=near,
        has_vector=None if column is None or near is None else column.has_vector,
        speakers=() if are_facts else _speakers(partition, search),
        about=about,
        asks_time=asks_time(search.text),
        dates=dates_in(search.text, now),
        visible=_visible(partition, search),
        corpus=corpus,
    )
    ranked = relevance(found.score)
    fading = ranked * _decays(partition, search.half_life_days, now)
    shown = np.ones(partition.size, np.bool_) if hidden is None else ~hidden[partition.of_passages("item")]
    lengths = partition.of_passages("end") - partition.of_passages("start")
    mean = max(float(lengths.mean()), 1.0)
    batch = min(int(search.chars / mean * 1.2) + 8, MAX_PASSAGES)
    for places in _descending(fading, batch, shown):
        yield _hits(partition, found, ranked, places, has_vectors=near is not None)


def _speakers(partition: Partition, search: Search) -> list[int]:
    """The speakers that a question names, as places in `partition.names`."""
    there = names_there(partition, search)
    names = [(place, name) for place, name in enumerate(partition.names) if there is None or place in there]
    return [names[place][0] for place in named(search.text, [name for _, name in names])]


def _hits(
    partition: Partition, found: Signals, ranked: Floats, places: NDArray[np.intp], *, has_vectors: bool
) -> list[Hit]:
    numbers = partition.numbers[partition.of_passages("item")[places]].tolist()
    sides, starts, ends = (partition.of_passages(name)[places].tolist() for name in ("side", "start", "end"))
    scores, relevances = found.score[places].tolist(), ranked[places].tolist()
    coverage, similarity = found.coverage[places].tolist(), found.similarity[places].tolist()
    signals = {name: value[places].tolist() for name, value in found.values.items()}
    return [
        Hit(
            number, Part(AGENT if side == AGENT else 0, start, end), scores[at], relevances[at],
            {name: round(value[at], 4) for name, value in signals.items() if value[at]},
            coverage[at], similarity[at] if has_vectors else None,
        )
        for at, (number, side, start, end) in enumerate(zip(numbers, sides, starts, ends, strict=True))
    ]  # fmt: skip


def _decays(partition: Partition, half_life_days: float | None, now: datetime) -> Floats | float:
    if half_life_days is None:
        return 1.0
    ages = np.maximum(to_micros(now) - partition.times, 0) / DAY_MICROS
    return np.exp2(-ages / half_life_days).astype(np.float32)[partition.of_passages("item")]


def _visible(partition: Partition, search: Search) -> Mask | None:
    """Which passages were there at the moment of the search, shape [p]; None for all."""
    if search.at is None:
        return None
    shown = partition.times <= to_micros(search.at)
    return None if shown.all() else shown[partition.of_passages("item")]


def _descending(scores: Floats, batch: int, allowed: Mask) -> Iterator[NDArray[np.intp]]:
    """Places of the allowed scores, highest first, equals newest first, in batches that grow."""
    places = np.flatnonzero(allowed)
    done = 0
    while done < len(places):
        wanted = min(done + batch, len(places))
        values = scores[places]
        if wanted < len(places):
            threshold = np.partition(values, len(values) - wanted)[len(values) - wanted]
            top = np.flatnonzero(values >= threshold)
        else:
            top = np.arange(len(places))
        order = top[np.lexsort((-top, -values[top]))]
        yield places[order[done:wanted]]
        done, batch = wanted, batch * 4


def missing_vectors(partition: Partition, column: VectorColumn | None) -> NDArray[np.int64]:
    """Row numbers of the items of which no passage has a vector."""
    if column is None or not partition.size:
        return partition.numbers
    lengths = np.maximum.reduceat(column.inverse, partition.first[:-1].astype(np.intp))
    return partition.numbers[lengths == 0]
