"""A memory file of schema 1, which had another index: it opens, keeps every row, and is searched at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import loomflow.stores
from loomflow import Episode, Fact, Memory, Tuning
from loomflow.index.segments import from_bytes
from loomflow.moments import to_micros
from loomflow.predicates import SYNONYMS, predicate_key
from loomflow.stores.rows import block_of, episode_columns, fact_columns
from loomflow.stores.sqlite import SQLiteStore
from loomflow.stores.sqlite_connections import APPLICATION_ID

MIGRATIONS = Path(loomflow.stores.__file__).parent / "migrations" / "sqlite"
NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
MANY = 2500

ANA: list[Episode] = [
    Episode("We bought a kayak.", "Nice!", session_id="boats", id="kayak", occurred_at=NOW - timedelta(days=40),
            user_name="Ana Lima", agent_name="Nova", metadata={"k": [1, None, "ü"]}),
    Episode("周五之前要重构登录页面", "", session_id="work", id="cjk", occurred_at=NOW - timedelta(days=9)),
    Episode("", f"{'The river was high that day. ' * 40}The kestrel sat on the mill.", session_id="boats", id="long",
            occurred_at=NOW - timedelta(days=3)),
]  # fmt: skip
FACTS: list[Fact] = [
    Fact("Ana", "lives_in", "Porto", id="home", recorded_at=NOW - timedelta(9), retired_at=NOW - timedelta(5)),
    Fact("Ana", "likes", "oolong", id="tea", recorded_at=NOW - timedelta(days=7), source_episode_id="kayak",
         confidence=0.25, metadata={"from": "kayak"}),
    Fact("Ana", "lives_in", "Braga", id="home", recorded_at=NOW - timedelta(days=5)),
]  # fmt: skip


LATER = ("origin", "quote", "told_at", "sources")
"""Columns of facts that schema 1 did not have."""


def insert(db: sqlite3.Connection, table: str, **values: Any) -> int:
    """Insert a row; its number."""
    if "owner" in values:
        values["user_no"] = values.pop("owner")
    marks = ", ".join(f":{name}" for name in values)
    number = db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values).lastrowid
    assert number is not None
    return number


def add_user(db: sqlite3.Connection, user: str, episodes: Sequence[Episode], facts: Sequence[Fact]) -> None:
    """Write a user's rows as the old version did; texts without spaces had another text for the index."""
    user_no = insert(db, "users", user_id=user, next_turn=len(episodes), block_floor=3)
    for turn, episode in enumerate(episodes, 1):
        spelled = "周五 五之 之前 前要 登录 录页 页面" if episode.id == "cjk" else None
        number = insert(db, "episodes", **episode_columns(episode, user_no, turn), index_text=spelled)
        insert(
            db, "vectors", user_no=user_no, kind=0, embedder_no=1, item_no=number, vector=np.ones(8, "<f2").tobytes()
        )
        if episode.id == "kayak":
            insert(db, "episode_messages", episode_no=number, messages="[]")
    for fact in facts:
        columns = {name: value for name, value in fact_columns(fact, user_no).items() if name not in LATER}
        number = insert(db, "facts", **columns, index_text=None)
        insert(
            db, "vectors", user_no=user_no, kind=1, embedder_no=1, item_no=number, vector=np.ones(8, "<f2").tobytes()
        )
    for name, content, updated_at, version in (("profile", "Vegetarian.", NOW, 2), ("log", "one\ntwo", NOW, 7)):
        moment = to_micros(updated_at)
        insert(
            db,
            "blocks",
            user_no=user_no,
            name=name,
            content=content,
            updated_at=moment,
            version=version,
            position=version,
        )
    insert(
        db, "open_runs", user_no=user_no, run_id="r", session_id="boats", turn=len(episodes) + 1,
        started_at=to_micros(NOW), prompt="are you there?", is_text=1, error="killed",
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file as schema 1 had it: a user with a name, one without, and one with many episodes."""
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((MIGRATIONS / "0001_initial.sql").read_text(encoding="utf-8"))
        insert(db, "embedders", no=1, name="old")
        add_user(db, "ana", ANA, FACTS)
        add_user(db, "", [Episode("an owl", "Indeed.", session_id="s", id="owl", occurred_at=NOW)], [])
        many = [
            Episode(f"walk {n}", "", session_id=f"{n % 9}", id=f"{n}", occurred_at=NOW - timedelta(hours=n))
            for n in range(MANY)
        ]
        add_user(db, "bo", many, [])
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA journal_mode = WAL")
        db.commit()
    return path


def opened(path: Path, embedder: Any = None) -> Memory:
    return Memory(SQLiteStore(path, clock=lambda: NOW), embedder=embedder)


def indexed(path: Path) -> dict[tuple[str, int], list[int]]:
    """The row numbers in the keyword index, by user and kind, as another program sees them."""
    found: dict[tuple[str, int], list[int]] = {}
    query = "SELECT user_id, kind, data FROM segments s, users u WHERE u.no = user_no AND embedder_no = 0 ORDER BY s.no"
    with closing(sqlite3.connect(path)) as db:
        for user, kind, data in db.execute(query):
            found.setdefault((user, kind), []).extend(from_bytes(data).numbers.tolist())
    return found


def numbers(path: Path, table: str, user: str) -> list[int]:
    query = f"SELECT no FROM {table} WHERE user_no = (SELECT no FROM users WHERE user_id = ?) ORDER BY no"
    with closing(sqlite3.connect(path)) as db:
        return [number for (number,) in db.execute(query, (user,))]


async def test_every_row_is_kept(path: Path) -> None:
    async with opened(path) as memory:
        assert sorted(map(str, await memory.users())) == ["None", "ana", "bo"]
        assert [(episode.id, episode.text, episode.metadata) for episode in await memory.store.episodes("ana")] == [
            (episode.id, episode.text, dict(episode.metadata)) for episode in ANA
        ]
        assert [
            (fact.id, fact.object, fact.recorded_at, fact.retired_at, fact.confidence, fact.source_episode_id)
            for fact in await memory.facts.history(user_id="ana")
        ] == [
            (fact.id, fact.object, fact.recorded_at, fact.retired_at, fact.confidence, fact.source_episode_id)
            for fact in FACTS
        ]
        assert await memory.working(user_id="ana") == [
            block_of((name, content, to_micros(NOW), version), "ana")
            for name, content, version in (("profile", "Vegetarian.", 2), ("log", "one\ntwo", 7))
        ]
        first, *_, interrupted = await memory.store.turns("ana", "boats")
        assert (first.messages, interrupted.interrupted and interrupted.interrupted.error) == ("[]", "killed")
        assert (await memory.stats()).episodes == MANY + 4
        assert sorted((await memory.store.names("ana")).speakers) == ["Ana Lima", "Nova"]
        assert (await memory.update_block("new", "x", user_id="ana")).version == 4
    with closing(sqlite3.connect(path)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        assert db.execute("PRAGMA user_version").fetchone() == (len(list(MIGRATIONS.iterdir())),)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert not {"vectors", "episode_index", "fact_index"} & tables
    assert {"segments", "names"} <= tables


@pytest.mark.parametrize("mode", ["top", "fill"])
@pytest.mark.parametrize("embedder", [None, "default"])
async def test_keywords_find_what_is_there_at_once(
    path: Path, mode: Literal["top", "fill"], embedder: str | None
) -> None:
    tuning = Tuning(memory_mode=mode, memory_token_budget=400)
    async with opened(path, embedder) as memory:
        for question, expected in (
            ("Where is the kestrel?", "The kestrel sat on the mill."), ("登录页面怎么样了", "周五之前要重构登录页面"),
            ("Which kayak did Ana buy?", "We bought a kayak."), ("oolong", "Ana likes oolong"),
        ):  # fmt: skip
            injection = await memory.inject(question, user_id="ana", tuning=tuning)
            assert injection.problems == ()
            assert expected in injection.text
            assert "walk" not in injection.text
        assert "Porto" not in (await memory.inject("lives in Porto", user_id="ana", tuning=tuning)).text
        assert "walk 1234" in (await memory.inject("walk 1234", user_id="bo", tuning=tuning)).text
        assert "an owl" in (await memory.inject("owl", tuning=tuning)).text


@pytest.mark.parametrize("embedder", [None, "default"])
async def test_the_index_has_every_row_once_whoever_comes_first(path: Path, embedder: str | None) -> None:
    async with opened(path, embedder) as one, opened(path, embedder) as other:
        found = await asyncio.gather(*(memory.recall("walk", user_id="bo", limit=MANY) for memory in (one, other) * 3))
        assert {len(episodes) for episodes in found} == {MANY}
        await one.remember(Episode("a new walk", "", session_id="s", user_id="bo", occurred_at=NOW))
        assert len(await other.recall("walk", user_id="bo", limit=MANY + 9)) == MANY + 1
    assert indexed(path) == {("bo", 0): numbers(path, "episodes", "bo")}


async def test_what_is_written_before_the_first_search_is_indexed_with_the_rest(path: Path) -> None:
    async with opened(path) as memory:
        await memory.facts.append(Fact("Ana", "lives_in", "Faro", user_id="ana", id="home", recorded_at=NOW))
        await memory.remember(Episode("a second kayak", "", session_id="s", user_id="ana", occurred_at=NOW))
    assert indexed(path) == {
        ("ana", kind): numbers(path, table, "ana") for kind, table in enumerate(("episodes", "facts"))
    }
    async with opened(path) as memory:
        assert {episode.id for episode in await memory.recall("kayak", user_id="ana")} >= {"kayak"}
        assert [fact.object for fact in await memory.recall_facts("lives", user_id="ana")] == ["Faro"]


async def test_what_is_forgotten_before_the_first_search_is_not_found(path: Path) -> None:
    async with opened(path) as memory:
        forgotten = await memory.forget(user_id="ana", session_id="boats")
        assert (forgotten.facts, forgotten.episodes) == (1, 2)
        assert await memory.recall("kayak kestrel", user_id="ana") == []
        assert [episode.id for episode in await memory.recall("登录", user_id="ana")] == ["cjk"]
        assert (await memory.store.names("ana")).speakers == []
        assert (await memory.forget(user_id="bo")).episodes == MANY
        assert await memory.recall("walk", user_id="bo") == []
    assert set(indexed(path)) == {("ana", 0), ("ana", 1)}


async def test_reembedding_gives_everything_vectors(path: Path) -> None:
    async with opened(path, "default") as memory:
        assert (await memory.stats(user_id="ana")).unembedded == 5
        assert all(match.vector_rank is None for match in await memory.recall_scored("kayak", user_id="ana"))
        assert await memory.reembed(user_id="ana") == 5
        assert (await memory.stats(user_id="ana")).unembedded == 0
        matches = await memory.recall_scored("We bought a kayak.", user_id="ana")
        assert [match.vector_rank for match in matches if match.episode.id == "kayak"] == [0]
        assert matches[0].similarity == pytest.approx(1, abs=0.01)
        assert len(matches) == 3
        assert await memory.reembed(user_id=None) == 1
        assert await memory.reembed(user_id="bo") == MANY
        assert (await memory.stats()).unembedded == 0


def add_fact_of_old(path: Path, subject: str, old_key: str, object_: str) -> None:
    """Write a fact as the old version did, which compared every predicate for itself."""
    fact = Fact(subject, old_key, object_, id=f"{subject} {old_key}", recorded_at=NOW - timedelta(days=9))
    with closing(sqlite3.connect(path)) as db:
        ((user_no,),) = db.execute("SELECT no FROM users WHERE user_id = 'ana'").fetchall()
        columns = {name: value for name, value in fact_columns(fact, user_no).items() if name not in LATER}
        insert(db, "facts", **columns | {"predicate_key": old_key}, index_text=None)
        db.commit()


FAVOURITES = {"favourite": "favorite", "favourite color": "favorite color", "my favourite tea": "my favorite tea"}


async def test_old_predicates_are_compared_as_new_ones(path: Path) -> None:
    keys = SYNONYMS | FAVOURITES
    for old_key in keys:
        add_fact_of_old(path, f"Ida, {old_key}", old_key, "old")
    async with opened(path) as memory:
        for old_key, key in keys.items():
            assert predicate_key(old_key) == key
            found = [
                await memory.facts.query(subject=f"Ida, {old_key}", predicate=name, user_id="ana")
                for name in (key, old_key)
            ]
            assert [[(fact.predicate, fact.object) for fact in facts] for facts in found] == [[(old_key, "old")]] * 2


async def test_a_new_value_ends_an_old_one_under_another_name(path: Path) -> None:
    add_fact_of_old(path, "Ida", "is employed at", "Acme")
    async with opened(path) as memory:
        await memory.facts.append(Fact("Ida", "works_for", "Orbis", user_id="ana"))
        assert [fact.object for fact in await memory.facts.query(subject="Ida", user_id="ana")] == ["Orbis"]
        acme, _ = [fact for fact in await memory.facts.history("Ida", user_id="ana") if fact.retired_at is None]
        assert (acme.predicate, acme.valid_from, acme.valid_until) == ("is employed at", NOW - timedelta(days=9), NOW)


async def test_an_old_fact_counts_as_its_own_telling(path: Path) -> None:
    async with opened(path) as memory:
        store = memory.store
        store.clock = lambda: NOW + timedelta(days=1)
        await memory.facts.append(
            Fact("Ana", "likes", "oolong", user_id="ana", source_episode_id="cjk", quote="I like oolong")
        )
        (tea,) = await memory.facts.query(predicate="likes", user_id="ana")
        assert [(one.id, one.episode_id, one.told_at) for one in tea.sources[:1]] == [
            ("tea", "kayak", NOW - timedelta(days=7))
        ]
        assert [one.quote for one in tea.sources] == [None, "I like oolong"]
        assert (tea.id, tea.confidence, tea.metadata) == ("tea", 1.0, {"from": "kayak"})
        forgotten = await memory.forget(user_id="ana", session_id="boats")
        assert (forgotten.facts, forgotten.episodes) == (1, 2)
        (tea,) = await memory.facts.query(predicate="likes", user_id="ana")
        assert [one.episode_id for one in tea.sources] == ["cjk"]
