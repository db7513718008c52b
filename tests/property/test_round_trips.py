"""Nothing stored is changed by closing and opening a file, or by export and import, in any time zone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, Memory, MemoryBlock
from loomflow.checks import scrub
from loomflow.stores.rows import from_micros, to_micros
from loomflow.stores.sqlite import SQLiteStore
from tests.property.strategies import NOW, blocks, json_values, moments, texts, words

ANY_TEXT = texts(hostile=True, longest=500)
METADATA = st.dictionaries(words(), json_values(), max_size=3)
USERS = st.sampled_from([None, "alice", "o'brien; DROP TABLE facts", "用户", "%_", "anonymous"])
NAMES = st.none() | ANY_TEXT


@pytest.fixture(params=["UTC", "America/New_York"], scope="module", autouse=True)
def _time_zone(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@st.composite
def full_facts(draw: st.DrawFn, user_id: str | None) -> Fact:
    """A fact with every field that a caller can set. Its key is its own, so that no other fact changes it."""
    start, end = sorted([draw(moments()), draw(moments())])
    return Fact(
        draw(ANY_TEXT), "likes", draw(ANY_TEXT), user_id=user_id, valid_from=draw(st.sampled_from([None, start])),
        valid_until=draw(st.sampled_from([None, end])), recorded_at=draw(moments()), confidence=draw(st.floats(0, 1)),
        source_episode_id=draw(st.sampled_from([None, "episode-1"])), id=draw(st.uuids()).hex, metadata=draw(METADATA),
    )  # fmt: skip


@st.composite
def full_episodes(draw: st.DrawFn, user_id: str | None) -> Episode:
    """An episode with every field that a caller can set."""
    return Episode(
        draw(ANY_TEXT), draw(st.just("") | ANY_TEXT), session_id=draw(words()), user_id=user_id,
        occurred_at=draw(moments()), id=draw(st.uuids()).hex, metadata=draw(METADATA), user_name=draw(NAMES),
        agent_name=draw(NAMES),
    )  # fmt: skip


@st.composite
def memories(draw: st.DrawFn) -> tuple[str | None, list[Fact], list[Episode], list[MemoryBlock]]:
    """What one user's memory may hold."""
    user = draw(USERS)
    told = draw(st.lists(full_facts(user), max_size=4, unique_by=lambda fact: fact.id))
    facts = [replace(fact, subject=f"{n} {fact.subject}") for n, fact in enumerate(told)]
    episodes = draw(st.lists(full_episodes(user), max_size=4, unique_by=lambda episode: episode.id))
    pinned = draw(st.lists(blocks(ANY_TEXT), max_size=3, unique_by=lambda block: block.name))
    return user, facts, episodes, [replace(block, user_id=user) for block in pinned]


async def held(memory: Memory, user: str | None) -> tuple[list[Fact], list[Episode], list[MemoryBlock]]:
    """Everything in a user's memory, in the order in which it is listed."""
    facts = await memory.facts.history(user_id=user)
    blocks = [replace(block, updated_at=None, version=0) for block in await memory.working(user_id=user)]
    return facts, await memory.store.episodes(user), blocks


async def fill(memory: Memory, facts: list[Fact], episodes: list[Episode], pinned: list[MemoryBlock]) -> None:
    await memory.facts.append(facts)
    await memory.remember(episodes)
    for block in pinned:
        await memory.update_block(block.name, block.content, user_id=block.user_id)


@given(memory=memories())
@settings(max_examples=25)
async def test_a_closed_file_opens_with_everything_in_it(
    memory: tuple[str | None, list[Fact], list[Episode], list[MemoryBlock]],
) -> None:
    user, facts, episodes, pinned = memory
    with TemporaryDirectory() as folder:
        async with Memory.open(Path(folder) / "m.db", embedder=None) as first:
            await fill(first, facts, episodes, pinned)
        async with Memory.open(Path(folder) / "m.db", embedder=None) as second:
            stored = await held(second, user)
    assert stored == (sorted(facts, key=_recorded), episodes, pinned)


@given(memory=memories())
@settings(max_examples=40)
async def test_export_and_import_lose_nothing(
    memory: tuple[str | None, list[Fact], list[Episode], list[MemoryBlock]],
) -> None:
    user, facts, episodes, pinned = memory
    async with Memory.open(embedder=None) as first, Memory.open(embedder=None) as second:
        await fill(first, facts, episodes, pinned)
        exported = await first.export(user)
        sent = json.loads(json.dumps(exported))
        done = await second.import_(sent)
        again = await second.import_(sent)
        assert (done.facts, done.episodes, done.blocks) == (len(facts), len(episodes), len(pinned))
        assert again.facts == again.episodes == again.blocks == 0
        assert await held(second, user) == await held(first, user)
        assert await second.export(user) == exported == sent


@given(objects=st.lists(st.tuples(words(), st.none() | moments()), min_size=1, max_size=6))
@settings(max_examples=40)
async def test_export_and_import_keep_the_whole_history(objects: list[tuple[str, datetime | None]]) -> None:
    # The clocks stand still, so all versions are recorded at one moment and only their order tells them apart.
    first = Memory(SQLiteStore(None, clock=lambda: NOW), embedder=None)
    second = Memory(SQLiteStore(None, clock=lambda: NOW), embedder=None)
    async with first, second:
        for value, start in objects:
            await first.facts.append(Fact("Alice", "favorite_food", value, user_id="alice", valid_from=start))
        (known, *_) = await first.facts.history(user_id="alice")
        await first.facts.retract(known)
        exported = await first.export("alice")
        await second.import_(json.loads(json.dumps(exported)))
        await second.import_(json.loads(json.dumps(exported)))
        assert await second.facts.history(user_id="alice") == await first.facts.history(user_id="alice")
        assert await second.facts.query(user_id="alice") == await first.facts.query(user_id="alice")
        assert await second.export("alice") == exported


@given(naive=st.datetimes())
def test_naive_times_are_read_as_utc(naive: datetime) -> None:
    episode = Episode("a", "b", session_id="s", occurred_at=naive)
    assert episode.occurred_at is not None
    assert episode.occurred_at.utcoffset() == timedelta(0)
    assert episode.occurred_at.replace(tzinfo=None) == naive
    assert from_micros(to_micros(episode.occurred_at) or 0) == episode.occurred_at


@given(naive=st.datetimes(), minutes=st.integers(-1439, 1439))
def test_aware_times_keep_their_moment(naive: datetime, minutes: int) -> None:
    aware = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    stored = Episode("a", "b", session_id="s", occurred_at=aware).occurred_at
    assert stored is not None
    assert stored.utcoffset() == timedelta(0)
    assert stored == aware or abs(stored.year - 5000) > 4990  # at the ends of time it is the nearest moment there is


@given(value=json_values())
def test_metadata_of_plain_values_is_kept(value: Any) -> None:
    assert Episode("a", "b", session_id="s", metadata={"k": value}).metadata == {"k": value}


@given(text=st.text(st.characters(exclude_categories=[]), min_size=1))
def test_stored_text_is_the_text_given_but_for_lone_surrogates(text: str) -> None:
    stored = MemoryBlock("b", text).content
    assert stored == scrub(text)
    assert stored.encode("utf-8").decode("utf-8") == stored
    kept = [ch for ch in stored if ch != "\ufffd" and ch <= "\uffff"]
    assert kept == [ch for ch in text if ch != "\ufffd" and ch <= "\uffff" and not "\ud800" <= ch <= "\udfff"]


def _recorded(fact: Fact) -> datetime:
    return fact.recorded_at or NOW
