"""A memory is copied between databases of any kind: whole, compared, and again where it was stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from loomflow import ConfigError, Episode, Fact, Memory, StoreError
from loomflow.records import OpenRun
from loomflow.stores.copying import Copied, copy_memory
from loomflow.stores.sqlite import SQLiteStore
from tests.command_line import run
from tests.filled import episodes, fill, recalled

LONG = "x" * 600
"""A user id that is too long for an index of PostgreSQL."""
KILLED_AFTER = 512

KILLED = """
import asyncio, os, signal, sys
from loomflow import Memory
from loomflow.stores.copying import copy_memory

def progress(done, total):
    if done >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Memory.open(sys.argv[1], embedder=None) as one, Memory.open(sys.argv[2], embedder=None) as other:
        await copy_memory(one.store, other.store, progress=progress)

asyncio.run(main())
"""


async def fill_more(memory: Memory) -> None:
    """What `fill` leaves out: runs that are open, messages, a queue with a claim and a parked run, odd texts."""
    await fill(memory)
    store = memory.store
    now = store.clock()
    await store.begin_run("ana", OpenRun("r1", "s9", "Is it \x00 done?", now))
    await store.begin_run("ana", OpenRun("r2", "s9", "And now?", now))
    await store.interrupt_run("ana", "s9", "r2", '[{"kind": "request"}]', "timed out")
    taken = await store.claim_undistilled("claim of a process", 60, 2, user_id="ana")
    await store.postpone_undistilled("ana", taken[0].episode.id or "", "claim of a process", "model is down", None)
    await memory.remember(
        Episode("zero \x00 and \x10 and \x11 🍐", "ok", session_id="s", user_id=LONG, metadata={"a": [1]})
    )
    await memory.update_block("gone", "Nobody reads it.", user_id=LONG)
    await memory.delete_block("gone", user_id=LONG)
    await memory.update_block("only", "a block", user_id="block")
    await memory.delete_block("only", user_id="block")
    await memory.facts.append(Fact("Bo", "lives_in", "Évora", user_id="bo", metadata={"b": "ç"}, confidence=0.3))


async def everything(memory: Memory) -> list[Any]:
    found: list[Any] = [await recalled(memory)]
    for user in await memory.users():
        exported = json.dumps(await memory.export(user), ensure_ascii=False)
        turns = await memory.store.turns(user, None)
        blocks = [
            await memory.working(user_id=user, at=block.updated_at) for block in await memory.working(user_id=user)
        ]
        found.append(
            (user, exported, turns, blocks, await memory.store.queue(user_id=user), await memory.store.names(user))
        )
    found.append((await memory.stats()).unembedded)
    found.append(await memory.store.undistilled_claims())
    return found


async def copied(source: str | Path, destination: str | Path) -> Copied:
    async with Memory.open(source) as one, Memory.open(destination) as other:
        return await copy_memory(one.store, other.store)


async def all_of(url: str | Path) -> list[Any]:
    async with Memory.open(url) as memory:
        assert (await memory.check()).is_whole
        return await everything(memory)


async def test_a_memory_goes_from_sqlite_to_postgresql_and_back(tmp_path: Path, postgres_url: str) -> None:
    first, last = tmp_path / "first.db", tmp_path / "last.db"
    async with Memory.open(first) as memory:
        await fill_more(memory)
    before = await all_of(first)
    there = await copied(first, f"{postgres_url}?exact_up_to=10")
    assert there.users == 5
    assert there.rows["episodes"] == 81
    assert there.rows["open_runs"] == 2
    assert await all_of(f"{postgres_url}?exact_up_to=1000") == before
    assert await copied(postgres_url, last) == there
    assert await all_of(last) == before
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        rows = await (
            await connection.execute("SELECT user_id, count(*) FROM loomflow.large_episodes GROUP BY 1")
        ).fetchall()
    assert sorted(rows) == [("", 40), ("ana", 40)]  # filled anew


async def test_what_was_copied_can_be_written_to(tmp_path: Path, postgres_url: str) -> None:
    """Numbers go on behind those that were copied, in tables, segments and turns."""
    async with Memory.open(tmp_path / "a.db") as memory:
        await fill_more(memory)
    await copied(tmp_path / "a.db", postgres_url)
    await copied(postgres_url, tmp_path / "b.db")
    await copied(tmp_path / "b.db", tmp_path / "c.db")
    for url in (tmp_path / "a.db", postgres_url, tmp_path / "b.db", tmp_path / "c.db"):
        async with Memory.open(url) as memory:
            await memory.remember(
                Episode("The kiln is in the shed.", "Noted.", session_id="new", user_id="ana", id="kiln")
            )
            await memory.facts.append(Fact("Ana", "lives_in", "Faro", user_id="ana"))
            block = await memory.update_block("only", "again", user_id="block")
            assert block.version == 2
            assert [one.id for one in await memory.recall("Where is the kiln?", user_id="ana", limit=1)] == ["kiln"]
            (fact,) = await memory.facts.query(user_id="ana", predicate="lives_in")
            assert fact.object == "Faro"
            assert (await memory.store.episodes("ana"))[-1].id == "kiln"
            assert (await memory.check()).is_whole


async def test_postgresql_is_copied_to_another_schema(postgres_url: str) -> None:
    other = f"{postgres_url}?schema=other"
    async with Memory.open(postgres_url) as memory:
        await fill(memory)
        before = await everything(memory)
    await copied(postgres_url, other)
    assert await all_of(other) == before


@pytest.mark.parametrize("after", [KILLED_AFTER, 3 * KILLED_AFTER])
def test_a_copy_that_was_killed_goes_on(tmp_path: Path, after: int) -> None:
    first, last = tmp_path / "first.db", tmp_path / "last.db"

    async def work() -> None:
        async with Memory.open(first) as memory:
            await fill_more(memory)
            for user in ("many", "more"):
                async with Memory.open(first, embedder=None) as plain:
                    await plain.remember(episodes(user, 800))

    asyncio.run(work())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(first), str(last), str(after)], check=False, timeout=120, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with sqlite3.connect(last) as connection:
        (done,) = connection.execute("SELECT count(*) FROM episodes").fetchone()
    connection.close()
    assert 0 < done < 1681
    seen: list[int] = []

    async def resume() -> Copied:
        async with Memory.open(first, embedder=None) as one, Memory.open(last, embedder=None) as other:
            return await copy_memory(one.store, other.store, progress=lambda done, _: seen.append(done))

    result = asyncio.run(resume())
    assert result.resumed
    assert result.rows["episodes"] == 1681
    assert seen[0] >= done  # what was there is not copied again
    assert asyncio.run(all_of(last)) == asyncio.run(all_of(first))


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE episodes SET output = 'No.' WHERE id = 'e3'", "episodes"),
        ("UPDATE facts SET retired_at = 1 WHERE object = 'quince jam 4'", "facts"),
        ("DELETE FROM undistilled WHERE due_at > 0", "undistilled"),
        ("UPDATE segments SET data = x'00' WHERE embedder_no > 0 AND kind = 0", "segments"),
        ("UPDATE blocks SET content = 'Ana burns quinces.'", "blocks"),
    ],
)
async def test_a_row_that_changes_underway_is_noticed(tmp_path: Path, statement: str, table: str) -> None:
    path = tmp_path / "first.db"
    async with Memory.open(path) as memory:
        await fill(memory)
    changes = [statement]

    def progress(done: int, total: int) -> None:
        if done == total and changes:  # all but the small tables of the last user is copied
            with sqlite3.connect(path) as connection:
                connection.execute(changes.pop())
            connection.close()

    async with Memory.open(path) as one, Memory.open(tmp_path / "last.db") as other:
        with pytest.raises(StoreError, match=rf"the copy differs from .*first.db.*\b{table} \(\d+ rows"):
            await copy_memory(one.store, other.store, progress=progress)
        assert changes == []
        again = await copy_memory(one.store, other.store)
        assert again.resumed
        assert await other.export("ana") == await one.export("ana")


async def test_a_user_who_is_forgotten_underway_is_not_in_the_copy(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "first.db") as one, Memory.open(tmp_path / "last.db") as other:
        await fill(one)
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []

        def progress(done: int, total: int) -> None:
            if done == total and not tasks:
                tasks.append(loop.create_task(one.forget(user_id="ana")))

        with pytest.raises(StoreError, match="the copy differs from"):
            await copy_memory(one.store, other.store, progress=progress)
        await tasks[0]
        await copy_memory(one.store, other.store)
        assert await other.users() == [None]


async def test_other_destinations_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        async with Memory.open(tmp_path / f"{name}.db", embedder=None) as memory:
            await memory.remember(episodes(name, 3))
    with pytest.raises(StoreError, match=r"c\.db has the memory of 1 users already; name an empty destination"):
        await copied(tmp_path / "a.db", tmp_path / "c.db")

    def stop(done: int, total: int) -> None:
        raise InterruptedError

    async with Memory.open(tmp_path / "a.db") as one, Memory.open(tmp_path / "new.db") as other:
        with pytest.raises(InterruptedError):
            await copy_memory(one.store, other.store, progress=stop)
    with pytest.raises(StoreError, match=r"new\.db has an unfinished copy of sqlite:.*a\.db; finish that"):
        await copied(tmp_path / "b.db", tmp_path / "new.db")
    with pytest.raises(ConfigError, match="destination must be another store than the source"):
        await copied(tmp_path / "a.db", tmp_path / ".." / tmp_path.name / "a.db")
    wrong: Any = object()
    with pytest.raises(ConfigError, match="source must be an SQLite or PostgreSQL store"):
        await copy_memory(wrong, SQLiteStore(None))
    await copied(tmp_path / "a.db", tmp_path / "new.db")
    with pytest.raises(StoreError, match="already"):  # it is a memory like any other now
        await copied(tmp_path / "a.db", tmp_path / "new.db")


def test_the_command_copies_and_says_what(tmp_path: Path, postgres_url: str) -> None:
    async def work() -> None:
        async with Memory.open(tmp_path / "a.db") as memory:
            await fill(memory)

    asyncio.run(work())
    done = run("memory", "copy", str(tmp_path / "a.db"), postgres_url)
    assert done.stdout.endswith(", and compared: 2 users, 80 episodes, 26 fact versions, 2 blocks\n")
    assert "quince-and-medlar" not in done.output
    fields = json.loads(run("memory", "copy", postgres_url, str(tmp_path / "b.db"), "--json").stdout)
    assert (fields["users"], fields["resumed"], fields["rows"]["block_versions"]) == (2, False, 2)
    assert "no memory at" in run("memory", "copy", str(tmp_path / "none.db"), str(tmp_path / "c.db"), status=1).stderr
    refused = run("memory", "copy", str(tmp_path / "a.db"), str(tmp_path / "b.db"), status=1)
    assert "name an empty destination" in refused.stderr
