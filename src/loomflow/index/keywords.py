"""Keyword scores: BM25 of each passage, of its turn's neighbourhood, of its session, and of whole items.

BM25 is Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with the usual constants. All statistics
(how many passages have a term, how long they are) are of the one partition: what other users store changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .corpus import Corpus
from .partition import AFTER, AFTER_WEIGHT, BEFORE, BEFORE_WEIGHT, Partition
from .segments import digest

K1: Final = 1.2
B: Final = 0.75

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """BM25 at three scales, and the most that each could be for these terms.

    Attributes:
        passage: shape [p]; `passage_most` the score of a short passage that has nothing but the terms.
        near: of the neighbourhood of each turn, in which a neighbour's terms count by its weight, shape [t].
        session: shape [sessions]; `session_most` likewise.
    """

    passage: Floats
    near: Floats
    session: Floats
    passage_most: float
    session_most: float


def idf(having: float, total: float) -> float:
    """Inverse document frequency, ln(1 + (total - having + 0.5) / (having + 0.5)); never negative."""
    return math.log(1 + (max(total - having, 0) + 0.5) / (having + 0.5))


def bm25(counts: Floats, lengths: Floats, mean_length: float) -> Floats:
    """The saturated count of a term in documents of these lengths: from 0 to `K1` + 1."""
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    return counts * (K1 + 1) / (counts + norm)


def score_passages(
    partition: Partition, words: Sequence[str], visible: Mask | None, corpus: Corpus | None = None
) -> KeywordScores:
    """Score every passage, every turn with its neighbours, and every session.

    Args:
        partition: of p passages.
        words: terms, see `loomflow.words.query_terms`.
        visible: which passages count, shape [p]; None for all.
        corpus: what the partition is a part of; None if it is the whole.
    """
    size, sessions = partition.size, partition.session_count
    shown = None if visible is None else visible[partition.openings]
    lengths = partition.of_passages("length")
    near_lengths = partition.near if shown is None else partition.near_among(shown)
    of_session = partition.of_passages("session")
    there = _statistics(partition, visible, shown, lengths, near_lengths, corpus)
    of_turn, turns = partition.of_passages("turn"), len(partition.openings)
    passage, near, session = (np.zeros(n, np.float32) for n in (size, turns, sessions))
    buffer = np.zeros(turns, np.float32)
    passage_most = session_most = 0.0
    for word, (ids, counts) in zip(words, _postings(partition, words, visible), strict=True):
        times = _stand_for(partition, corpus, word, ids)
        telling = idf(len(ids) * times, there.total)
        passage_most += telling * (K1 + 1)
        if not len(ids):
            session_most += idf(0, there.session_total) * (K1 + 1)
            continue
        passage[ids] += telling * bm25(counts, lengths[ids], there.mean)
        touched = _spread(partition, *_summed(of_turn[ids], counts), buffer)
        near[touched] += telling * bm25(buffer[touched], near_lengths[touched], there.near_mean)
        buffer[touched] = 0
        in_sessions = np.bincount(of_session[ids], counts, sessions).astype(np.float32)
        having = np.flatnonzero(in_sessions)
        session_telling = idf(len(having) * times, there.session_total)
        session_most += session_telling * (K1 + 1)
        in_session = bm25(in_sessions[having], there.session_lengths[having], there.session_mean)
        session[having] += session_telling * in_session
    return KeywordScores(passage, near, session, passage_most, session_most)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """Of all that counts: how many passages and sessions there are, and how long they are."""

    total: float
    mean: float
    near_mean: float
    session_total: float
    session_mean: float
    session_lengths: Floats


def _statistics(
    partition: Partition,
    visible: Mask | None,
    shown: Mask | None,
    lengths: Floats,
    near_lengths: Floats,
    corpus: Corpus | None,
) -> _Statistics:
    of_session, sessions = partition.of_passages("session"), partition.session_count
    if corpus is not None:
        counted = corpus.sampled(partition) if visible is None else corpus.sampled(partition) & visible
        session_total = corpus.sessions(partition)
        return _Statistics(
            corpus.share * float(counted.sum()), _mean(lengths, counted),
            _mean(near_lengths, counted[partition.openings]),
            session_total, corpus.share * float(lengths[counted].sum()) / session_total, corpus.session_lengths,
        )  # fmt: skip
    session_lengths = np.bincount(of_session, _shown(lengths, visible), sessions).astype(np.float32)
    session_mean = float(session_lengths[session_lengths > 0].mean()) if session_lengths.any() else 0.0
    return _Statistics(
        partition.size if visible is None else int(visible.sum()), _mean(lengths, visible), _mean(near_lengths, shown),
        sessions if visible is None else len(np.unique(of_session[visible])), session_mean, session_lengths,
    )  # fmt: skip


def _stand_for(partition: Partition, corpus: Corpus | None, word: str, ids: NDArray[np.int32]) -> float:
    """How many passages each of those that have a word stands for."""
    if corpus is None or not len(ids):
        return 1.0
    return corpus.stand_for(word, len(np.unique(partition.of_passages("item")[ids])))


def score_items(
    partition: Partition, words: Sequence[str], visible: Mask | None, corpus: Corpus | None = None
) -> Floats:
    """Score every item as one document: the terms of all its passages together, shape [m]."""
    first = partition.first
    items = len(first) - 1
    if not items:
        return np.zeros(0, np.float32)
    lengths = np.add.reduceat(np.append(partition.of_passages("length"), 0), first[:-1].astype(np.intp)).astype(
        np.float32
    )
    shown = None if visible is None else visible[np.minimum(first[:-1], partition.size - 1)]
    counted = shown
    if corpus is not None:
        counted = corpus.is_sample if shown is None else corpus.is_sample & shown
    total = (items if counted is None else int(counted.sum())) * (1.0 if corpus is None else corpus.share)
    mean = float(_mean(lengths, counted))
    scores = np.zeros(items, np.float32)
    of_item = partition.of_passages("item")
    for word, (ids, counts) in zip(words, _postings(partition, words, visible), strict=True):
        if not len(ids):
            continue
        having, inside = _summed(of_item[ids], counts)
        times = 1.0 if corpus is None else corpus.stand_for(word, len(having))
        scores[having] += idf(len(having) * times, total) * bm25(inside, lengths[having], mean)
    return scores


def _postings(
    partition: Partition, words: Sequence[str], visible: Mask | None
) -> list[tuple[NDArray[np.int32], Floats]]:
    postings = partition.postings(np.array([digest(word) for word in words], np.uint32))
    if visible is None:
        return postings
    return [(ids[visible[ids]], counts[visible[ids]]) for ids, counts in postings]


def _summed(groups: NDArray[np.int32], counts: Floats) -> tuple[NDArray[np.int32], Floats]:
    """The distinct groups, which come in ascending order, and the sum of the counts of each."""
    begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return groups[begins], np.add.reduceat(counts, begins)


def _spread(partition: Partition, turns: NDArray[np.int32], counts: Floats, buffer: Floats) -> NDArray[np.intp]:
    """Add a term's counts to the neighbourhoods that its turns are in; the turns whose sums are not 0."""
    buffer[turns] += counts
    for link, weight, reach in ((partition.after, BEFORE_WEIGHT, BEFORE), (partition.before, AFTER_WEIGHT, AFTER)):
        here, amounts = turns, counts
        for _ in range(reach):
            there = link[here]
            goes_on = there != here
            here, amounts = there[goes_on], amounts[goes_on] * np.float32(weight)
            buffer[here] += amounts
    return np.flatnonzero(buffer)


def _shown(values: Floats, visible: Mask | None) -> Floats:
    return values if visible is None else values * visible


def _mean(values: Floats, visible: Mask | None) -> float:
    shown = values if visible is None else values[visible]
    return float(shown.mean()) if len(shown) else 0.0
