"""Nothing waits without an end: useless vectors, a database that another program has locked."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loomflow import Agent, ConfigError, EchoModel, Episode, Fact, LoomflowError, Memory, StoreError, Tuning
from loomflow.stores import sqlite_connections


@pytest.mark.parametrize("number", [0.0, float("nan"), float("inf")])
async def test_reembedding_ends_where_vectors_are_of_no_use(number: float) -> None:
    calls: list[int] = []

    def useless(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        return [[number] * 4 for _ in texts]

    async with Memory.open(embedder=useless) as memory:
        await memory.facts.append([Fact("Ana", "likes", f"tea {n}") for n in range(5)])
        calls.clear()
        assert await memory.reembed(user_id=None, batch=2) == 0
        assert (await memory.stats()).unembedded == 5
    assert calls[:3] == [2, 2, 1]
    assert len(calls) <= 4  # once more, to learn how long the vectors are


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A memory of one session, which another program keeps from being written."""
    path = tmp_path / "memory.db"

    async def fill() -> None:
        async with Memory.open(path, embedder=None) as memory:
            await memory.remember(Episode("Hello", "Hi", session_id="s"))

    asyncio.run(fill())
    monkeypatch.setattr(sqlite_connections, "BUSY_TIMEOUT_MS", 1_000)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield path
    other.execute("ROLLBACK")
    other.close()


def test_a_run_on_a_locked_memory_has_its_history_and_says_what_was_lost(locked: Path) -> None:
    echo = EchoModel()
    agent = Agent(model=echo, memory=locked, tuning=Tuning(recall_timeout_seconds=0.3))
    result = agent.run_sync("Are you there?", session_id="s")
    assert result.output == "Echo: Are you there?"
    assert echo.requests[0].messages == (("user", "Hello"), ("assistant", "Hi"), ("user", "Are you there?"))
    assert result.injection.problems[0] == "the run could not be noted before it began: timed out"
    assert result.injection.problems[1].startswith("the run could not be remembered: ")
    assert "locked" in result.injection.problems[1]


def test_a_run_on_a_locked_memory_can_be_given_up(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomflow.runs.SETTLE_SECONDS", 0.2)
    agent = Agent(model=EchoModel(), memory=locked)

    async def give_up() -> float:
        await agent.memory.store.open()
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.run("Are you there?", session_id="s"), 0.3)
        return time.monotonic() - started

    assert asyncio.run(give_up()) < 5


async def test_a_folder_is_not_taken_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "memory.db").mkdir()
    with pytest.raises(StoreError, match="it is a folder; name a file in it"):
        await Memory.open(tmp_path / "memory.db").store.open()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": None}, "model must be a name"),
        ({"model": EchoModel}, "model must be a name"),
        ({"model": "gpt-4.1", "base_url": 5}, "base_url must be an http:// or https:// URL"),
        ({"model": "gpt-4.1", "base_url": "nonsense"}, "base_url must be an http:// or https:// URL"),
        ({"model": "gpt-4.1", "api_key": "geheim\u00e9"}, "api_key must be non-blank printable ASCII"),
        ({"model": "gpt-4.1", "tools": 5}, "tools must be a list, got 5"),
    ],
)
def test_an_agent_checks_its_arguments_when_it_is_made(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(LoomflowError, match=said) as caught:
        Agent(**arguments)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert "geheim" not in str(caught.value)


async def test_what_is_no_list_is_refused_by_name() -> None:
    async with Memory.open(embedder=None) as memory:
        with pytest.raises(ConfigError, match="facts must be a Fact or a list of them, got None"):
            await memory.facts.append(None)  # pyright: ignore[reportArgumentType, reportCallIssue]
        with pytest.raises(ConfigError, match="episodes must be an Episode or a list of them, got 5"):
            await memory.remember(5)  # pyright: ignore[reportArgumentType, reportCallIssue]
        with pytest.raises(ConfigError, match=r"data must be what export gave, a mapping, got \[\]"):
            await memory.import_([])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"embedder must be .*, got 5"):
        Memory.open(embedder=5)
