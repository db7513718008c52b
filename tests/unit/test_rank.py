"""Ranking: scores, limits and repetitions, in exact values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from loomflow import Episode, EpisodeMatch, Fact
from loomflow.items import FactMatch
from loomflow.pipeline.fusion import relevance
from loomflow.pipeline.rank import Ranked, decay, rank
from loomflow.pipeline.recall import Candidates

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


def facts(*objects: str, days: Sequence[float] = ()) -> tuple[FactMatch, ...]:
    ages = [*days, *[0.0] * len(objects)]
    return tuple(
        FactMatch(Fact("A", "likes", value, id=f"f{n}", recorded_at=NOW - timedelta(days=ages[n])), 0.1, n, None)
        for n, value in enumerate(objects)
    )


def episodes(*texts: str, days: Sequence[float] = ()) -> tuple[EpisodeMatch, ...]:
    ages = [*days, *[0.0] * len(texts)]
    return tuple(
        EpisodeMatch(
            Episode(text, "", session_id="s", id=f"e{n}", occurred_at=NOW - timedelta(days=ages[n])), 0.1, None, n
        )
        for n, text in enumerate(texts)
    )


def ids(ranked: Sequence[Ranked]) -> list[str]:
    return [item.id for item in ranked]


def test_r6_relevance_is_a_reciprocal_rank() -> None:
    assert [relevance(place) for place in (0, 1, 11)] == [1 / 61, 1 / 62, 1 / 72]


@pytest.mark.parametrize(
    ("age_days", "half_life", "weight"),
    [(0, 30, 1.0), (30, 30, 0.5), (60, 30, 0.25), (15, 30, 0.5**0.5), (-5, 30, 1.0), (30, None, 1.0), (1, 1e-300, 0.0),
     (700_000, 1e300, 1.0), (0.5, 0.25, 0.25)],
)  # fmt: skip
def test_r7_decay_halves_with_each_half_life(age_days: float, half_life: float | None, weight: float) -> None:
    assert decay(NOW - timedelta(days=age_days), NOW, half_life) == weight


def test_r7_without_a_time_there_is_no_decay() -> None:
    assert decay(None, NOW, 30) == 1.0


def test_r6_facts_and_episodes_take_turns() -> None:
    ranked = rank(Candidates(facts=facts("a", "b", "c"), episodes=episodes("x", "y")), now=NOW)
    assert ids(ranked) == ["f0", "e0", "f1", "e1", "f2"]
    assert [item.score for item in ranked] == [1 / 61, 1 / 61, 1 / 62, 1 / 62, 1 / 63]


def test_r6_score_is_relevance_times_decay() -> None:
    found = Candidates(facts=facts("a", "b", days=[30, 0]), episodes=episodes("x", days=[60]))
    ranked = rank(found, now=NOW, half_life_days=30)
    assert [(item.id, item.decay, item.score) for item in ranked] == [
        ("f1", 1.0, 1 / 62),
        ("f0", 0.5, 0.5 / 61),
        ("e0", 0.25, 0.25 / 61),
    ]


def test_r2_what_is_over_the_limit_is_marked_and_keeps_its_place() -> None:
    ranked = rank(Candidates(facts=facts(*"abcdefg"), episodes=episodes(*"vwxyz")), now=NOW)
    excluded = {item.id: item.excluded for item in ranked if item.excluded}
    assert excluded == {
        "f5": "over the limit of 5 facts",
        "f6": "over the limit of 5 facts",
        "e3": "over the limit of 3 episodes",
        "e4": "over the limit of 3 episodes",
    }
    assert len(ranked) == 12


def test_r12_a_repetition_takes_no_place_and_the_best_ranked_one_stays() -> None:
    found = Candidates(facts=facts("tea", "Tea.", "the  TEA", "a", "b", "c", "d", "e"))
    ranked = rank(found, now=NOW)
    assert [item.id for item in ranked if not item.excluded] == ["f0", "f3", "f4", "f5", "f6"]
    assert [item.excluded for item in ranked[1:3]] == ["says the same as a better ranked fact"] * 2


@pytest.mark.parametrize(
    ("one", "other"), [("I like tea", "I do not like tea"), ("C", "C++"), ("tea", "tea?"), ("5", "-5"), ("👍", "👎")]
)
def test_r12_what_says_something_else_is_no_repetition(one: str, other: str) -> None:
    assert [item.excluded for item in rank(Candidates(episodes=episodes(one, other)), now=NOW)] == ["", ""]


def test_r12_predicates_with_and_without_underscores_say_the_same() -> None:
    found = tuple(
        FactMatch(Fact("Alice", predicate, "tea", id=predicate, recorded_at=NOW), 0.1)
        for predicate in ("is_fond_of", "is fond of")
    )
    assert [item.excluded for item in rank(Candidates(facts=found), now=NOW)] == [
        "",
        "says the same as a better ranked fact",
    ]


def test_places_in_the_two_searches_are_kept_for_the_receipt() -> None:
    fact, episode = rank(Candidates(facts=facts("a"), episodes=episodes("x")), now=NOW)
    assert (fact.lexical_rank, fact.vector_rank) == (0, None)
    assert (episode.lexical_rank, episode.vector_rank) == (None, 0)
