"""Rules R6 and R7: how facts and episodes are merged and how they age, against a plain reading of the rules.

In mode "fill" the receipt is in the order of the scores, and the block in the order of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from loomflow import Episode, EpisodeMatch, Fact, InjectedItem, Memory, Tuning
from loomflow.items import FactMatch
from loomflow.pipeline.rank import Ranked, decay, rank, rank_passages
from loomflow.pipeline.recall import Candidates, PassageCandidates
from loomflow.stores.sqlite import SQLiteStore
from tests.property.reading import parse
from tests.property.strategies import FIRST, LAST, NOW, budgets, half_lives, moments, passage_candidates, words

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


@given(found=passage_candidates(hostile=True), now=moments(), half_life=half_lives())
def test_filling_ranks_by_relevance_and_age(found: PassageCandidates, now: datetime, half_life: float | None) -> None:
    ranked = rank_passages(found, now=now, half_life_days=half_life)
    for kind, passages in (("fact", found.facts), ("episode", found.episodes)):
        own = sorted((item for item in ranked if item.kind == kind), key=lambda item: item.rank)
        assert [item.rank for item in own] == list(range(len(passages)))
        for item, passage in zip(own, passages, strict=True):
            moment = passage.item.recorded_at if isinstance(passage.item, Fact) else passage.item.occurred_at
            assert (item.id, item.relevance, item.signals) == (passage.item.id, passage.relevance, passage.signals)
            assert item.score == item.relevance * item.decay
            assert math.isclose(item.decay, aged(moment, now, half_life), rel_tol=1e-9, abs_tol=1e-300)
    keys = [(-item.score, item.rank, item.kind == "episode") for item in ranked]
    assert keys == sorted(keys)


@given(
    said=st.lists(st.tuples(words(), words(), moments().filter(lambda at: at <= NOW)), min_size=1, max_size=8),
    told=st.lists(st.tuples(words(), moments().filter(lambda at: at <= NOW)), max_size=4),
    budget=budgets(),
    half_life=half_lives(),
)
async def test_a_filled_block_is_in_the_order_of_time_and_its_receipt_in_that_of_the_scores(
    said: list[tuple[str, str, datetime]], told: list[tuple[str, datetime]], budget: int, half_life: float | None
) -> None:
    tuning = Tuning(memory_mode="fill", memory_token_budget=budget, memory_decay_half_life_days=half_life)
    async with Memory(SQLiteStore(None, clock=lambda: NOW), embedder=None) as memory:
        await memory.remember(
            [
                Episode(f"tea {first} {n}", f"so {second} {n}", session_id=f"{n % 3}", occurred_at=at, id=f"{n}")
                for n, (first, second, at) in enumerate(said)
            ]
        )
        await memory.facts.append(
            [Fact(f"tea {n}", "is", word, recorded_at=at, id=f"{n}") for n, (word, at) in enumerate(told)]
        )
        injection = await memory.inject("tea", tuning=tuning)
    assert injection.problems == ()
    assert {item.id for item in injection.items if item.kind == "fact"} == {f"{n}" for n in range(len(told))}
    scores = [item.score or 0 for item in injection.items]
    assert scores == sorted(scores, reverse=True)
    if all(item.reason == "fits" for item in injection.items if item.status != "dropped"):
        days = parse(injection.text).days
        lines = [(header[:-1], line) for header, lines in days for line in lines]
        turns = sorted((at, n, first, second) for n, (first, second, at) in enumerate(said))
        expected = [
            (at.date().isoformat(), line)
            for at, n, first, second in turns
            for line in (f"User: tea {first} {n}", f"Agent: so {second} {n}")
        ]
        assert lines == [one for one in expected if one in lines]
        assert len(days) == len({day for day, _ in lines})
        assert len(lines) == sum(item.kind == "episode" and item.status == "injected" for item in injection.items)


def test_r7_the_ends_of_time_are_just_dates() -> None:
    assert decay(FIRST, LAST, 1e-300) == 0.0
    assert decay(FIRST, LAST, 1e300) == 1.0
    assert decay(LAST, FIRST, 30.0) == 1.0
