"""What is stored is what was said: versions, metadata, edits that meet, and the place that a memory URL names."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from loomflow import Agent, ConfigError, ConflictError, EchoModel, Episode, Fact, LoomflowError, Memory, Tuning


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder="default") as memory:
        yield memory


# Corrections


FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"object": "postcards"}, {"shelf": "B2", "origin": "phone"}),
        ({"object": "postcards", "metadata": {"shelf": "C1"}}, {"shelf": "C1", "origin": "phone"}),
        ({"predicate": "once collected"}, {"shelf": "B2", "origin": "phone"}),
        ({"confidence": 0.5}, {"shelf": "B2", "origin": "phone"}),
        ({"metadata": {"seen": 2}}, {"shelf": "B2", "origin": "phone", "seen": 2}),
    ],
)
async def test_a_correction_keeps_the_fields_it_does_not_name(
    memory: Memory, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"subject": "Ana", "predicate": "collects", "object": "stamps"}
    await memory.remember(Episode("I collect stamps", "noted", session_id="s", id="e"))
    metadata = {"shelf": "B2", "origin": "phone"}
    await memory.facts.append(
        Fact(**fields, id="f", metadata=metadata, recorded_at=FIRST, valid_from=FIRST, source_episode_id="e")
    )
    await memory.facts.append(Fact(**{**fields, **change}, id="f"))
    old, new = await memory.facts.history()
    assert (old.object, old.metadata, old.recorded_at) == ("stamps", metadata, FIRST)
    assert new.metadata == expected
    assert (new.valid_from, new.source_episode_id) == (FIRST, "e")
    assert new.recorded_at is not None
    assert new.recorded_at > FIRST
    assert old.retired_at == new.recorded_at
    for name in ("predicate", "object", "confidence"):
        assert getattr(new, name) == change.get(name, getattr(old, name))


async def test_a_corrected_text_is_searched_by_its_own_vector(memory: Memory) -> None:
    await memory.facts.append(Fact("Ana", "collects", "postage stamps", id="f"))
    await memory.facts.append([Fact("Bo", "plays", "the cello"), Fact("Cy", "grows", "tomatoes")])
    await memory.facts.append(Fact("Ana", "drives", "an old lorry", id="f"))
    assert (await memory.stats()).unembedded == 0
    best = (await memory.recall_facts("which truck does she own?"))[0]
    assert best.object == "an old lorry"


async def test_a_working_block_keeps_its_place_through_edits(memory: Memory) -> None:
    for name in ("persona", "profile", "tasks"):
        await memory.update_block(name, "first")
    await memory.update_block("profile", "second")
    await memory.append_block("persona", "more")
    assert [(block.name, block.content, block.version) for block in await memory.working()] == [
        ("persona", "first\nmore", 2), ("profile", "second", 2), ("tasks", "first", 1),
    ]  # fmt: skip


# Edits that meet


@pytest.mark.parametrize("meanwhile", ["append", "update", "delete", "delete and write"])
async def test_a_slow_rewrite_cannot_undo_what_was_written_meanwhile(memory: Memory, meanwhile: str) -> None:
    read = await memory.update_block("profile", "A, told at length")
    if meanwhile == "append":
        await memory.append_block("profile", "B")
    elif meanwhile == "update":
        await memory.update_block("profile", "B")
    else:
        await memory.delete_block("profile")
        if meanwhile == "delete and write":
            await memory.update_block("profile", "B")
            await memory.update_block("profile", "B, and more")
    before = await memory.working()
    with pytest.raises(ConflictError, match="profile"):
        await memory.update_block("profile", "A, short", expected_version=read.version)
    assert await memory.working() == before


async def test_a_block_deleted_and_written_anew_is_not_the_one_that_was_read(memory: Memory) -> None:
    read = await memory.update_block("profile", "A")
    await memory.delete_block("profile")
    await memory.update_block("profile", "B")
    with pytest.raises(ConflictError):
        await memory.update_block("profile", "A, short", expected_version=read.version)
    assert [block.content for block in await memory.working()] == ["B"]


async def test_a_rewrite_of_the_latest_text_is_accepted(memory: Memory) -> None:
    await memory.update_block("profile", "A", expected_version=0)
    latest = await memory.append_block("profile", "B")
    written = await memory.update_block("profile", "A, B", expected_version=latest.version)
    assert (written.content, written.version) == ("A, B", 3)


async def test_concurrent_appends_and_rewrites_lose_nothing(memory: Memory) -> None:
    async def rewrite() -> None:
        while True:
            (block,) = await memory.working()
            try:
                await memory.update_block("log", block.content.upper(), expected_version=block.version)
                return
            except ConflictError:
                continue

    await memory.update_block("log", "start")
    await asyncio.gather(*(memory.append_block("log", f"line {n}") for n in range(40)), *(rewrite() for _ in range(5)))
    (block,) = await memory.working()
    assert sorted(block.content.lower().splitlines()) == sorted(["start", *(f"line {n}" for n in range(40))])


# Metadata


class Season:
    """Something that JSON has no word for."""


PLAIN: dict[str, tuple[Any, Any]] = {
    "float32": (np.float32(0.5), 0.5),
    "float64": (np.float64(0.25), 0.25),
    "int64": (np.int64(3), 3),
    "uint8": (np.uint8(255), 255),
    "bool_": (np.bool_(True), True),
    "str_": (np.str_("text"), "text"),
    "datetime": (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01T12:00:00+00:00"),
    "date": (date(2026, 3, 1), "2026-03-01"),
    "uuid": (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "nested": ({"a": [np.float32(1.5), {"b": np.int16(2)}], "t": (1, 2)}, {"a": [1.5, {"b": 2}], "t": [1, 2]}),
    "plain": ({"n": None, "城": "é👩‍👩‍👧", "big": 2**80}, {"n": None, "城": "é👩‍👩‍👧", "big": 2**80}),
}
REFUSED: dict[str, Any] = {
    "nan": math.nan, "float32 nan": np.float32("nan"), "inf": [1, math.inf], "array": np.zeros(3), "bytes": b"x",
    "set": {1}, "complex": 1j, "decimal": Decimal("0.1"), "object": Season(), "key": {1: "x"},
    "array in list": [np.zeros((2, 2))],
}  # fmt: skip


@pytest.mark.parametrize("kind", list(PLAIN))
async def test_metadata_comes_back_as_plain_values(memory: Memory, kind: str) -> None:
    given, expected = PLAIN[kind]
    await memory.remember(Episode("x", "y", session_id="s", metadata={"field": given}))
    await memory.facts.append(Fact("s", "p", "o", metadata={"field": given}))
    await Agent(model=EchoModel(), memory=memory).run("x", session_id="s", metadata={"field": given})
    stored = [*await memory.store.episodes(None), *await memory.facts.query()]
    assert [item.metadata for item in stored] == [{"field": expected}] * 3
    assert [type(item.metadata["field"]) for item in stored] == [type(expected)] * 3


@pytest.mark.parametrize("kind", list(REFUSED))
async def test_metadata_that_json_cannot_hold_is_refused_by_name_before_anything_is_written(
    memory: Memory, kind: str
) -> None:
    metadata = {"fine": 1, "field": REFUSED[kind]}
    echo = EchoModel()
    with pytest.raises(ConfigError, match=r"metadata\.field"):
        Episode("x", "y", session_id="s", metadata=metadata)
    with pytest.raises(ConfigError, match=r"metadata\.field"):
        Fact("s", "p", "o", metadata=metadata)
    with pytest.raises(ConfigError, match=r"metadata\.field"):
        await Agent(model=echo, memory=memory).run("x", metadata=metadata)
    assert (await memory.users(), echo.requests) == ([], [])


async def test_numbers_of_numpy_are_numbers_in_settings() -> None:
    tuning = Tuning(memory_token_budget=cast("Any", np.int64(300)), memory_decay_half_life_days=np.float64(2.5))
    assert (tuning.memory_token_budget, tuning.memory_decay_half_life_days) == (300, 2.5)
    assert type(tuning.memory_token_budget) is int
    assert Fact("s", "p", "o", confidence=np.float64(0.5)).confidence == 0.5


# Memory URLs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a work folder in it, which is the current one."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(work)
    return tmp_path


def databases(folder: Path) -> set[str]:
    """The files below a folder, but for the companions that SQLite makes and removes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in files if not path.name.endswith(("-wal", "-shm"))}


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:bot.db", "work/bot.db"),
        ("sqlite:./bot.db", "work/bot.db"),
        ("sqlite:///bot.db", "work/bot.db"),
        ("sqlite:./my dir/bot.db", "work/my dir/bot.db"),
        ("sqlite:~/bot.db", "bot.db"),
        ("sqlite:////{home}/bot.db", "bot.db"),
        ("sqlite:{home}/bot.db", "bot.db"),
        ("{home}/bot.db", "bot.db"),
        ("~/bot.db", "bot.db"),
        ("sqlite:./100%.db", "work/100%.db"),
        ("sqlite:./a%20b.db", "work/a%20b.db"),
        ("sqlite:./p@ss:word.db", "work/p@ss:word.db"),
        ("sqlite:./what?mode=ro.db", "work/what?mode=ro.db"),
        ("sqlite:./it's #1.db", "work/it's #1.db"),
        ("sqlite:./会议.db", "work/会议.db"),
        ("sqlite:./no-ending", "work/no-ending"),
    ],
)
async def test_a_url_opens_the_file_it_names_and_no_other(home: Path, url: str, file: str) -> None:
    (home / "work" / "my dir").mkdir()
    target = url.replace("{home}", str(home).lstrip("/") if "////" in url else str(home))
    async with Memory.open(target, embedder=None) as memory:
        await memory.update_block("profile", "x")
        assert databases(home) == {file}
    async with Memory.open(home / file, embedder=None) as memory:
        assert [block.content for block in await memory.working()] == ["x"]


