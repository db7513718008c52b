"""Damage in a memory is found, and what follows from the rows is made anew. All of the damage here is real."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from loomflow import ConfigError, Episode, Fact, Memory, SchemaError
from loomflow.index import segments
from loomflow.stores.checking import CheckReport
from tests.command_line import run
from tests.filled import fill, recalled


def tables(report: CheckReport) -> set[tuple[str, str | None, str]]:
    return {(fault.table, fault.user_id, fault.what) for fault in report.faults}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def work() -> None:
        async with Memory.open(tmp_path / "memory.db") as memory:
            await fill(memory)

    asyncio.run(work())
    return tmp_path / "memory.db"


async def all_recalled(path: Path) -> list[Any]:
    async with Memory.open(path) as memory:
        return await recalled(memory)


def damaged(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement, values)
    connection.close()


USER = "user_no = (SELECT no FROM users WHERE user_id = 'ana')"
OTHER_SEGMENT = f"(SELECT data FROM segments WHERE kind = 0 AND embedder_no = 0 AND {USER} ORDER BY no DESC LIMIT 1)"
FIRST = f"WHERE kind = 0 AND {USER} AND no = (SELECT min(no) FROM segments WHERE kind = 0 AND {USER})"

KEYWORD_DAMAGE = {
    "missing": (f"DELETE FROM segments {FIRST} AND embedder_no = 0", "20 not indexed"),
    "cut off": (f"UPDATE segments SET data = substr(data, 1, 60) {FIRST} AND embedder_no = 0",
                "20 not indexed, 1 unreadable segments"),
    "no bytes": (f"UPDATE segments SET data = 'words' {FIRST} AND embedder_no = 0",
                 "20 not indexed, 1 unreadable segments"),
    "of other items": (f"UPDATE segments SET data = {OTHER_SEGMENT} {FIRST} AND embedder_no = 0",
                       "20 not indexed, 20 indexed wrongly"),
}  # fmt: skip


async def test_a_whole_memory_is_whole(path: Path) -> None:
    async with Memory.open(path) as memory:
        report = await memory.check()
    assert report == CheckReport((), (), users=2, episodes=80, facts=26, unembedded={})
    assert report.is_whole


@pytest.mark.parametrize("name", KEYWORD_DAMAGE)
async def test_a_damaged_keyword_index_is_found_and_made_anew(path: Path, name: str) -> None:
    async with Memory.open(path) as memory:
        before, exported = await recalled(memory), await memory.export("ana")
    statement, what = KEYWORD_DAMAGE[name]
    damaged(path, statement)
    async with Memory.open(path) as memory:
        report = await memory.check()
        assert tables(report) == {("keywords of episodes", "ana", what)}
        assert not report.is_whole
        repaired = await memory.check(repair=True)
        assert repaired.repaired == report.faults
        assert repaired.is_whole
        assert await recalled(memory) == before
        assert await memory.export("ana") == exported


async def test_index_rows_of_episodes_that_are_gone_are_taken_out(path: Path) -> None:
    """Rows deleted behind the index's back leave it with words and vectors of nothing."""
    damaged(path, f"DELETE FROM episodes WHERE id = 'e3' AND {USER}", "DELETE FROM episode_messages WHERE 0")
    async with Memory.open(path) as memory:
        assert tables(await memory.check()) == {
            ("keywords of episodes", "ana", "1 indexed but not there"),
            ("vectors of episodes", "ana", "1 indexed but not there"),
        }
        assert (await memory.check(repair=True)).is_whole
        found = await memory.recall_scored("quince cake number 3 in Braga", user_id="ana", limit=50)
        assert len(found) == 39


async def test_an_index_row_of_an_unknown_episode_is_taken_out(path: Path) -> None:
    async with Memory.open(path) as memory:
        before = await recalled(memory)
    unknown = segments.build([segments.entry_of(4711, Episode("Which quince cake?", "That one.", session_id="s"))])
    damaged(
        path, "INSERT INTO segments SELECT no, 0, 0, 99, 1, ? FROM users WHERE user_id = 'ana'",
        values=(segments.to_bytes(unknown),),
    )  # fmt: skip
    async with Memory.open(path) as memory:
        assert tables(await memory.check()) == {("keywords of episodes", "ana", "1 indexed but not there")}
        assert (await memory.check(repair=True)).is_whole
        assert await recalled(memory) == before


