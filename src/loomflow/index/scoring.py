"""Scoring passages for mode "fill": what each signal says of each passage, and their weighted sum.

Every signal has a scale of its own, so that weights mean the same for every user and question:

| signal | what it says | range |
|---|---|---|
| fact | it is a fact: short, and known to be current | 1 |
| keyword | BM25 of the passage | 0 to 1 |
| nearby | BM25 of its turn with the turns around it in the session | 0 to 1 |
| session | BM25 of the whole session | 0 to 1 |
| speaker | said by the one party, or about a subject, that the question names | 0 or 1 |
| asker | the question is about the asker, and so is the fact: as far as it fits otherwise | 0 to 1 |
| question | the passage is itself a question | 0 or 1 |
| piece | it is a piece of a longer turn: the best of them, or another | 0, 1, 2 |
| time | the question asks when, and the passage names a time | 0 or 1 |
| date | the question names a date, and the passage was said then | 0 to 1 |
| vector | cosine of the passage and of its turn, in standard deviations from the user's mean | about -3 to 5 |
| context | the same of the mean cosine of its turn and the turns around it | about -3 to 5 |

Vectors that do not understand a text (of a language that the embedder was not trained on) give cosines of which none
stands out. How far the best one stands out from what chance would give therefore weighs both vector signals, see
`standing_out`.

What each is worth is printed by `benchmarks/recall_quality.py --ablation`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .corpus import Corpus
from .keywords import Floats, Mask, score_passages
from .partition import Partition
from .questions import DateAsked
from .segments import IS_QUESTION, NAMES_TIME
from .subjects import NOBODY, About

WEIGHTS: Final[Mapping[str, float]] = {
    "keyword": 0.12, "nearby": 1.0, "session": 0.4, "speaker": 0.7, "question": -0.1, "time": 0.4, "date": 1.0,
    "piece": -0.2, "vector": 0.1, "context": 0.12,
}  # fmt: skip
"""Of the signals of a turn."""

FACT_WEIGHTS: Final[Mapping[str, float]] = {
    "fact": 0.2, "keyword": 1.52, "speaker": 0.7, "asker": 0.7, "time": 0.4, "date": 1.0, "vector": 0.2,
}  # fmt: skip
"""Of the signals of a fact: it has no neighbours and no session, so what is its own counts for them too."""

LEAST_SHARE = 0.3
"""The best keyword score counts 1 only if it is at least this share of what is possible; below that, it counts less."""

CHANCE_SHARE, CLEAR_SHARE = 0.7, 0.9
"""Between these shares of what chance gives as the largest deviation, the vector signals fade in."""

FEW = 20

NEAR = 3
"""A cosine that stands out by so many standard deviations fits a question fully."""

DAY_MICROS = 86_400_000_000
DAYS_AFTER = 3
"""What happened on a day is told on that day or up to so many days later."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What was found out about p passages.

    Attributes:
        values: by name of the signal, each of shape [p]; a signal that does not apply is absent.
        score: their weighted sum, shape [p].
        coverage: share of the question's words, by weight, that stand in the passage or near it, 0 to 1, shape [p].
        similarity: cosine with the question; 0 without vectors, shape [p].
    """

    values: Mapping[str, Floats]
    score: Floats
    coverage: Floats
    similarity: Floats


def score(
    partition: Partition,
    weights: Mapping[str, float],
    *,
    words: Sequence[str],
    cosines: Floats | None = None,
    has_vector: Mask | None = None,
    speakers: Sequence[int] = (),
    about: About = NOBODY,
    asks_time: bool = False,
    dates: Sequence[DateAsked] = (),
    visible: Mask | None = None,
    corpus: Corpus | None = None,
) -> Signals:
    """Score every passage of a partition.

    Args:
        partition: of p passages.
        weights: of the signals that count, see `WEIGHTS`.
        words: terms of the question.
        cosines: of the question with each passage, shape [p]; None without vectors.
        has_vector: which passages have one, shape [p].
        speakers: places in `partition.names` that the question names: one counts, of several there is no telling.
        about: of facts, the same for the subjects that it is about, of which all count.
        asks_time: whether it asks when.
        dates: that it names.
        visible: which passages there are, shape [p]; None for all.
        corpus: what the partition is a part of; None if it is the whole.
    """
    values: dict[str, Floats] = {}
    keywords = score_passages(partition, words, visible, corpus)
    if "fact" in weights:
        values["fact"] = np.ones(partition.size, np.float32)
    values["keyword"] = _scaled(keywords.passage, keywords.passage_most)
    if "nearby" in weights:
        values["nearby"] = _scaled(keywords.near, keywords.passage_most)[partition.of_passages("turn")]
        values["session"] = _scaled(keywords.session, keywords.session_most)[partition.of_passages("session")]
    flags = partition.of_passages("flags")
    if "question" in weights:
        values["question"] = (flags & IS_QUESTION > 0).astype(np.float32)
    if asks_time:
        values["time"] = (flags & NAMES_TIME > 0).astype(np.float32)
    if len(speakers) == 1:
        values["speaker"] = (partition.of_passages("name") == speakers[0]).astype(np.float32)
    if dates:
        values["date"] = date_fit(partition.times, dates)[partition.of_passages("item")]
    if cosines is not None and has_vector is not None:
        values |= _vector_signals(partition, cosines, has_vector, visible, corpus, has_context="context" in weights)
    values |= _subject_signals(partition, about, values)
    total = np.zeros(partition.size, np.float32)
    for name, value in values.items():
        total += np.float32(weights.get(name, 0.0)) * value
    if "piece" in weights and len(partition.openings) < partition.size:
        values["piece"] = pieces(partition, total)
        total += np.float32(weights["piece"]) * values["piece"]
    covered = keywords.near[partition.of_passages("turn")] if "nearby" in weights else keywords.passage
    coverage = covered / np.float32(max(keywords.passage_most, 1e-9))
    similarity = np.zeros(partition.size, np.float32) if cosines is None else cosines
    return Signals(values, total, coverage, similarity)


def date_fit(times: NDArray[np.int64], dates: Sequence[DateAsked]) -> Floats:
    """How well moments, in microseconds, shape [m], fit the dates that a question names: 0 to 1, the best of them.

    A named month or span of days fits with 1, a day too, up to `DAYS_AFTER` days later; the rest of a named day's month
    fits with 0.5, a year that is named alone with 0.25.
    """
    days = times // DAY_MICROS
    stamps = days.astype("datetime64[D]")
    best = np.zeros(len(times), np.float32)
    for asked in dates:
        if asked.span is not None:
            first, last = (one.toordinal() - date(1970, 1, 1).toordinal() for one in asked.span)
            best = np.maximum(best, (first <= days) & (days <= last))
        else:
            best = np.maximum(best, _calendar_fit(stamps, asked))
    return best.astype(np.float32)


def _calendar_fit(stamps: NDArray[np.datetime64], asked: DateAsked) -> Floats:
    """How well days fit a year, month or day."""
    years, months = stamps.astype("datetime64[Y]"), stamps.astype("datetime64[M]")
    in_year = np.ones(len(stamps), np.bool_)
    if asked.year is not None:
        in_year = years.astype(np.int64) + 1970 == asked.year
    if asked.month is None:
        return np.where(in_year, 0.25, 0)
    in_month = in_year & (months.astype(np.int64) % 12 + 1 == asked.month)
    if asked.day is None:
        return np.where(in_month, 1.0, 0)
    told = np.zeros(len(stamps), np.bool_)
    for back in (0, 1):  # what happened on the last days of a year may be told in the next
        year = years - back if asked.year is None else np.datetime64(str(asked.year), "Y")
        meant = year.astype("datetime64[M]") + (asked.month - 1)
        after = (stamps - (meant.astype("datetime64[D]") + (asked.day - 1))).astype(np.int64)
        told |= (after >= 0) & (after <= DAYS_AFTER)
    return np.where(told, 1.0, np.where(in_month, 0.5, 0))


def _vector_signals(
    partition: Partition,
    cosines: Floats,
    has_vector: Mask,
    visible: Mask | None,
    corpus: Corpus | None,
    *,
    has_context: bool,
) -> dict[str, Floats]:
    counted = has_vector if visible is None else has_vector & visible
    measured = counted if corpus is None else counted & corpus.sampled(partition)
    count = int(measured.sum() * (1.0 if corpus is None else corpus.share))
    openings, of_turn = partition.openings, partition.of_passages("turn")
    counts = np.add.reduceat(counted.astype(np.float32), openings)
    turn = np.add.reduceat(np.where(counted, cosines, 0), openings) / np.maximum(counts, 1)
    vector = _standardised((cosines + turn[of_turn]) / 2, counted, measured)
    trust = np.float32(standing_out(vector, count))
    found = {"vector": trust * vector}
    if has_context:
        found["context"] = trust * _standardised(_context(partition, turn, counts > 0)[of_turn], counted, measured)
    return found


def _subject_signals(partition: Partition, about: About, others: Mapping[str, Floats]) -> dict[str, Floats]:
    """Which facts are about whom the question names, and which of those about the asker fit it.

    That a question is about the asker says little: what is known of the asker is a lot, and most of it does not matter.
    """
    found: dict[str, Floats] = {}
    if about.named:
        found["speaker"] = _is_about(partition, about.named)
    if about.asker:
        words = others["keyword"]
        fit = words / np.float32(max(float(words.max(initial=0.0)), 1e-9))
        if "vector" in others:
            fit = np.maximum(fit, others["vector"] / np.float32(NEAR))
        found["asker"] = _is_about(partition, about.asker) * np.clip(fit, 0, 1)
    return found


def _is_about(partition: Partition, subjects: Collection[int]) -> Floats:
    return np.isin(partition.of_passages("name"), np.fromiter(subjects, np.int32)).astype(np.float32)


def pieces(partition: Partition, scores: Floats) -> Floats:
    """For each passage of a turn that is cut into several: 1 if it has the best score of them, else 2; shape [p].

    The pieces of a long turn share what speaks for the turn, and would fill a block with it.
    """
    openings, of_turn = partition.openings, partition.of_passages("turn")
    sizes = np.diff(np.append(openings, partition.size))
    best = np.maximum.reduceat(scores, openings)
    found = np.where(scores >= best[of_turn], 1, 2).astype(np.float32)
    found[sizes[of_turn] == 1] = 0
    return found


def standing_out(deviations: Floats, count: int) -> float:
    """How much the best of some standardised cosines stands out: 0 where chance would give it, 1 where it cannot.

    The largest of n values drawn from a normal distribution is about sqrt(2 ln n). Vectors that tell something give
    more than 0.9 of that, vectors that tell nothing less than 0.8. Of fewer than `FEW` values little is known, and they
    count less.
    """
    if count < 2:
        return 0.0
    known = min(count / FEW, 1.0)
    share = float(deviations.max(initial=0.0)) / math.sqrt(2 * math.log(max(count, 3)))
    return known * min(max((share - CHANCE_SHARE) / (CLEAR_SHARE - CHANCE_SHARE), 0.0), 1.0)


def relevance(scores: Floats) -> Floats:
    """A score on a scale from 0 to 1, in the same order: the logistic function of twice its distance from 1."""
    return 1 / (1 + np.exp(-2 * (scores - 1)))


def _scaled(scores: Floats, most: float) -> Floats:
    top = max(float(scores.max(initial=0.0)), LEAST_SHARE * most)
    return scores / np.float32(top) if top > 0 else scores


def _standardised(values: Floats, counted: Mask, measured: Mask) -> Floats:
    """In standard deviations from the mean of those `measured`; 0 where not `counted`. All of shape [p]."""
    known = values[measured]
    if len(known) < 2:
        return np.zeros(len(values), np.float32)
    spread = float(known.std())
    if spread < 1e-6:
        return np.zeros(len(values), np.float32)
    return np.where(counted, (values - np.float32(known.mean())) / np.float32(spread), 0).astype(np.float32)


def _context(partition: Partition, turn: Floats, has_vector: Mask) -> Floats:
    """The mean of each turn, the two before it and the one after it, as far as they have vectors, shape [t]."""
    total, count = turn.copy(), has_vector.astype(np.float32)
    before, after = partition.before, partition.after
    own = np.arange(len(before), dtype=np.int32)
    second = before[before]
    for there, is_there in ((before, before != own), (second, second != before), (after, after != own)):
        total += np.where(is_there, turn[there], 0)
        count += is_there & has_vector[there]
    return total / np.maximum(count, 1)
