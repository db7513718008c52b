"""Rules R6 and R7: how facts and episodes are merged and how they age, against a plain reading of the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from loomflow import Episode, EpisodeMatch, Fact, InjectedItem, Memory, Tuning
from loomflow.items import FactMatch
from loomflow.pipeline.rank import Ranked, decay, rank
from loomflow.pipeline.recall import Candidates
from loomflow.stores.sqlite import SQLiteStore
from tests.property.strategies import FIRST, LAST, NOW, half_lives, moments

Place = tuple[str, int]


def aged(moment: datetime | None, now: datetime, half_life: float | None) -> float:
    """Rule R7 word for word; the age is exact."""
    if moment is None or half_life is None or moment > now:
        return 1.0
    age_days = Fraction((now - moment) // timedelta(microseconds=1), 86_400_000_000)
    halvings = age_days / Fraction(half_life)
    return 0.0 if halvings > 1100 else 0.5 ** float(halvings)


def merged(weights: Mapping[Place, float]) -> list[Place]:
    """Rule R6 word for word, given each item's decay: in turn, fact first, then by score without disturbing ties."""
    longest = max((rank for _, rank in weights), default=-1) + 1
    in_turn = [(kind, rank) for rank in range(longest) for kind in ("fact", "episode") if (kind, rank) in weights]
    return sorted(in_turn, key=lambda place: 1 / (60 + place[1] + 1) * weights[place], reverse=True)


def check(items: Sequence[Ranked] | Sequence[InjectedItem], moments_of: Mapping[Place, datetime | None],
          now: datetime, half_life: float | None) -> None:  # fmt: skip
    """Numbers and order of the items are those of the rules."""
    weights: dict[Place, float] = {}
    for item in items:
        place = (item.kind, item.rank or 0)
        weights[place] = item.decay
        assert item.relevance == 1 / (60 + place[1] + 1)
        assert item.score == 1 / (60 + place[1] + 1) * item.decay
        assert math.isclose(item.decay, aged(moments_of[place], now, half_life), rel_tol=1e-9, abs_tol=1e-300)
    assert weights.keys() == moments_of.keys()
    assert [(item.kind, item.rank or 0) for item in items] == merged(weights)


def places(facts: Sequence[datetime | None], episodes: Sequence[datetime | None]) -> dict[Place, datetime | None]:
    return {("fact", n): at for n, at in enumerate(facts)} | {("episode", n): at for n, at in enumerate(episodes)}


def found(facts: Sequence[datetime | None], episodes: Sequence[datetime | None]) -> Candidates:
    return Candidates(
        facts=tuple(FactMatch(Fact("A", "is", f"f{n}", id=f"{n}", recorded_at=at), 0) for n, at in enumerate(facts)),
        episodes=tuple(
            EpisodeMatch(Episode(f"e{n}", "", session_id="s", id=f"{n}", occurred_at=at), 0)
            for n, at in enumerate(episodes)
        ),
    )


@given(
    facts=st.lists(st.none() | moments(), max_size=12),
    episodes=st.lists(st.none() | moments(), max_size=12),
    now=moments(),
    half_life=half_lives(),
)
def test_r6_order_is_that_of_the_rule(
    facts: list[datetime | None], episodes: list[datetime | None], now: datetime, half_life: float | None
) -> None:
    ranked = rank(found(facts, episodes), now=now, half_life_days=half_life)
    check(ranked, places(facts, episodes), now, half_life)


@given(facts=st.integers(0, 12), episodes=st.integers(0, 12))
def test_r6_without_decay_facts_and_episodes_take_turns(facts: int, episodes: int) -> None:
    ranked = rank(found([NOW] * facts, [NOW] * episodes), now=NOW)
    wanted = sorted([(n, 0) for n in range(facts)] + [(n, 1) for n in range(episodes)])
    assert [(item.rank, ("fact", "episode").index(item.kind)) for item in ranked] == wanted


@given(
    facts=st.integers(0, 8),
    episodes=st.integers(0, 5),
    half_life=half_lives(),
    now=moments(),
    moment=st.none() | moments(),
)
def test_r6_ties_keep_their_order_at_any_age(
    facts: int, episodes: int, half_life: float | None, now: datetime, moment: datetime | None
) -> None:
    ranked = rank(found([moment] * facts, [moment] * episodes), now=now, half_life_days=half_life)
    wanted = sorted([(n, 0) for n in range(facts)] + [(n, 1) for n in range(episodes)])
    assert [(item.rank, ("fact", "episode").index(item.kind)) for item in ranked] == wanted


@given(moment=st.none() | moments(), now=moments(), half_life=half_lives())
def test_r7_decay_is_a_weight_for_any_time(moment: datetime | None, now: datetime, half_life: float | None) -> None:
    weight = decay(moment, now, half_life)
    assert 0.0 <= weight <= 1.0
    if moment is None or half_life is None or moment >= now:
        assert weight == 1.0


@given(ages=st.tuples(st.integers(0, 700_000), st.integers(0, 700_000)), half_life=st.floats(1e-300, 1e300))
def test_r7_older_never_weighs_more(ages: tuple[int, int], half_life: float) -> None:
    younger, older = sorted(ages)
    assert decay(NOW - timedelta(days=older), LAST, half_life) <= decay(NOW - timedelta(days=younger), LAST, half_life)


@given(days=st.integers(1, 700_000))
def test_r7_after_one_half_life_a_memory_counts_half(days: int) -> None:
    assert decay(NOW - timedelta(days=days), NOW, float(days)) == 0.5
    assert decay(NOW - timedelta(days=days), NOW, days / 2) == 0.25


@given(
    recorded=st.lists(moments(), min_size=1, max_size=5),
    occurred=st.lists(moments().filter(lambda at: at <= NOW), min_size=1, max_size=3),
    half_life=st.floats(1e-300, 1e300) | st.just(30.0),
)
async def test_r6_holds_through_a_memory(recorded: list[datetime], occurred: list[datetime], half_life: float) -> None:
    tuning = Tuning(memory_token_budget=10_000, memory_decay_half_life_days=half_life)
    async with Memory(SQLiteStore(None, clock=lambda: NOW), embedder=None) as memory:
        await memory.facts.append([Fact("tea", "fits", f"f{n}", recorded_at=at) for n, at in enumerate(recorded)])
        await memory.remember(
            [Episode("tea", f"e{n}", session_id="s", occurred_at=at) for n, at in enumerate(occurred)]
        )
        injection = await memory.inject("tea", tuning=tuning)
        facts = [fact.recorded_at for fact in await memory.recall_facts("tea")]
        episodes = [match.episode.occurred_at for match in await memory.recall_scored("tea")]
    assert injection.problems == ()
    assert len(facts) == len(recorded)
    assert len(episodes) == len(occurred)
    check(injection.items, places(facts, episodes), NOW, half_life)


def test_r7_the_ends_of_time_are_just_dates() -> None:
    assert decay(FIRST, LAST, 1e-300) == 0.0
    assert decay(FIRST, LAST, 1e300) == 1.0
    assert decay(LAST, FIRST, 30.0) == 1.0