async def test_changed_vectors_are_found_and_made_again_by_reembedding(path: Path) -> None:
    async with Memory.open(path) as memory:
        before = await recalled(memory)
    connection = sqlite3.connect(path)
    query = f"SELECT rowid, data FROM segments WHERE kind = 0 AND embedder_no > 0 AND {USER} ORDER BY no LIMIT 1"
    with connection:
        number, data = connection.execute(query).fetchone()
        changed = data[:-300] + bytes(byte ^ 0x55 for byte in data[-300:-290]) + data[-290:]
        connection.execute("UPDATE segments SET data = ? WHERE rowid = ?", (changed, number))
    connection.close()
    async with Memory.open(path) as memory:
        (fault,) = (await memory.check()).faults
        assert (fault.table, fault.what) == ("vectors of episodes", "1 indexed wrongly")
        report = await memory.check(repair=True)
        assert report.is_whole
        assert list(report.unembedded.values()) == [1]
        assert await memory.reembed(user_id="ana") == 1
        assert (await memory.check()).unembedded == {}
        assert await recalled(memory) == before


async def test_names_that_are_not_those_of_the_episodes(path: Path) -> None:
    damaged(path, f"DELETE FROM names WHERE {USER}", "INSERT INTO names SELECT no, 'Eve', 1 FROM users")
    async with Memory.open(path) as memory:
        assert {(fault.table, fault.user_id) for fault in (await memory.check()).faults} == {
            ("names", "ana"), ("names", None),
        }  # fmt: skip
        assert (await memory.check(repair=True)).is_whole
        assert (await memory.store.names("ana")).users == ("Ana",)


@pytest.mark.parametrize(
    ("statement", "table", "named"),
    [
        ("UPDATE episodes SET metadata = '{\"a\": ' WHERE id = 'e7'", "episodes", "e7"),
        ("UPDATE episodes SET occurred_at = 'noon' WHERE id = 'e7'", "episodes", "e7"),
        ("UPDATE facts SET sources = '[[1]]' WHERE object = 'quince jam 4'", "facts", ""),
        ("UPDATE blocks SET content = x'00ff' WHERE name = 'profile'", "blocks and their versions", "profile"),
        (
            "INSERT INTO episode_messages SELECT no, '[{' FROM episodes WHERE id = 'e9'",
            "episode_messages",
            "e9",
        ),
    ],
)
async def test_a_row_that_cannot_be_decoded_is_named_and_kept(
    path: Path, statement: str, table: str, named: str
) -> None:
    damaged(path, statement)
    async with Memory.open(path) as memory:
        before = sqlite3.connect(path)
        rows = before.execute("SELECT (SELECT count(*) FROM episodes), (SELECT count(*) FROM facts)").fetchone()
        for report in (await memory.check(), await memory.check(repair=True)):
            assert {(fault.kind, fault.table, fault.user_id) for fault in report.faults} == {
                ("row", table, "ana"), ("row", table, None),
            }  # fmt: skip
            assert all(fault.what.startswith(f"1 cannot be decoded: {named}") for fault in report.faults)
            assert all("restore a backup" in fault.advice and ".recover" in fault.advice for fault in report.faults)
        assert before.execute("SELECT (SELECT count(*) FROM episodes), (SELECT count(*) FROM facts)").fetchone() == rows
        before.close()


async def test_rows_of_nothing_are_found(path: Path) -> None:
    damaged(
        path, "INSERT INTO segments VALUES (999, 0, 0, 1, 0, x'00')",
        "INSERT INTO episode_messages VALUES (999, '[]')", "INSERT INTO names VALUES (999, 'Eve', 0)",
    )  # fmt: skip
    async with Memory.open(path) as memory:
        what = "1 rows belong to nothing that is there"
        assert tables(await memory.check()) == {
            ("segments", None, what), ("episode_messages", None, what), ("names", None, what)
        }  # fmt: skip
        report = await memory.check(repair=True)
        assert tables(report) == {("episode_messages", None, what)}
        assert {fault.table for fault in report.repaired} == {"segments", "names"}


