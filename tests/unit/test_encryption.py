"""Text and vectors encrypted at rest: nothing of them is in the files, and nothing else changes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet

from loomflow import ConfigError, Episode, Fact, Memory, StoreError
from loomflow.index import segments, vectors
from loomflow.records import OpenRun
from tests.command_line import run
from tests.filled import fill, recalled

KEY, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()
MARKER = "Zanzibarquince"
"""Stands in every text that is stored."""


async def mark(memory: Memory) -> None:
    """Write the marker wherever a text can be written."""
    store = memory.store
    now = store.clock()
    marked = Episode(
        f"{MARKER} asks", f"{MARKER} answers", session_id="s1", id="e1", user_id="ana", user_name=f"{MARKER} user",
        agent_name=f"{MARKER} agent", metadata={MARKER: MARKER},
    )  # fmt: skip
    await memory.remember(marked, distill=True)
    run_ = OpenRun("r1", "s2", f"{MARKER} prompt", now)
    await store.begin_run("ana", run_)
    await store.interrupt_run("ana", "s2", "r1", f'["{MARKER}"]', f"{MARKER} error")
    for predicate in ("likes", f"{MARKER} is", "lives_in"):
        fact = Fact(f"{MARKER} of Goa", predicate, f"{MARKER} cake", user_id="ana", metadata={"k": MARKER})
        await memory.facts.append(fact)
        await memory.facts.append(Fact(fact.subject, predicate, f"{MARKER} jam", user_id="ana", source_episode_id="e1"))
    await memory.update_block(f"{MARKER} block", f"{MARKER} text", user_id="ana")
    await memory.update_block(f"{MARKER} block", f"{MARKER} text again", user_id="ana")
    (taken,) = await store.claim_undistilled("c", 60, 1, user_id="ana")
    assert taken.episode.input == marked.input
    await store.postpone_undistilled("ana", "e1", "c", f"{MARKER} went wrong", None)


def in_files(folder: Path, wanted: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if wanted.lower() in path.read_bytes().lower()]


def hidden_in_files(folder: Path) -> dict[str, list[str]]:
    """Where in the files a stored text, its base64, or its index can be read."""
    encoded = base64.b64encode(MARKER.encode())[:-2]
    word = segments.digest("zanzibarquinc").to_bytes(4, "little")  # the stem
    return {
        "text": in_files(folder, MARKER.encode()),
        "base64": in_files(folder, encoded),
        "index": in_files(folder, word),
    }


async def test_no_text_and_no_word_of_it_is_in_the_files(tmp_path: Path) -> None:
    for name, key in (("plain", None), ("sealed", KEY)):
        (tmp_path / name).mkdir()
        async with Memory.open(tmp_path / name / "memory.db", encryption_key=key) as memory:
            await mark(memory)
            found = hidden_in_files(tmp_path / name)  # with what is in the WAL
            assert [bool(places) for kind, places in found.items() if kind != "base64"] == [key is None] * 2
            assert found["base64"] == []
        if key is not None:
            assert hidden_in_files(tmp_path / name) == {"text": [], "base64": [], "index": []}


async def test_no_vector_is_in_the_files(tmp_path: Path) -> None:
    """The codes of an item are the same in both stores before they are sealed."""
    datas: list[list[bytes]] = []
    for name, key in (("plain", None), ("sealed", KEY)):
        async with Memory.open(tmp_path / f"{name}.db", encryption_key=key) as memory:
            await mark(memory)
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            query = "SELECT data FROM segments WHERE embedder_no > 0 ORDER BY kind, no"
            datas.append([data for (data,) in connection.execute(query)])
        connection.close()
    assert len(datas[0]) == len(datas[1]) > 3
    for plain, sealed in zip(*datas, strict=True):
        coded = vectors.from_bytes(plain)
        assert sealed[:12] == plain[:12]
        assert coded.codes.tobytes()[:64] not in sealed
    sealed_file = (tmp_path / "sealed.db").read_bytes()
    assert all(vectors.from_bytes(plain).codes.tobytes()[:64] not in sealed_file for plain in datas[0])


async def test_recall_is_as_without_a_key(tmp_path: Path) -> None:
    found: list[Any] = []
    for name, key in (("plain.db", None), ("sealed.db", KEY)):
        async with Memory.open(tmp_path / name, encryption_key=key) as memory:
            await fill(memory)
        async with Memory.open(tmp_path / name, encryption_key=key) as memory:
            found.append(await recalled(memory))
            await memory.forget(user_id="ana", session_id="s0")
            found[-1] += await recalled(memory)
            found[-1].append((await memory.check()).faults)
    assert found[0] == found[1]


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


async def test_a_wrong_or_missing_key_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, encryption_key=KEY) as memory:
        await fill(memory)
    before = content_of(tmp_path)
    for key, why in ((OTHER, "is encrypted with another key"), (None, "is encrypted; give its encryption_key")):
        memory = Memory.open(path, encryption_key=key, embedder=None)
        for attempt in (memory.remember(Episode("a", "b", session_id="s")), memory.recall("a"), memory.users()):
            with pytest.raises(StoreError, match=why) as raised:
                await attempt
            assert KEY not in str(raised.value)
            assert OTHER not in str(raised.value)
        await memory.aclose()
        assert content_of(tmp_path) == before


async def test_a_plain_memory_is_not_opened_with_a_key(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "plain.db") as memory:
        await fill(memory)
    with pytest.raises(StoreError, match=r"is not encrypted, and has the memory of 2 users.*copy it into a new store"):
        async with Memory.open(tmp_path / "plain.db", encryption_key=KEY):
            pass
    async with Memory.open(tmp_path / "plain.db") as memory:
        assert len(await memory.users()) == 2


async def test_a_key_is_changed_without_writing_everything_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, encryption_key=KEY) as memory:
        await fill(memory)
        before = await recalled(memory)
    async with Memory.open(path, encryption_key=[OTHER, KEY]) as memory:
        assert await recalled(memory) == before
        await memory.facts.append(Fact("Ana", "lives_in", "Faro", user_id="ana"))
        (fact,) = await memory.facts.query(user_id="ana", predicate="lives_in")
        assert fact.object == "Faro"  # what was sealed before and after is compared
    async with Memory.open(path, encryption_key=OTHER) as memory:
        assert len(await memory.users()) == 2
    with pytest.raises(StoreError, match="another key"):
        await Memory.open(path, encryption_key=KEY).users()


@pytest.mark.parametrize("key", ["", "short", b"\xff" * 44, [], [KEY, "no"], 5 * "ä"])
def test_what_is_no_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ConfigError, match="encryption_key must be a Fernet key") as raised:
        Memory.open("memory.db", encryption_key=key)
    assert KEY not in str(raised.value)


async def test_an_in_memory_store_takes_a_key_too() -> None:
    async with Memory.open("inmemory", encryption_key=KEY) as memory:
        await fill(memory)
        assert len(await memory.users()) == 2
    assert await memory.users() == []


async def test_text_that_was_changed_in_the_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, encryption_key=KEY) as memory:
        await fill(memory)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE episodes SET input = substr(input, 1, 40) || 'AAAA' || substr(input, 45) WHERE id = 'e1'"
        )
    connection.close()
    async with Memory.open(path, encryption_key=KEY) as memory:
        with pytest.raises(StoreError, match="an encrypted text was changed"):
            await memory.export("ana")
        assert not (await memory.check()).is_whole


async def test_a_damaged_index_is_made_anew_under_the_key(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, encryption_key=KEY) as memory:
        await fill(memory)
        before = await recalled(memory)
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT rowid, data FROM segments WHERE embedder_no = 0").fetchall()
        changed = [(data[:90] + bytes([data[90] ^ 1]) + data[91:], number) for number, data in rows]
        connection.executemany("UPDATE segments SET data = ? WHERE rowid = ?", changed)
    connection.close()
    async with Memory.open(path, encryption_key=KEY) as memory:
        assert {fault.kind for fault in (await memory.check()).faults} == {"index"}
        assert (await memory.check(repair=True)).is_whole
        assert await recalled(memory) == before


async def test_postgresql_keeps_it_sealed_too_and_its_server_does_not_look(postgres_url: str) -> None:
    url = f"{postgres_url}?exact_up_to=3"
    async with Memory.open(url, encryption_key=KEY) as memory:
        await mark(memory)
        await fill(memory)
        before = await recalled(memory)
        store: Any = memory.store
        await store.tend("ana")
        assert await recalled(memory) == before
        assert before[0]
        (fact,) = await memory.facts.query(user_id="ana", subject=f"{MARKER} of Goa", predicate="lives_in")
        assert fact.object == f"{MARKER} jam"
        assert (await memory.check()).is_whole
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'loomflow'::regnamespace"
        )
        for (table,) in tables.fetchall():
            rows = connection.execute(f"SELECT t::text FROM loomflow.{table} t".encode()).fetchall()
            assert not [row for (row,) in rows if MARKER.lower() in row.lower() or MARKER.encode().hex() in row], table
            assert not (table.startswith("large_") and rows)
    with pytest.raises(StoreError, match="is encrypted; give its encryption_key"):
        await Memory.open(url).users()
    with pytest.raises(StoreError, match="another key"):
        await Memory.open(url, encryption_key=OTHER).users()


def test_the_command_line_reads_the_key_from_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, sealed, back = (str(tmp_path / f"{name}.db") for name in ("plain", "sealed", "back"))

    async def work() -> dict[str, Any]:
        async with Memory.open(plain) as memory:
            await fill(memory)
            return await memory.export("ana")

    exported = asyncio.run(work())
    monkeypatch.setenv("NEW_KEY", f"{OTHER}, {KEY}")
    run("memory", "copy", plain, sealed, "--dst-key-env", "NEW_KEY")
    assert in_files(tmp_path, b"quince jam 4") == ["plain.db"]
    refused = run("memory", "list", "--memory", sealed, status=1)
    assert "is encrypted; give its encryption_key" in refused.stderr
    monkeypatch.setenv("LOOMFLOW_ENCRYPTION_KEY", OTHER)
    assert "ana" in run("memory", "list", "--memory", sealed).stdout
    assert run("memory", "check", sealed).stdout.startswith("whole: 2 users")
    assert "the variable NO_KEY has no encryption key" in run(
        "memory", "copy", sealed, back, "--src-key-env", "NO_KEY", status=1
    ).stderr  # fmt: skip
    assert not Path(back).exists()
    run("memory", "copy", sealed, back, "--src-key-env", "NEW_KEY")
    monkeypatch.delenv("LOOMFLOW_ENCRYPTION_KEY")

    async def copied() -> dict[str, Any]:
        async with Memory.open(back) as memory:
            return await memory.export("ana")

    assert asyncio.run(copied()) == exported
