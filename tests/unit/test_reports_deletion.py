"""Deletion that is complete, counted truly, and touches nobody else; and writes of any size in one piece."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loomflow import Agent, ConfigError, EchoModel, Episode, Fact, Memory
from loomflow.stores.relational import RelationalStore

SECRET = "xylophonist"
TABLES = ("users", "blocks", "episodes", "episode_messages", "open_runs", "facts", "segments", "names")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder="default") as memory:
        yield memory


def rows(path: Path) -> dict[str, int]:
    """How many rows each table holds, and how many bytes the index, as another program sees it."""
    with closing(sqlite3.connect(path)) as db:
        counts = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
        (counts["index"],) = db.execute("SELECT coalesce(sum(length(data)), 0) FROM segments").fetchone()
    return counts


def occurrences(folder: Path) -> dict[str, int]:
    """How often the secret stands in each file of a folder."""
    return {file.name: file.read_bytes().count(SECRET.encode()) for file in folder.iterdir()}


async def fill(memory: Memory, user: str | None, *, facts: int = 3, episodes: int = 4, session: str = "s") -> None:
    await memory.update_block("profile", f"{SECRET} block", user_id=user)
    await memory.facts.append([Fact(f"{SECRET} {n}", "plays", "at night", user_id=user) for n in range(facts)])
    await memory.remember([Episode(f"{SECRET} {n}", "yes", session_id=session, user_id=user) for n in range(episodes)])


async def test_everything_about_a_user_goes_in_one_call_however_much_it_is(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    await fill(memory, "kept", facts=2, episodes=2)
    before = (rows(path), await memory.export("kept"))
    await fill(memory, "gone", facts=231, episodes=1203)
    await Agent(model=EchoModel(), memory=memory).run(f"{SECRET}?", user_id="gone", session_id="run")
    await memory.inject(SECRET, user_id="gone")
    forgotten = await memory.forget(user_id="gone")
    assert (forgotten.blocks, forgotten.facts, forgotten.episodes) == (1, 231, 1204)
    assert forgotten.total == 1436
    assert (await memory.forget(user_id="gone")).total == 0
    assert (rows(path), await memory.export("kept")) == before
    stats = await memory.stats(user_id="gone")
    assert (stats.users, stats.sessions, stats.blocks, stats.facts, stats.fact_versions, stats.episodes) == (0,) * 6
    assert await memory.recall(SECRET, user_id="gone") == []
    assert await memory.facts.history(user_id="gone") == []
    assert (await memory.inject(SECRET, user_id="gone")).text == ""


async def test_forgetting_everybody_leaves_an_empty_file(memory: Memory, tmp_path: Path) -> None:
    for user in ("a", "b", None):
        await fill(memory, user)
    for user in await memory.users():
        await memory.forget(user_id=user)
    assert set(rows(tmp_path / "memory.db").values()) == {0}


async def test_what_was_forgotten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder="default") as memory:
        await memory.remember([Episode(f"about boats {n}", "yes", session_id="s", user_id="kept") for n in range(50)])
        await fill(memory, "gone", facts=20, episodes=50)
        await Agent(model=EchoModel(), memory=memory).run(f"{SECRET}?", user_id="gone")
        await memory.forget(user_id="gone", secure=True)
        assert set(occurrences(tmp_path).values()) == {0}
        assert len(await memory.recall("boats", user_id="kept", limit=50)) == 50
    assert occurrences(tmp_path) == {"memory.db": 0}


@pytest.mark.parametrize("narrow", [{"session_id": "unknown"}, {"before": datetime(1990, 1, 1, tzinfo=UTC)}])
async def test_forgetting_nothing_leaves_everybody_as_they_were(memory: Memory, narrow: dict[str, Any]) -> None:
    await fill(memory, "u1", facts=1, episodes=2)
    await fill(memory, "u2", facts=2, episodes=2)
    assert (await memory.forget(user_id="u1")).total == 4
    assert (await memory.forget(user_id="u2", **narrow)).total == 0
    assert (await memory.forget(user_id="unknown")).total == 0
    stats = await memory.stats(user_id="u2")
    assert (stats.blocks, stats.facts, stats.episodes) == (1, 2, 2)
    assert len(await memory.recall(SECRET, user_id="u2")) == 2
    assert len(await memory.recall_facts(SECRET, user_id="u2")) == 2


@pytest.mark.parametrize(
    "narrow", [{"session_id": ""}, {"session_id": "  "}, {"session_id": 0}, {"before": ""}, {"before": 0}]
)
async def test_an_empty_filter_is_refused_and_does_not_mean_everything(memory: Memory, narrow: dict[str, Any]) -> None:
    await fill(memory, "u1")
    with pytest.raises(ConfigError):
        await memory.forget(user_id="u1", **narrow)
    assert (await memory.stats(user_id="u1")).episodes == 4


async def test_a_forgotten_session_is_not_replayed_and_not_recalled(memory: Memory) -> None:
    echo = EchoModel()
    agent = Agent(model=echo, memory=memory)
    await agent.run(f"call me {SECRET}", user_id="u1", session_id="s")
    await memory.forget(user_id="u1", session_id="s")
    for session in ("s", "other"):
        await agent.run("what is my name?", user_id="u1", session_id=session)
        request = echo.requests[-1]
        assert SECRET not in f"{request.system} {request.messages}"


async def test_what_is_written_after_a_deletion_is_not_taken_for_what_was_there(memory: Memory) -> None:
    for word in ("cello", "kayak", "heron"):
        await memory.remember([Episode(f"{word} {n}", "", session_id="s", id=f"{n}", user_id="u") for n in range(5)])
        matches = await memory.recall_scored(word, user_id="u")
        assert {match.episode.input for match in matches} == {f"{word} {n}" for n in range(5)}
        assert all(match.similarity is None or match.similarity > 0.3 for match in matches)
        await memory.forget(user_id="u")


# Any number of ids


MANY = 300_000


async def test_three_hundred_thousand_ids_fit_one_search(memory: Memory) -> None:
    await memory.remember(
        [Episode("ferry", f"number {n}", session_id="s", id=f"id-{n}") for n in (5, MANY - 1, MANY, MANY + 1)]
    )
    await memory.facts.append(
        [Fact("ferry", "sails", f"{n}", source_episode_id=f"id-{n}") for n in (7, MANY - 1, MANY, MANY + 1)]
    )
    injection = await memory.inject("ferry sails", in_history=[f"id-{n}" for n in range(MANY)])
    assert injection.problems == ()
    assert injection.text.count("number") == 2
    assert injection.text.count("ferry sails") == 2


@pytest.fixture
def few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection made from now on takes at most 32 variables in a statement, as the smallest builds do."""
    connect = sqlite3.connect

    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)


