"""Large users in PostgreSQL, who are searched through the server's indexes: what is found, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import psycopg
import pytest
from benchmarks.corpus import questions, turns
from psycopg import sql

from loomflow import Episode, Injection, Memory, Tuning
from tests.postgres_server import fresh_database

TURNS = 3_000
LARGE = 300
"""Users with more episodes are large, in the tests."""
QUESTIONS = 40
FILL = Tuning(memory_mode="fill", memory_token_budget=1_500)

LEAST_OVERLAP = 0.9
"""The stated tolerance: so much of what SQLite finds is found, on average."""
LEAST_FIRST = 0.95
"""And the best of it is the same for so many questions."""

INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = 'loomflow'"
PLANS = {
    """SELECT episode_no FROM large_vectors
       WHERE user_id = 'ana' AND embedder_no = 1 AND dimensions = 256
       ORDER BY vector::halfvec(256) <=> array_fill(1, ARRAY[256])::halfvec(256) LIMIT 256""": "large_vectors_1_256",
    "SELECT episode_no FROM large_episodes WHERE user_id = 'ana' AND terms @@ 'ab'::tsquery": "large_episodes_by_term",
}

BEHIND = """
SELECT count(*) FROM loomflow.segments s
    LEFT JOIN loomflow.large_up_to u ON u.user_id = s.user_id AND u.embedder_no = s.embedder_no
WHERE s.kind = 0 AND (u.segment_no IS NULL OR s.no > u.segment_no)
"""


def large(url: str, exact_up_to: int = LARGE) -> str:
    return f"{url}{'&' if '?' in url else '?'}exact_up_to={exact_up_to}"


async def asked(url: str, query: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await (await connection.execute(sql.SQL(query))).fetchall()  # pyright: ignore[reportArgumentType]


async def caught_up(memory: Memory, url: str, user: str) -> None:
    """Wait until the server's tables have all of a large user."""
    for _ in range(2_400):
        await memory.recall("catch up", user_id=user)
        if await asked(url, BEHIND) == [(0,)]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the tables were not filled in time")


def of_corpus(user: str, count: int = TURNS) -> list[Episode]:
    return [
        Episode(
            turn.input, turn.output, user_id=user, session_id=turn.session, id=turn.id, occurred_at=turn.occurred_at
        )
        for turn in turns(count)
    ]


def ids(found: Sequence[Episode]) -> list[str]:
    return [str(episode.id) for episode in found]


def shown(injection: Injection) -> list[str]:
    """The text of each line of a block."""
    assert injection.problems == ()
    return injection.text.splitlines()[1:]


def overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """Which share of `other` is in `one` too."""
    return len(set(one) & set(other)) / len(set(other))


@pytest.fixture(scope="module")
def both(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A database with a large user who is in its tables, and a SQLite file with the same memory."""
    path = tmp_path_factory.mktemp("large") / "memory.db"

    async def fill(url: str) -> None:
        episodes = of_corpus("ana")
        async with Memory.open(large(url)) as memory, Memory.open(path) as small:
            for start in range(0, TURNS, 500):
                await memory.remember(episodes[start : start + 500])
                await small.remember(episodes[start : start + 500])
            await caught_up(memory, url, "ana")

    with fresh_database(postgres_server_url) as url:
        asyncio.run(fill(url))
        yield url, path


@asynccontextmanager
async def opened(both: tuple[str, Path]) -> AsyncGenerator[tuple[Memory, Memory]]:
    url, path = both
    async with Memory.open(large(url)) as memory, Memory.open(path) as small:
        yield memory, small


@pytest.mark.parametrize("limit", [3, 10])
async def test_a_large_user_is_recalled_as_in_sqlite(both: tuple[str, Path], limit: int) -> None:
    same: list[float] = []
    firsts = 0
    async with opened(both) as (memory, small):
        for _, text in questions(QUESTIONS, TURNS):
            found = ids(await memory.recall(text, user_id="ana", limit=limit))
            expected = ids(await small.recall(text, user_id="ana", limit=limit))
            assert len(found) == len(expected) == limit
            firsts += found[0] == expected[0]
            same.append(overlap(found, expected))
    assert fmean(same) >= LEAST_OVERLAP
    assert firsts >= LEAST_FIRST * QUESTIONS


async def test_the_block_of_a_large_user_is_as_in_sqlite(both: tuple[str, Path]) -> None:
    same: list[float] = []
    async with opened(both) as (memory, small):
        for _, text in questions(QUESTIONS, TURNS):
            injection = await memory.inject(text, user_id="ana", tuning=FILL)
            expected = await small.inject(text, user_id="ana", tuning=FILL)
            assert injection.tokens <= 1_500
            same.append(overlap(shown(injection), shown(expected)))
    assert fmean(same) >= LEAST_OVERLAP


async def test_the_server_looks_within_the_user_first(both: tuple[str, Path]) -> None:
    """The plans use the indexes, and none of them reaches another user's rows."""
    url, _ = both
    names = {name for (name,) in await asked(url, INDEXES)}
    assert any(name.startswith("large_vectors_") and name[-1].isdigit() for name in names)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SET search_path = loomflow, public")
        await connection.execute("SET enable_seqscan = off")
        await connection.execute("SET enable_sort = off")
        for query, index in PLANS.items():
            rows = await (await connection.execute(sql.SQL("EXPLAIN " + query))).fetchall()  # pyright: ignore
            plan = "\n".join(line for (line,) in rows)
            assert index in plan, plan
            assert "user_id = 'ana'" in plan
