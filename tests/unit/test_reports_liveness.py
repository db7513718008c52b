"""A program that runs for long: the event loop is never held up, and nothing grows with the number of sessions."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from loomflow import Agent, Episode, Fact, Memory, Tuning
from tests.watching import on_this_machine, watched

LONGEST_TURN_MS = 100.0
"""Milliseconds of CPU that the thread of the event loop may spend in one turn, on the reference machine."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 10,000 episodes and 500 facts of one user, all of which have a word in common."""
    path = tmp_path_factory.mktemp("large") / "memory.db"

    async def fill() -> None:
        async with Memory.open(path) as memory:
            for start in range(0, 10_000, 2_000):
                numbers = range(start, start + 2_000)
                texts = [f"ferry number {n} to island {n % 97} at gate {n % 13}" for n in numbers]
                await memory.remember([Episode(text, "noted", session_id=f"s{n % 50}") for n, text in enumerate(texts)])
            await memory.facts.append([Fact(f"ferry {n}", "sails from", f"gate {n % 13}") for n in range(500)])

    asyncio.run(fill())
    return path


@pytest.mark.parametrize("budget", [None, 1500])
async def test_the_event_loop_runs_on_while_a_large_memory_is_searched(large: Path, budget: int | None) -> None:
    tuning = Tuning(memory_token_budget=budget, memory_decay_half_life_days=30)
    async with Memory.open(large) as memory:
        await memory.working()
        await memory.recall("warm up of the embedder")
        async with watched() as gaps:
            for number in range(20):
                question = f"which ferry goes from gate {number} to the island"
                injection = await memory.inject(question, session_id=f"s{number}", tuning=tuning)
                assert injection.problems == ()
            await asyncio.gather(*(memory.recall(f"ferry to island {number}", limit=100) for number in range(20)))
            await memory.facts.query()
            await memory.stats()
    assert len(gaps) > 20
    assert max(gaps) < on_this_machine(LONGEST_TURN_MS)


async def test_the_event_loop_runs_on_while_a_large_memory_is_opened(large: Path) -> None:
    async with watched() as gaps, Memory.open(large) as memory:
        await memory.recall("which ferry goes to the island")
    assert max(gaps) < on_this_machine(LONGEST_TURN_MS)


async def test_the_event_loop_runs_on_while_much_is_written(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory.db") as memory:
        await memory.recall("warm up of the embedder")
        async with watched() as gaps:
            await memory.remember([Episode(f"ferry {n}", "noted", session_id="s") for n in range(2_000)])
            await memory.facts.append([Fact(f"ferry {n}", "sails from", "gate 1") for n in range(500)])
            await memory.forget(user_id=None)
    assert max(gaps) < on_this_machine(LONGEST_TURN_MS)


@pytest.mark.slow
async def test_a_long_lived_agent_stops_growing(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory.db") as memory:
        agent = Agent(model=FunctionModel(lambda _, __: ModelResponse(parts=[TextPart("ok")])), memory=memory)

        async def objects_after(numbers: range) -> int:
            """The number of objects alive after a short session for each number, four of them at a time."""
            for start in numbers[::4]:
                sessions = range(start, start + 4)
                await asyncio.gather(*(agent.run(f"ferry {n}", user_id="ana", session_id=f"s{n}") for n in sessions))
            gc.collect()
            return sum(type(alive) is not weakref.ref for alive in gc.get_objects())

        await objects_after(range(20))
        counts = [await objects_after(range(start, start + 48)) for start in range(20, 308, 48)]
        # A single object kept for each session would add 144. Weak references come and go in sets that shrink late.
        assert min(counts[3:]) - min(counts[:3]) < 120
        assert len(agent.memory.session_locks) == 0
        assert len(await memory.session_messages("s7", user_id="ana")) == 2


async def test_many_users_leave_little_behind(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder=None) as memory:

        async def bytes_after(numbers: range) -> int:
            """The memory in use after each of so many users came once."""
            for number in numbers:
                await memory.append_block("profile", "likes tea", user_id=f"user {number}")
                injection = await memory.inject("tea", user_id=f"user {number}", session_id="s")
                assert injection.problems == ()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            await bytes_after(range(100))
            before = await bytes_after(range(100, 200))
            after = await bytes_after(range(200, 600))
        finally:
            tracemalloc.stop()
        assert after - before < 400 * 256
        assert len(await memory.users()) == 600