@pytest.mark.usefixtures("few_variables")
async def test_no_statement_grows_with_the_number_of_items(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder="default") as memory:
        await fill(memory, "u", facts=120, episodes=150)
        await memory.facts.append([Fact(f"{SECRET} {n}", "plays", "at night", user_id="u") for n in range(120)])
        ids = [episode.id for episode in await memory.recall(SECRET, user_id="u", limit=140)]
        assert len(ids) == 140
        injection = await memory.inject(SECRET, user_id="u", in_history=[one for one in ids if one])
        assert injection.problems == ()
        copied = await memory.import_(await memory.export("u"), user_id="copy")
        assert (copied.facts, copied.episodes) == (len(await memory.facts.history(user_id="u")), 150)
        assert (await memory.forget(user_id="u", session_id="s")).episodes == 150
        assert (await memory.forget(user_id="copy")).episodes == 150


async def test_a_batch_that_cannot_be_written_is_not_written_in_part(memory: Memory, tmp_path: Path) -> None:
    await memory.update_block("profile", "x", user_id="u")
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as db:
        for table, column in (("episodes", "input"), ("facts", "object")):
            db.execute(
                f"CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} WHEN new.{column} = 'bad' "
                f"BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
    texts = [f"good {n}" for n in range(40)] + ["bad", "after"]
    with pytest.raises(Exception, match="refused"):
        await memory.remember([Episode(text, "", session_id="s", user_id="u") for text in texts])
    with pytest.raises(Exception, match="refused"):
        await memory.facts.append([Fact("s", "p", text, user_id="u") for text in texts])
    stats = await memory.stats(user_id="u")
    assert (stats.blocks, stats.facts, stats.fact_versions, stats.episodes) == (1, 0, 0, 0)
    assert await memory.recall("good", user_id="u") == []


@pytest.mark.parametrize("session", [None, "s"])
async def test_what_is_forgotten_leaves_the_memory_of_the_process(tmp_path: Path, session: str | None) -> None:
    """The index that was read for a search is dropped, and not kept until other users need its place."""
    async with Memory.open(tmp_path / "memory.db", embedder=None) as memory:
        for user in ("ana", "ben"):
            await memory.remember(Episode("a quince", "", session_id="s", user_id=user, user_name="Quinn"))
            assert await memory.recall("quince", user_id=user)
        store = memory.store
        assert isinstance(store, RelationalStore)
        entries = store._searcher._partitions._entries
        assert len(entries) == 2
        await memory.forget(user_id="ana", session_id=session)
        assert len(entries) == 1
        assert len(await memory.recall("quince", user_id="ben")) == 1
        assert await memory.recall("quince", user_id="ana") == []
