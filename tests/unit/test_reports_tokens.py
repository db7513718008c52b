"""The ceiling as a user meets it: small budgets, long memories, big blocks, wide characters, counters that fail."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from loomflow import Agent, ConfigError, EchoModel, Episode, Fact, Memory, Tuning, estimate_tokens

EXCERPT_ALLOWANCE = 32
SPECIAL = "the notes mention <|endoftext|> and <|im_start|>system and [INST] too"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder=None) as memory:
        yield memory


def budget(tokens: int, counter: Callable[[str], int] | None = None) -> Tuning:
    return Tuning(memory_token_budget=tokens, token_counter=counter)


# Small budgets


@pytest.mark.parametrize("tokens", [1, 8, 16, 33, 40, 64, 128, 300])
@pytest.mark.parametrize("length", [20, 600, 20_000])
@pytest.mark.parametrize("kind", ["fact", "episode"])
async def test_the_best_memory_is_always_in_and_cut_if_need_be(
    memory: Memory, tokens: int, length: int, kind: str
) -> None:
    text = ("migration plan: " + "first we move the tables, then the views and then the rest. " * 400)[:length].strip()
    if kind == "fact":
        await memory.facts.append(Fact("Priya's", "note", text))
    else:
        await memory.remember(Episode(text, "", session_id="s"))
    injection = await memory.inject("migration plan", tuning=budget(tokens))
    assert "migration plan" in injection.text
    assert injection.tokens == estimate_tokens(injection.text)
    assert injection.tokens <= max(tokens, EXCERPT_ALLOWANCE)
    (item,) = injection.items
    assert item.status == ("truncated" if injection.text.endswith("…[truncated]") else "injected")
    assert (item.status == "injected") == (text in injection.text)
    assert bool(injection.over_budget) == (injection.tokens > tokens)


async def test_a_long_best_memory_does_not_keep_the_block_empty_for_the_rest(memory: Memory) -> None:
    await memory.facts.append([Fact("plan", "is", "migration plan " * 200), Fact("plan", "has", "a date")])
    injection = await memory.inject("migration plan", tuning=budget(60))
    assert [item.status for item in injection.items] == ["truncated", "dropped"]
    assert 40 <= injection.tokens <= 60


@pytest.mark.parametrize("wrong", [0, -1, -1500, 1.5, "300", True, False, float("nan"), float("inf")])
async def test_a_budget_that_is_no_positive_count_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(ConfigError, match=f"memory_token_budget.*{wrong!r}"):
        Tuning(memory_token_budget=cast("Any", wrong))


async def test_no_budget_means_the_limits_on_items_alone(memory: Memory) -> None:
    await memory.facts.append([Fact("Ana", "likes", f"tea {'x' * 4000} {number}") for number in range(9)])
    await memory.remember([Episode(f"tea {'y' * 4000} {number}", "", session_id="s") for number in range(9)])
    injection = await memory.inject("tea", tuning=Tuning(memory_token_budget=None))
    kinds = [item.kind for item in injection.items if item.status == "injected"]
    assert kinds == ["fact"] * 5 + ["episode"] * 3
    assert injection.tokens > 8000


# Working blocks that are larger than the budget


@pytest.mark.parametrize("tokens", [1, 50, 300, 600, 660])
async def test_a_block_larger_than_the_budget_is_injected_whole(memory: Memory, tokens: int) -> None:
    text = " ".join(f"preference {number}" for number in range(180))
    await memory.update_block("profile", text)
    await memory.facts.append(Fact("Ana", "prefers", "a window seat on every preference list " * 30))
    injection = await memory.inject("preference for a seat", tuning=budget(tokens))
    assert f"> {text}" in injection.text
    assert "Ana prefers" in injection.text
    assert injection.tokens <= injection.pinned_tokens + EXCERPT_ALLOWANCE
    assert injection.over_budget


async def test_a_limit_on_blocks_that_shrinks_refuses_writes_and_never_reads(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    text = "x" * 3120
    async with Memory.open(path, embedder=None) as memory:
        await memory.update_block("profile", text)
    async with Memory.open(path, embedder=None, max_block_chars=2500) as memory:
        assert [block.content for block in await memory.working()] == [text]
        result = await Agent(model=EchoModel(), memory=memory, tuning=budget(300)).run("hello")
        assert text in result.injection.text
        for write in (memory.update_block("profile", "y" * 2501), memory.append_block("profile", "y")):
            with pytest.raises(ConfigError, match=r"2500.*(2501|3122)"):
                await write
        assert [block.content for block in await memory.working()] == [text]
        await memory.update_block("profile", "y" * 2500)


# Wide characters


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("会议纪要", 4),
        ("東京の会議", 5),
        ("회의록", 3),
        ("カラオケ", 4),
        ("👩‍👩‍👧", 3),
        ("会议 notes", 3),
        ("𠮷野家", 3),
        ("ＡＢＣ", 3),
    ],
)
def test_a_wide_character_costs_a_token(text: str, least: int) -> None:
    for times in (1, 50):
        assert estimate_tokens(text * times) >= least * times


@pytest.mark.parametrize("text", ["", "a", "abcd", "abcde", "naïve café", "word " * 99, "{'k': 1}", "привет"])
def test_a_narrow_character_costs_a_quarter(text: str) -> None:
    assert estimate_tokens(text) == -(-len(text) // 4)


@pytest.mark.parametrize("text", ["会议纪要", "東京の会議", "회의록과 일정", "👩‍👩‍👧🎉"])
async def test_a_budget_holds_in_wide_scripts(memory: Memory, text: str) -> None:
    await memory.remember([Episode(f"plan {text * 50} {number}", text * 50, session_id="s") for number in range(5)])
    injection = await memory.inject("plan", tuning=budget(50))
    wide = sum(not character.isascii() for character in injection.text if character != "\u200d")
    assert 0 < wide <= 50
    assert injection.tokens <= 50


# Counters of the user's own


def refusing(text: str) -> int:
    if "<|" in text:
        raise ValueError("special token in text")
    return len(text.split())


def wrong(text: str) -> Any:
    return None


def negative(text: str) -> int:
    return -1


def fractional(text: str) -> Any:
    return len(text) / 4 + 0.1


@pytest.mark.parametrize("counter", [refusing, wrong, negative, fractional, None])
async def test_a_counter_that_cannot_count_a_text_does_not_fail_a_run(
    memory: Memory, counter: Callable[[str], int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.update_block("profile", SPECIAL)
    await memory.facts.append(Fact("note", "holds", SPECIAL))
    await memory.remember(Episode(SPECIAL, SPECIAL, session_id="s"))
    agent = Agent(model=EchoModel(), memory=memory, tuning=budget(2000, counter))
    with caplog.at_level(logging.WARNING, "loomflow"):
        _, result = [await agent.run(SPECIAL) for _ in range(2)]
    assert result.output == f"Echo: {SPECIAL}"
    assert 0 < result.injection.tokens <= 2000
    warned = [record.getMessage() for record in caplog.records if "token_counter" in record.getMessage()]
    assert tuple(warned) == result.injection.problems  # said once, and in each receipt
    assert len(warned) == (counter not in (None, refusing))  # what it refuses has been made harmless
    assert bool(warned) == (counter in (wrong, negative, fractional))
