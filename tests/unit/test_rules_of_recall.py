"""The rules of injection R9 to R12, by number, at the level of a memory and of an agent: what is recalled at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loomflow import Agent, EchoModel, Episode, Fact, InjectedItem, Injection, Memory, Tuning, estimate_tokens

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def episode(said: str, answered: str = "", *, session_id: str = "old", days: float = 0, **fields: Any) -> Episode:
    return Episode(said, answered, session_id=session_id, occurred_at=days_ago(days), **fields)


def kept(injection: Injection, kind: str) -> list[InjectedItem]:
    return [item for item in injection.items if item.kind == kind and item.status != "dropped"]


# R9: recall does not repeat the conversation


async def test_r9_own_session_is_left_out_before_the_limit(still_memory: Memory) -> None:
    await still_memory.remember([episode(f"tea tea tea {n}", session_id="now", id=f"now{n}") for n in range(14)])
    await still_memory.remember(episode("I once had tea in a far away place", session_id="then", id="then"))
    (found,) = await still_memory.recall("tea", limit=3, without_session="now")
    assert found.id == "then"
    for tuning in (Tuning(), Tuning(memory_token_budget=400)):
        injection = await still_memory.inject("tea", session_id="now", tuning=tuning)
        assert injection.problems == ()
        assert [item.id for item in injection.items] == ["then"]
    assert "then" not in [item.id for item in (await still_memory.recall("tea", limit=3))]


async def test_r9_turns_that_no_longer_fit_in_the_history_may_be_recalled(still_memory: Memory) -> None:
    await still_memory.remember([episode(f"tea {n}", session_id="now", id=f"now{n}") for n in range(4)])
    injection = await still_memory.inject("tea", session_id="now", in_history=["now2", "now3"])
    assert {item.id for item in injection.items} == {"now0", "now1"}


async def test_r9_an_agent_does_not_recall_what_is_in_its_history() -> None:
    model = EchoModel()
    async with Memory.open(embedder=None) as memory:
        agent = Agent(model=model, memory=memory)
        await agent.run("I like tea", session_id="a")
        await agent.run("tea again", session_id="b")
        result = await agent.run("tea?", session_id="b")
        preview = await agent.preview("tea?", session_id="b")
    assert [item.text.partition("] ")[2] for item in result.injection.items] == [
        "User: I like tea ⏎ Agent: Echo: I like tea"
    ]
    assert [item.id for item in preview.items] == [item.id for item in result.injection.items]


# R10: how tokens are counted


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("漢字", 2), ("a漢", 2), ("안녕", 2), ("カナ", 2), ("👍", 1)],
)
def test_r10_four_narrow_characters_or_one_wide_one_are_a_token(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


async def test_r10_the_callers_counter_measures_everything(still_memory: Memory) -> None:
    await still_memory.update_block("profile", "Vegetarian, likes walking.")
    await still_memory.facts.append(Fact("Alice", "likes", "tea"))
    tuning = Tuning(memory_token_budget=500, token_counter=len)
    injection = await still_memory.inject("tea", tuning=tuning)
    assert injection.tokens == len(injection.text)
    assert [item.tokens for item in injection.items] == [
        len("Block profile:\n> Vegetarian, likes walking."),
        len("- Alice likes tea"),
    ]


async def test_r10_a_counter_that_raises_does_not_fail_the_run(
    still_memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(text: str) -> int:
        raise ValueError("special token")

    await still_memory.facts.append(Fact("Alice", "likes", "tea"))
    injection = await still_memory.inject("tea", tuning=Tuning(memory_token_budget=500, token_counter=refuse))
    assert injection.tokens == estimate_tokens(injection.text)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# R11: only what is true now


async def test_r11_only_the_current_employer_of_seven_is_injected(still_memory: Memory) -> None:
    for number in range(7):
        await still_memory.facts.append(
            Fact("Alice", "works_for", f"company {number}", valid_from=days_ago(1000 - number), id=f"f{number}")
        )
    injection = await still_memory.inject("Which company does Alice work for?")
    assert [item.text for item in injection.items] == ["(since 2024-02-13) Alice works_for company 6"]
    assert [fact.id for fact in await still_memory.recall_facts("company", limit=1)] == ["f6"]
    assert len(await still_memory.facts.history("Alice", "works_for")) == 13


async def test_r11_superseded_ended_future_and_retracted_facts_are_left_out(still_memory: Memory) -> None:
    await still_memory.facts.append(
        [
            Fact("Alice", "visits", "the tea house", valid_until=days_ago(1), id="ended"),
            Fact("Alice", "visits", "the tea garden", valid_from=days_ago(-1), id="future"),
            Fact("Alice", "visits", "the tea shop", id="retracted"),
            Fact("Alice", "visits", "the tea room", valid_from=days_ago(9), valid_until=days_ago(-9), id="current"),
        ]
    )
    assert await still_memory.facts.retract("retracted")
    injection = await still_memory.inject("tea")
    assert [item.id for item in injection.items] == ["current"]
    assert {item.id for item in (await still_memory.inject("tea", at=days_ago(-2))).items} == {"future", "current"}


async def test_r11_what_is_not_true_takes_no_place_of_what_is(still_memory: Memory) -> None:
    over = [Fact("tea", "is", f"tea {n}", valid_until=days_ago(1)) for n in range(60)]
    await still_memory.facts.append([*over, Fact("Alice", "drinks", "in the afternoon some tea", id="true")])
    assert [fact.id for fact in await still_memory.recall_facts("tea", limit=1)] == ["true"]
    assert [item.id for item in (await still_memory.inject("tea")).items] == ["true"]


# R12: nothing twice


async def test_r12_near_identical_items_are_shown_once(still_memory: Memory) -> None:
    await still_memory.remember(
        [episode("I like tea.", "Noted!"), episode("i like  TEA", "noted"), episode("I like rice tea", "")]
    )
    await still_memory.facts.append([Fact("Alice", "likes", "tea"), Fact("alice", "Likes", "the tea")])
    injection = await still_memory.inject("like tea")
    assert len(kept(injection, "episode")) == 2
    assert len(kept(injection, "fact")) == 1
    reasons = {item.reason for item in injection.items if item.status == "dropped"}
    assert reasons == {"says the same as a better ranked episode", "says the same as a better ranked fact"}


async def test_r12_texts_that_say_the_opposite_are_both_shown(still_memory: Memory) -> None:
    await still_memory.facts.append(
        [Fact("Alice", "likes", "C"), Fact("Alice", "likes", "C++"), Fact("Alice", "likes", "not C")]
    )
    assert len(kept(await still_memory.inject("Alice likes"), "fact")) == 3


async def test_r12_repetitions_do_not_crowd_out_other_memories(still_memory: Memory) -> None:
    await still_memory.remember([episode("tea", "Noted.", id=f"same{n}") for n in range(40)])
    await still_memory.remember(episode("I had tea in a far away place once", id="other"))
    assert "other" in [item.id for item in kept(await still_memory.inject("tea"), "episode")]


async def test_r12_a_fact_from_a_turn_in_the_history_is_not_repeated(still_memory: Memory) -> None:
    await still_memory.remember(
        [episode("I like tea", session_id="now", id="turn"), episode("tea", session_id="now", id="old")]
    )
    await still_memory.facts.append(
        [
            Fact("Alice", "likes", "tea", source_episode_id="turn", id="from turn"),
            Fact("Alice", "buys", "tea", source_episode_id="old", id="from old"),
        ]
    )
    assert kept(await still_memory.inject("tea", session_id="now"), "fact") == []
    injection = await still_memory.inject("tea", session_id="now", in_history=["turn"])
    assert {item.id for item in injection.items} == {"from old", "old"}