@pytest.mark.parametrize("url", ["inmemory", "sqlite::memory:"])
async def test_a_memory_of_the_process_leaves_no_file(home: Path, url: str) -> None:
    async with Memory.open(url, embedder=None) as memory:
        await memory.update_block("profile", "x")
    assert databases(home) == set()


@pytest.mark.parametrize(
    "url",
    [
        "", "   ", "sqlite:", "sqlite: ", "sqlite:./", "sqlite:/", "sqlite://host/bot.db", "sqlite:./missing/bot.db",
        "sqlite:C:\\data\\bot.db", "C:\\data\\bot.db", "sqlite:a\0b", "mysql://app@db/mem", "redis://localhost",
        "file:bot.db", "bot", "in memory", "sqlite:.", "sqlite:..",
    ],
)  # fmt: skip
async def test_a_url_that_names_no_file_fails_and_makes_none(home: Path, url: str) -> None:
    with pytest.raises(LoomflowError):
        async with Memory.open(url, embedder=None) as memory:
            await memory.update_block("profile", "x")
    assert databases(home) == set()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://app:hunter2@db/mem", "mysql://app:hunter2%40@db/mem", "mysql://app:p@hunter2@db/mem", "mysql://app:a/hunter2@db/mem",
        "mysql://:hunter2@db", "redis://:hunter2@db:6379/0", "mongodb+srv://app:hunter2@db", "sqlite://app:hunter2@db/mem",
        "postgres+asyncpg://app:hunter2@db/mem", "oracle://app:hun#ter2@db/x?y#z",
    ],
)  # fmt: skip
async def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Memory.open(url)
    assert "hunter2" not in str(caught.value)
    assert "hun#ter2" not in str(caught.value)
