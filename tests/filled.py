"""A memory with something of everything in it, of a user and of the anonymous one, and what is recalled of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from loomflow import Episode, Fact, Memory

QUESTION = "Which quince cake did she bake in Braga?"


def episodes(user: str | None, count: int = 40) -> list[Episode]:
    said = [f"I baked quince cake number {n} in Braga." for n in range(count)]
    return [
        Episode(
            text, "Noted, with cinnamon.", id=f"e{n}", session_id=f"s{n // 8}", user_id=user, user_name="Ana",
            occurred_at=datetime(2026, 1, 1 + n % 28, tzinfo=UTC),
        )
        for n, text in enumerate(said)
    ]  # fmt: skip


async def fill(memory: Memory) -> None:
    for user in ("ana", None):
        await memory.remember(episodes(user)[:20])
        await memory.remember(episodes(user)[20:], distill=True)
        await memory.facts.append([
            Fact("Ana", "likes", f"quince jam {n}", user_id=user, source_episode_id=f"e{n}") for n in range(10)
        ])  # fmt: skip
        await memory.facts.append(Fact("Ana", "lives_in", "Porto", user_id=user))
        await memory.facts.append(Fact("Ana", "lives_in", "Braga", user_id=user))
        await memory.update_block("profile", "Ana bakes.", user_id=user)
        await memory.update_block("profile", "Ana bakes quinces.", user_id=user)


async def recalled(memory: Memory) -> list[Any]:
    found: list[Any] = []
    for user in ("ana", None):
        matches = await memory.recall_scored(QUESTION, user_id=user, limit=50)
        found.append([(one.episode.id, one.lexical_rank, one.vector_rank) for one in matches])
        found.append([fact.text for fact in await memory.recall_facts(QUESTION, user_id=user)])
        found.append((await memory.inject(QUESTION, user_id=user)).text)
    return found