def overwritten(path: Path, table: str) -> None:
    """Write nonsense over a page in the middle of a table or index."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)


def test_overwritten_pages_of_rows_are_found_and_not_repairable(path: Path) -> None:
    overwritten(path, "episodes")
    printed = run("memory", "check", str(path), status=1)
    assert printed.stdout.startswith("damaged: ")
    assert "malformed" in printed.stdout
    assert ".recover" in printed.stderr
    run("memory", "check", str(path), "--repair", status=1)
    fields = json.loads(run("memory", "check", str(path), "--json", status=1).stdout)
    assert fields["is_whole"] is False
    assert {fault["kind"] for fault in fields["faults"]} == {"pages"}


def stale(path: Path, index: str, statement: str) -> None:
    """Change rows while the database does not know of one of its indexes."""
    with sqlite3.connect(path) as connection:
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (index,))
    connection.close()
    damaged(path, statement)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    connection.close()


def test_an_index_of_the_database_that_is_stale_is_made_anew(path: Path) -> None:
    before = asyncio.run(all_recalled(path))
    stale(path, "episodes_of_session", "UPDATE episodes SET turn = turn + 100 WHERE id = 'e5'")
    assert "damaged: database" in run("memory", "check", str(path), status=1).stdout
    assert "repaired: database" in run("memory", "check", str(path), "--repair").stdout
    assert run("memory", "check", str(path)).stdout == "whole: 2 users, 80 episodes, 26 fact versions\n"
    assert asyncio.run(all_recalled(path)) == before


async def test_forgetting_is_no_damage(path: Path) -> None:
    async with Memory.open(path) as memory:
        await memory.facts.append(Fact("Ana", "likes", "quince jam 3", user_id="ana", source_episode_id="e30"))
        await memory.forget(user_id="ana", session_id="s0")
        await memory.forget(user_id=None)
        assert (await memory.check()).is_whole


async def test_what_is_no_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(SchemaError, match="not an SQLite database"):
        await Memory.open(tmp_path / "other.db").check()
    store: Any = object()
    with pytest.raises(ConfigError, match="store must be"):
        await Memory(store, embedder=None).check()


# PostgreSQL


async def changed(url: str, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(statement.encode())


async def test_postgresql_is_checked_and_repaired(postgres_url: str) -> None:
    url = f"{postgres_url}?exact_up_to=10"
    async with Memory.open(url) as memory:
        await fill(memory)
        for user in ("ana", None):
            store: Any = memory.store
            await store.tend(user)
        before, exported = await recalled(memory), await memory.export("ana")
        assert (await memory.check()).is_whole
        for statement, table in [
            ("DELETE FROM loomflow.large_episodes WHERE episode_no % 10 = 0", "large_episodes"),
            ("UPDATE loomflow.large_episodes SET length = 99 WHERE episode_no % 10 = 0", "large_episodes"),
            ("UPDATE loomflow.large_episodes SET terms = ''::tsvector", "large_episodes"),
            ("DELETE FROM loomflow.large_vectors WHERE episode_no % 10 = 0", "large_vectors"),
            ("UPDATE loomflow.large_vectors SET vector = vector + vector", "large_vectors"),
            ("UPDATE loomflow.segments SET data = 'x' WHERE embedder_no = 0 AND kind = 1", "keywords of facts"),
            ("DELETE FROM loomflow.names", "names"),
        ]:
            await changed(postgres_url, statement)
            faults = (await memory.check()).faults
            assert {(fault.table, fault.user_id) for fault in faults} == {(table, "ana"), (table, None)}
            report = await memory.check(repair=True)
            assert report.repaired == faults
            assert report.is_whole
            assert await recalled(memory) == before
        await changed(postgres_url, "UPDATE loomflow.episodes SET metadata = '[' WHERE id = 'e1'")
        assert {fault.advice for fault in (await memory.check(repair=True)).faults} == {"restore a backup"}
        await changed(postgres_url, "UPDATE loomflow.episodes SET metadata = '{}' WHERE id = 'e1'")
        assert await memory.export("ana") == exported
