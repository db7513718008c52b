"""The event loop is not held up: a watchdog measures each turn of it while a memory of 10,000 episodes is used.

What is measured is the CPU that the loop's own thread spends between two turns of a task, so that other threads and
other programs do no harm. The limit is 50 ms on a machine of the reference, see `tests.watching`, and in proportion on
slower ones; a faster one gets no less.
"""

from __future__ import annotations

import asyncio

import pytest

from loomflow import Agent, EchoModel, Episode, Fact, Memory, Tuning
from tests.watching import on_this_machine, watched

from .ledger import Ledger, kind_of

LIMIT_MS = 50.0
EPISODES, BATCH = 10_000, 500


TEXTS = [f"ferry number {n} to island {n % 97} at gate {n % 13}" for n in range(EPISODES)]
TOLD = [Episode(text, "noted", session_id=f"s{n % 50}") for n, text in enumerate(TEXTS)]
FACTS = [Fact(f"ferry {n}", "sails from", f"gate {n % 13}") for n in range(200)]


async def fill(memory: Memory) -> None:
    for start in range(0, EPISODES, BATCH):
        await memory.remember(TOLD[start : start + BATCH])
    await memory.facts.append(FACTS)


async def use(memory: Memory, budget: int | None) -> None:
    """All that an agent and its program do with a memory in the course of a day."""
    agent = Agent(model=EchoModel(), memory=memory, tuning=Tuning(memory_token_budget=budget))
    for number in range(10):
        result = await agent.run(f"which ferry goes from gate {number} to the island", session_id="talk")
        assert result.injection.problems == ()
    runs = [agent.run(f"ferry {number}", session_id=f"t{number}") for number in range(20)]
    await asyncio.gather(*runs, *(memory.recall(f"to island {number}", limit=100) for number in range(20)))
    await memory.append_block("profile", "likes ferries")
    await memory.facts.query()
    await memory.stats()
    await memory.session_messages("s7")
    await memory.forget(user_id=None, session_id="s1")


@pytest.mark.slow
async def test_no_turn_of_the_event_loop_takes_long_at_ten_thousand_episodes(store_url: str, ledger: Ledger) -> None:
    limit = on_this_machine(LIMIT_MS)
    entry = ledger.entry(f"event loop at {EPISODES:,} episodes, {kind_of(store_url)}", "CPU of a turn of the loop")
    async with Memory.open(store_url) as memory:
        await Agent(model=EchoModel(), memory=memory).run("warm up", user_id="other")  # loads pydantic-ai
        async with watched() as filling:
            await fill(memory)
        async with watched() as using:
            for budget in (None, 1500):
                await use(memory, budget)
    async with watched() as opening, Memory.open(store_url) as memory:
        await memory.recall("which ferry goes to the island")
    turns = {"filling": filling, "using": using, "opening": opening}
    for measured in turns.values():
        entry.tried += len(measured)
        for turn in measured:
            if turn < limit:
                entry.count(turn)
    assert {name: max(measured) for name, measured in turns.items() if max(measured) >= limit} == {}
    assert all(len(measured) > 3 for measured in turns.values())
