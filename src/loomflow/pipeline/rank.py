"""Rank: one list out of facts and episodes, scored by relevance and age, without repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TypeVar

from loomflow.items import EpisodeMatch, FactMatch, Kind
from loomflow.words import saying

from .recall import Candidates, relevance
from .render import Line, episode_line, fact_line

MAX_FACTS = 5
MAX_EPISODES = 3
DAY_SECONDS = 86_400
FILLERS = frozenset(["a", "an", "the", "very", "really", "just", "also", "so", "too"])
"""Words without which a text still says the same (rule R12)."""

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
) -> tuple[Ranked, ...]:
    """Score the candidates and put them in the order of packing.

    Items over the limits and repetitions stay in the list, marked as excluded, so that the receipt can name them.

    Args:
        candidates: what recall found.
        now: the moment that ages count from.
        half_life_days: None for no decay.
        max_facts, max_episodes: how many of each may be packed.
    """
    facts = _limited(
        candidates.facts, _repetitions((match.fact.text for match in candidates.facts), "fact"), max_facts, "facts"
    )
    episodes = _limited(
        candidates.episodes,
        _repetitions((match.episode.text for match in candidates.episodes), "episode"),
        max_episodes,
        "episodes",
    )
    ranked = [
        *(_ranked_fact(match, place, why, now, half_life_days) for match, place, why in facts),
        *(_ranked_episode(match, place, why, now, half_life_days) for match, place, why in episodes),
    ]
    return tuple(sorted(ranked, key=lambda item: (-item.score, item.rank, _KIND_ORDER[item.kind])))


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


def _repetitions(texts: Iterable[str], kind: Kind) -> Iterator[str]:
    """For each text, best first, why it is left out as a repetition; empty if it says something new."""
    seen: set[str] = set()
    for text in texts:
        said = saying(text)
        yield f"says the same as a better ranked {kind}" if said in seen else ""
        seen.add(said)
