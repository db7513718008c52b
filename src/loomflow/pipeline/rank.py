"""Rank: one list out of facts and episodes, scored by relevance and age, without repetitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import count
from typing import Any, TypeVar

from loomflow.index.questions import names_time
from loomflow.items import Episode, EpisodeMatch, Fact, FactMatch, Kind
from loomflow.records import Passage
from loomflow.settings import MAX_EPISODES, MAX_FACTS
from loomflow.words import saying, says_something

from .fusion import heard, relevance
from .recall import Candidates, PassageCandidates
from .render import Line, episode_line, fact_line, passage_line

DAY_SECONDS = 86_400
FEW_WORDS = 6
"""The speaker's name included."""

BELOW = "below memory_min_relevance={:g}"

_KIND_ORDER = {"fact": 0, "episode": 1}

Match = TypeVar("Match", FactMatch, EpisodeMatch)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its place.

    Attributes:
        kind, id, line: what it is.
        rank: place in the recall of its own kind, from 0.
        relevance, decay, score: as rules R6 and R7 define them.
        excluded: why it may not be packed; empty if it may.
        lexical_rank, vector_rank: places in the two searches behind the recall.
        signals, passage: in mode "fill", what the relevance is made of, and what stands in the block.
    """

    kind: Kind
    id: str
    line: Line
    rank: int
    relevance: float
    decay: float
    score: float
    excluded: str = ""
    lexical_rank: int | None = None
    vector_rank: int | None = None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    passage: Passage[Any] | None = None


def decay(moment: datetime | None, now: datetime, half_life_days: float | None) -> float:
    """0.5 ** (age in days / half-life): 1.0 without a half-life or a time, and never above 1.0 (rule R7)."""
    if half_life_days is None or moment is None or moment >= now:
        return 1.0
    return 0.5 ** ((now - moment).total_seconds() / DAY_SECONDS / half_life_days)


def rank(
    candidates: Candidates,
    *,
    now: datetime,
    half_life_days: float | None = None,
    max_facts: int = MAX_FACTS,
    max_episodes: int = MAX_EPISODES,
    min_relevance: float = 0.0,
    noise: float = 0.0,
) -> tuple[Ranked, ...]:
    """Score the candidates and put them in the order of packing.

    Items over the limits and repetitions stay in the list, marked as excluded, so that the receipt can name them.

    Args:
        candidates: what recall found.
        now: the moment that ages count from.
        half_life_days: None for no decay.
        max_facts, max_episodes: how many of each may be packed.
        min_relevance: what matches the question less than this is left out, see `match`.
        noise: cosines up to this are common between unrelated texts.
    """
    facts = _limited(
        candidates.facts,
        _left_out(
            candidates.facts, ((match.fact.text, None) for match in candidates.facts), "fact", min_relevance, noise
        ),
        max_facts,
        "facts",
    )
    episodes = _limited(
        candidates.episodes,
        _left_out(
            candidates.episodes,
            ((match.episode.text, match.episode.occurred_at) for match in candidates.episodes),
            "episode",
            min_relevance,
            noise,
        ),
        max_episodes,
        "episodes",
    )
    ranked = [
        *(_ranked_fact(match, place, why, now, half_life_days) for match, place, why in facts),
        *(_ranked_episode(match, place, why, now, half_life_days) for match, place, why in episodes),
    ]
    return tuple(sorted(ranked, key=lambda item: (-item.score, item.rank, _KIND_ORDER[item.kind])))


def rank_passages(
    candidates: PassageCandidates,
    *,
    now: datetime,
    half_life_days: float | None = None,
    min_relevance: float = 0.0,
    noise: float = 0.0,
) -> tuple[Ranked, ...]:
    """Score passages and facts for mode "fill", and put them in the order of packing; see `rank`.

    If not even the best of them matches the question, all are noise. Once something does, what stands near it counts
    too, whether or not it has words of the question itself.
    """
    facts = candidates.facts
    if any(heard(passage.item) < 1 for passage in facts):
        facts = sorted(facts, key=lambda passage: -math.prod(_weighed(passage, now, half_life_days)))
    found: list[Passage[Any]] = [*facts, *candidates.episodes]
    best = max((_passage_match(passage, noise) for passage in found), default=0.0)
    noisy = BELOW.format(min_relevance) if best < min_relevance else ""
    kinds: tuple[tuple[Kind, Sequence[Passage[Any]]], ...] = (
        ("fact", facts),
        ("episode", candidates.episodes),
    )
    ranked = [
        _ranked_passage(passage, place, kind, noisy, now, half_life_days)
        for kind, passages in kinds
        for place, passage in enumerate(passages)
    ]
    ranked.sort(key=lambda item: (-item.score, item.rank, _KIND_ORDER[item.kind]))
    seen = _Seen()
    for place, item in enumerate(ranked):
        if seen.before(_said(item), None if item.passage is None else _moment(item.passage.item)) and not noisy:
            ranked[place] = replace(item, excluded="says the same as one ranked above")
    return tuple(ranked)


def _ranked_passage(
    passage: Passage[Any], place: int, kind: Kind, excluded: str, now: datetime, half_life: float | None
) -> Ranked:
    item = passage.item
    line = fact_line(item) if isinstance(item, Fact) else passage_line(passage)
    fit, fading = _weighed(passage, now, half_life)
    return Ranked(
        kind, item.id or "", line, place, fit, fading, fit * fading, excluded, signals=passage.signals, passage=passage
    )


def _weighed(passage: Passage[Any], now: datetime, half_life: float | None) -> tuple[float, float]:
    """The relevance of a passage, by who said it if it is a fact, and its decay."""
    item = passage.item
    if isinstance(item, Fact):
        return passage.relevance * heard(item), decay(item.recorded_at, now, half_life)
    return passage.relevance, decay(item.occurred_at, now, half_life)


def _said(item: Ranked) -> str:
    """What a candidate of mode "fill" says, for telling repetitions.

    A few words ("Yes.") say the same only as an answer to the same, so what was said with them counts too.
    """
    passage = item.passage
    if passage is None or isinstance(passage.item, Fact):
        return saying(item.line.body)
    said = saying(item.line.body)
    few = len(said.split()) <= FEW_WORDS
    return f"{said}\n{saying(passage.item.text)}\n{passage.item.session_id}" if few else said


def _moment(item: Episode | Fact) -> datetime | None:
    return item.occurred_at if isinstance(item, Episode) else None


class _Seen:
    """What was said so far, best ranked first."""

    def __init__(self) -> None:
        self._days: dict[str, set[date | None]] = {}

    def before(self, said: str, moment: datetime | None) -> bool:
        """Whether it was said before; from now on it was.

        A text that names a time says something else on another day: "tomorrow".
        """
        day = None if moment is None else moment.date()
        days = self._days.setdefault(said, set())
        repeats = bool(days) and (day in days or not names_time(said))
        days.add(day)
        return repeats


def _passage_match(passage: Passage[Any], noise: float) -> float:
    """`match` of a passage; what was said by the one, or on the day, that the question names matches fully."""
    if "speaker" in passage.signals or "date" in passage.signals:
        return 1.0
    if not noise:
        return 1.0 if passage.coverage > 0 else match(passage.similarity, noise)
    item = passage.item
    said = item.text if isinstance(item, Fact) else (item.output if passage.is_agent else item.input)
    return match(passage.similarity, noise) if says_something(said) else 0.0


def match(similarity: float | None, noise: float) -> float:
    """How well something that has none of the question's words matches it by its vector, from 0 to 1.

    This is what `memory_min_relevance` is compared with: how far the cosine stands above `noise`,
    (similarity - noise) / (1 - noise). The noise counts only for a question that says nothing to look for; a question
    that does may be far from what answers it.
    """
    return 0.0 if similarity is None else min(max(similarity - noise, 0.0) / max(1 - noise, 1e-9), 1.0)


def _left_out(
    matches: Sequence[Match],
    texts: Iterable[tuple[str, datetime | None]],
    kind: Kind,
    min_relevance: float,
    noise: float,
) -> Iterator[str]:
    """For each match, best first, why it is left out: as a repetition or as noise; empty if it is not.

    What has one of the question's words is never noise, unless the question says nothing.
    """
    for found, repetition in zip(matches, _repetitions(texts, kind), strict=True):
        is_noise = (found.lexical_rank is None or noise > 0) and match(found.similarity, noise) < min_relevance
        yield repetition or (BELOW.format(min_relevance) if is_noise else "")


def _limited(matches: Sequence[Match], reasons: Iterable[str], limit: int, what: str) -> list[tuple[Match, int, str]]:
    kept = count(1)
    return [
        (match, place, why or (f"over the limit of {limit} {what}" if next(kept) > limit else ""))
        for place, (match, why) in enumerate(zip(matches, reasons, strict=True))
    ]


def _ranked_fact(match: FactMatch, place: int, why: str, now: datetime, half_life: float | None) -> Ranked:
    fading = decay(match.fact.recorded_at, now, half_life)
    score = relevance(place) * fading
    return Ranked(
        "fact", match.fact.id or "", fact_line(match.fact), place, relevance(place), fading, score, why,
        match.lexical_rank, match.vector_rank,
    )  # fmt: skip


def _ranked_episode(match: EpisodeMatch, place: int, why: str, now: datetime, half_life: float | None) -> Ranked:
    fading = decay(match.episode.occurred_at, now, half_life)
    score = relevance(place) * fading
    return Ranked(
        "episode", match.episode.id or "", episode_line(match.episode), place, relevance(place), fading, score, why,
        match.lexical_rank, match.vector_rank,
    )  # fmt: skip


def _repetitions(texts: Iterable[tuple[str, datetime | None]], kind: Kind) -> Iterator[str]:
    """For each text with its time, best first, why it is left out as a repetition; empty if it says something new."""
    seen = _Seen()
    for text, moment in texts:
        yield f"says the same as a better ranked {kind}" if seen.before(saying(text), moment) else ""
