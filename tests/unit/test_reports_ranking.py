"""What is worth a line: other conversations before this one, nothing twice, true similarity where it is compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loomflow import Agent, EchoModel, Episode, Fact, Memory, Tuning


@pytest.fixture(params=[None, "default"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory by keyword only, then one with the default embedder."""
    async with Memory.open(tmp_path / "memory.db", embedder=request.param) as memory:
        yield memory


BUDGETS = [None, 1500, 200]


# The running conversation


@pytest.mark.parametrize("tokens", BUDGETS)
@pytest.mark.parametrize("turns", [3, 14, 60])
async def test_own_turns_do_not_crowd_out_other_conversations(memory: Memory, turns: int, tokens: int | None) -> None:
    await memory.remember(Episode("we booked the hotel Nordlys", "for the Bergen weekend", session_id="february"))
    await memory.remember(
        [Episode("my trip to Bergen", "what about your trip to Bergen?", session_id="now") for _ in range(turns)]
    )
    tuning = Tuning(memory_token_budget=tokens)
    injection = await memory.inject("my trip to Bergen", session_id="now", tuning=tuning)
    assert injection.problems == ()
    assert "Nordlys" in injection.text
    assert "what about" not in injection.text
    echo = EchoModel()
    await Agent(model=echo, memory=memory, tuning=tuning).run("my trip to Bergen", session_id="now")
    assert "Nordlys" in echo.requests[0].system
    assert "what about" not in echo.requests[0].system
    assert sum(role == "user" for role, _ in echo.requests[0].messages) == turns + 1


async def test_facts_told_in_this_conversation_are_not_repeated(memory: Memory) -> None:
    result = await Agent(model=EchoModel(), memory=memory).run("I moved to Bergen", session_id="now")
    await memory.facts.append(Fact("user", "lives_in", "Bergen", source_episode_id=result.run_id))
    assert "lives_in" not in (await memory.inject("Bergen", session_id="now")).text
    assert "lives_in" in (await memory.inject("Bergen", session_id="another")).text


# Nothing twice


@pytest.mark.parametrize("tokens", BUDGETS)
@pytest.mark.parametrize(
    "variants",
    [
        ["meetings before 10", "Meetings before 10", "meetings  before 10.", "meetings before 10!"],
        ["the very early meetings", "early meetings", "really early meetings", "also the early meetings"],
        ["晨会", "晨会。", "晨会！", "晨会"],
    ],
)
async def test_restatements_leave_room_for_other_facts(memory: Memory, variants: list[str], tokens: int | None) -> None:
    subjects = ["user", "User", "USER", " user "]
    for number, variant in enumerate(variants):
        await memory.facts.append(Fact(subjects[number], "dislikes", variant))
        await memory.facts.append(Fact(subjects[number], "really dislikes", variant))
    await memory.facts.append(Fact("user", "reports to", "Ravi"))
    injection = await memory.inject("user dislikes meetings 晨会", tuning=Tuning(memory_token_budget=tokens))
    assert injection.text.count("dislikes") <= 2
    assert "Ravi" in injection.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("meetings before 10", "meetings after 10"),
        ("to meet before 10", "not to meet before 10"),
        ("C", "C++"),
        ("5 degrees", "-5 degrees"),
        ("no nuts", "nuts"),
        ("tea?", "tea"),
    ],
)
async def test_facts_that_say_something_else_are_never_folded(memory: Memory, one: str, other: str) -> None:
    await memory.facts.append([Fact("user", "wants", one), Fact("user", "wants", other)])
    lines = (await memory.inject("user wants")).text.splitlines()
    assert {f"- user wants {one}", f"- user wants {other}"} <= set(lines)


async def test_an_episode_repeated_word_for_word_is_shown_once(memory: Memory) -> None:
    await memory.remember([Episode("Tea?", "Yes, tea.", session_id=f"s{number}") for number in range(6)])
    await memory.remember(Episode("tea at the harbour", "noted", session_id="s"))
    text = (await memory.inject("tea")).text
    assert text.count("Yes, tea.") == 1
    assert "harbour" in text


async def test_an_episode_written_again_after_a_timeout_is_one(memory: Memory) -> None:
    told = Episode("tea at the harbour", "noted", session_id="s", id="e-77")
    first, second, third = [await memory.remember(told) for _ in range(3)]
    assert first == second == third
    assert len(await memory.recall("tea harbour")) == 1
    assert (await memory.stats()).episodes == 1
    assert [message.run_id for message in await memory.session_messages("s")] == ["e-77", "e-77"]


@pytest.mark.parametrize("words", [("likes", "tea"), ("lives_in", "Turin"), ("Lives In", "TURIN ")])
async def test_a_fact_stated_on_three_days_is_one_fact(memory: Memory, words: tuple[str, str]) -> None:
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 5, 9)]
    for day in days:
        await memory.facts.append(Fact("user", *words, valid_from=day, recorded_at=day))
    (fact,) = await memory.facts.query()
    assert (fact.valid_from, fact.valid_until, fact.recorded_at) == (days[0], None, days[-1])
    assert (await memory.inject(words[1])).text.count("since") == 1
    assert (await memory.stats()).facts == 1


# Scores that say what they are


@pytest.mark.parametrize("text", ["the lease of the boat ends on 2031-04-02", "护照2031年到期", "x1-77/B"])
async def test_an_exact_match_is_recalled_first_and_recognised_as_known(memory: Memory, text: str) -> None:
    await memory.facts.append([Fact("Ola", "note", f"something else {number}") for number in range(8)])
    await memory.facts.append(Fact("Ola", "note", text))
    await memory.remember([Episode(text, "", session_id="s"), Episode("something else", "", session_id="s")])
    assert (await memory.recall_facts(text, limit=1))[0].object == text
    best = (await memory.recall_scored(text))[0]
    assert best.episode.input == text
    assert best.lexical_rank == 0
    if memory.embedder is not None:
        assert best.similarity is not None
        assert best.similarity > 0.9
    before = await memory.stats()
    await memory.facts.append(Fact("ola", "Note", text))
    assert (await memory.stats()).facts == before.facts
