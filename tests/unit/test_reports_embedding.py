"""Embedders that change, fail, hang or have limits: nothing is lost, and no run fails for it."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from loomflow import Agent, EchoModel, Episode, Fact, Memory, StoreError, Tuning, estimate_tokens

Vectors = NDArray[np.float32]


class CharacterEmbedder:
    """Counts letters: texts that share them are near. Its number of dimensions is its size."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self.name = name

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for character in text.casefold():
                row[ord(character) % self.size] += 1
        return rows


class FailingEmbedder(CharacterEmbedder):
    """Refuses any batch with the word "bad" in it, for as long as `broken` says."""

    broken = True

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        if self.broken and any("bad" in text for text in texts):
            raise RuntimeError("the embedder refused this batch")
        return await super().embed(texts, query=query)


async def numbers_of_rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM episodes)").fetchone()[0]


# A change of embedder


@pytest.mark.parametrize(("before", "after"), [(4, 3), (3, 4), (64, 26), (26, 26)])
@pytest.mark.parametrize("same_name", [False, True])
async def test_a_change_of_embedder_keeps_old_memories_within_reach(
    tmp_path: Path, before: int, after: int, same_name: bool
) -> None:
    path = tmp_path / "memory.db"
    old, new = CharacterEmbedder(before, "letters"), CharacterEmbedder(after, "letters" if same_name else "letters 2")
    async with Memory.open(path, embedder=old) as memory:
        await memory.facts.append([Fact(f"part {n}", "lies in", f"drawer {n}") for n in range(49)])
        await memory.facts.append(Fact("Ola", "plays", "the xylophone"))
        await memory.remember(Episode("we heard a xylophone", "", session_id="s"))
    async with Memory.open(path, embedder=new) as memory:
        await memory.facts.append([Fact("Ola", "grows", plant) for plant in ("figs", "zinnias", "quinces")])
        for question, best in (("xylophone?", "the xylophone"), ("zinnias", "zinnias")):
            injection = await memory.inject(question)
            assert injection.problems == ()
            assert (await memory.recall_facts(question))[0].object == best
        assert (await memory.recall("xylophone"))[0].input == "we heard a xylophone"
        # Under one name, what has vectors of other dimensions counts once there are newer ones: of facts, not episodes.
        unembedded = 51 if not same_name else 50 if before != after else 0
        assert (await memory.stats()).unembedded == unembedded
        # What the new embedder makes tells its dimensions, and with them that the episode has to be done too.
        assert await memory.reembed(user_id=None) == (51 if unembedded else 0)
        assert (await memory.stats()).unembedded == 0
        assert await memory.reembed(user_id=None) == 0
        assert await numbers_of_rows(path) == 54
        best_match = (await memory.recall_scored("we heard a xylophone"))[0]
        if not same_name or before == after:
            assert best_match.similarity == pytest.approx(1, abs=0.02)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf])
async def test_vectors_are_kept_until_another_embedder_has_made_some(tmp_path: Path, number: float) -> None:
    def useless(texts: list[str]) -> list[list[float]]:
        return [[number] * 3 for _ in texts]

    path = tmp_path / "memory.db"
    good = CharacterEmbedder(26, "letters")
    async with Memory.open(path, embedder=good) as memory:
        await memory.remember([Episode(f"old {n}", "", session_id="s") for n in range(5)])
        await memory.facts.append(Fact("Ola", "plays", "the xylophone"))
    async with Memory.open(path, embedder=useless) as memory:
        assert await memory.reembed(user_id=None) == 0
    async with Memory.open(path, embedder=good) as memory:
        assert (await memory.stats()).unembedded == 0
        assert (await memory.recall_scored("old 3"))[0].vector_rank == 0


async def test_memories_of_another_embedder_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, embedder=CharacterEmbedder(4, "letters")) as memory:
        await memory.remember([Episode(f"old {n}", "", session_id="s") for n in range(50)])
    with caplog.at_level(logging.WARNING, "loomflow"):
        async with Memory.open(path, embedder=CharacterEmbedder(3, "letters 2")) as memory:
            for _ in range(5):
                assert (await memory.inject("old")).problems == ()
    (record,) = [record for record in caplog.records if "letters 2" in record.getMessage()]
    assert "50" in record.getMessage()


async def test_new_memories_rank_by_true_similarity_beside_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory.open(path, embedder=CharacterEmbedder(4, "letters")) as memory:
        await memory.remember([Episode(f"old {n}", "", session_id="s") for n in range(50)])
    async with Memory.open(path, embedder=CharacterEmbedder(128, "letters")) as memory:
        for text in ("zzzz", "zzzy", "zyyy", "yyyy"):
            await memory.remember(Episode(text, "", session_id="s"))
        matches = await memory.recall_scored("zzz zzzz zzzzz")
        assert [match.episode.input for match in matches if match.similarity is not None] == [
            "zzzz",
            "zzzy",
            "zyyy",
            "yyyy",
        ]


# Failures


@pytest.mark.parametrize("place", [0, 2, 3])
async def test_one_text_that_cannot_be_embedded_costs_no_memory(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = FailingEmbedder(64, "failing")
    texts = ["alpha", "beta", "gamma", "delta"]
    texts[place] = "a bad kestrel"
    async with Memory.open(tmp_path / "memory.db", embedder=embedder) as memory:
        with caplog.at_level(logging.WARNING, "loomflow"):
            facts = await memory.facts.append([Fact("note", "says", text, id=text) for text in texts])
            await memory.remember([Episode(text, "", session_id="s", id=text) for text in texts])
        assert [fact.id for fact in facts] == texts
        assert "embedder failing failed" in caplog.text
        assert (await memory.stats()).unembedded == 2
        assert (await memory.recall_facts("kestrel"))[0].object == "a bad kestrel"
        assert (await memory.recall("kestrel"))[0].input == "a bad kestrel"
        assert await memory.reembed(user_id=None) == 0
        embedder.broken = False
        assert await memory.reembed(user_id=None) == 2
        assert (await memory.stats()).unembedded == 0
        assert await memory.reembed(user_id=None) == 0
        assert await numbers_of_rows(tmp_path / "memory.db") == 8
        assert (await memory.recall_scored("a bad kestrel"))[0].vector_rank == 0


async def test_what_fails_for_good_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    embedder = FailingEmbedder(64, "failing")
    path = tmp_path / "memory.db"
    async with Memory.open(path, embedder=None) as memory:
        await memory.remember([Episode(f"{'bad' if n % 3 else 'good'} {n}", "", session_id="s") for n in range(30)])
    async with Memory.open(path, embedder=embedder) as memory:
        assert await memory.reembed(user_id=None, batch=4) == 10
        assert (await memory.stats()).unembedded == 20


def raising(texts: list[str]) -> Any:
    raise RuntimeError("no embeddings today")


def too_few(texts: list[str]) -> Any:
    return [[1.0, 0.0]] * (len(texts) - 1)


def too_many(texts: list[str]) -> Any:
    return [[1.0, 0.0]] * (len(texts) + 1)


def ragged(texts: list[str]) -> Any:
    return [[1.0] * (n + 1) for n, _ in enumerate([*texts, "one more"])]


def words(texts: list[str]) -> Any:
    return ["a vector" for _ in texts]


def nothing(texts: list[str]) -> Any:
    return None


def flat(texts: list[str]) -> Any:
    return [1.0 for _ in texts]


def not_a_number(texts: list[str]) -> Any:
    return [[math.nan, 1.0] for _ in texts]


USELESS: list[Callable[[list[str]], Any]] = [raising, too_few, too_many, ragged, words, nothing, flat, not_a_number]


@pytest.mark.parametrize("embedder", USELESS)
async def test_a_run_goes_on_by_keyword_when_the_embedder_is_of_no_use(
    tmp_path: Path, embedder: Callable[[list[str]], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder=embedder) as memory:
        await memory.update_block("profile", "likes tea")
        await memory.facts.append(Fact("bike", "is", "a green Kestrel"))
        echo = EchoModel()
        with caplog.at_level(logging.WARNING, "loomflow"):
            result = await Agent(model=echo, memory=memory).run("my bike?", session_id="s")
        assert result.output == "Echo: my bike?"
        assert "likes tea" in echo.requests[0].system
        assert "green Kestrel" in echo.requests[0].system
        if embedder is not not_a_number:
            assert "embedder" in caplog.text
        assert len(await memory.session_messages("s")) == 2
        assert (await memory.stats()).unembedded == 2


# Waiting


class HangingEmbedder:
    """Never answers, without blocking the event loop."""

    name = "hanging"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        await asyncio.Event().wait()
        raise AssertionError("never reached")


@pytest.fixture(params=["hanging", "blocking"])
async def stuck(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory with content, whose embedder does not come back: it awaits for ever, or blocks its thread."""
    over = threading.Event()

    def block(texts: list[str]) -> Any:
        over.wait()
        raise RuntimeError("the test is over")

    path = tmp_path / "memory.db"
    async with Memory.open(path, embedder=None) as memory:
        await memory.update_block("profile", "likes tea")
        await memory.facts.append(Fact("bike", "is", "a green Kestrel"))
    async with Memory.open(path, embedder=HangingEmbedder() if request.param == "hanging" else block) as memory:
        yield memory
    over.set()


async def test_an_embedder_that_hangs_is_waited_for_no_longer_than_set(
    stuck: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    echo = EchoModel()
    agent = Agent(model=echo, memory=stuck, tuning=Tuning(recall_timeout_seconds=0.2))
    await agent.preview("warm up")
    started = time.monotonic()
    with caplog.at_level(logging.WARNING, "loomflow"):
        result = await agent.run("my bike?", session_id="s")
    assert time.monotonic() - started < 5
    assert result.output == "Echo: my bike?"
    assert any("timed out" in problem for problem in result.injection.problems)
    assert "timed out" in caplog.text
    for expected in ("likes tea", "green Kestrel"):
        assert expected in echo.requests[0].system
    assert len(await stuck.session_messages("s")) == 2


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[: len(data) // 2],
    "noise": lambda data: bytes((place * 37 + 11) % 256 for place in range(len(data))),
    "noise behind its lengths": lambda data: data[:24] + b"\xff" * (len(data) - 24),
}


async def with_a_broken_index(path: Path, damage: str, *, vectors: bool) -> None:
    """Make a memory, and damage all the vectors or all the rest of its index."""
    async with Memory.open(path, embedder="default") as memory:
        await memory.update_block("profile", "likes tea")
        await memory.facts.append(Fact("bike", "is", "a green Kestrel"))
        await memory.remember([Episode("my bike is green", "I see.", session_id=session) for session in "ab"])
    with closing(sqlite3.connect(path)) as db:
        which = "embedder_no > 0" if vectors else "embedder_no = 0"
        for number, data in db.execute(f"SELECT rowid, data FROM segments WHERE {which}").fetchall():
            db.execute("UPDATE segments SET data = ? WHERE rowid = ?", (DAMAGES[damage](data), number))
        db.commit()


@pytest.mark.parametrize("mode", ["top", "fill"])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("damage", list(DAMAGES))
async def test_a_broken_index_costs_the_recall_and_not_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, vectors: bool, mode: Literal["top", "fill"]
) -> None:
    path = tmp_path / "memory.db"
    await with_a_broken_index(path, damage, vectors=vectors)
    async with Memory.open(path, embedder="default") as memory:
        echo = EchoModel()
        agent = Agent(model=echo, memory=memory, tuning=Tuning(memory_mode=mode))
        with caplog.at_level(logging.WARNING, "loomflow"):
            result = await agent.run("my bike?", session_id="s")
        assert result.output == "Echo: my bike?"
        assert "likes tea" in echo.requests[0].system
        assert any("facts and episodes could not be read: StoreError" in why for why in result.injection.problems)
        assert "could not be read" in caplog.text
        with pytest.raises(StoreError, match="damaged"):
            await memory.recall("my bike?")
        assert [message.content for message in await memory.session_messages("s")] == ["my bike?", "Echo: my bike?"]
        assert len((await memory.export(None))["episodes"]) == 3


@pytest.mark.parametrize("session", [None, "a"])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("damage", list(DAMAGES))
async def test_what_has_a_broken_index_can_be_counted_and_forgotten(
    tmp_path: Path, damage: str, vectors: bool, session: str | None
) -> None:
    path = tmp_path / "memory.db"
    await with_a_broken_index(path, damage, vectors=vectors)
    async with Memory.open(path, embedder="default") as memory:
        assert (await memory.stats()).episodes == 2
        forgotten = await memory.forget(user_id=None, session_id=session)
        assert (forgotten.facts, forgotten.episodes) == ((1, 2) if session is None else (0, 1))
        assert len(await memory.store.episodes(None)) == (0 if session is None else 1)


# Limits


@pytest.mark.parametrize(
    "passage", ["2026-03-01 12:00:00 ERROR disk /dev/sda1 is full\n", "会议纪要，下一步计划。\n", "👩‍👩‍👧 party\n"]
)
async def test_long_texts_are_shortened_for_the_embedder_and_for_nobody_else(tmp_path: Path, passage: str) -> None:
    limit = 8192

    def strict(texts: list[str]) -> list[list[float]]:
        if any(estimate_tokens(text) > limit for text in texts):
            raise ValueError("text is longer than this embedder takes")
        return [[1.0, float(len(text))] for text in texts]

    long = passage * (160_000 // len(passage))
    async with Memory.open(tmp_path / "memory.db", embedder=strict) as memory:
        await memory.remember(Episode(long, long, session_id="past"))
        await memory.facts.append(Fact("log", "says", long))
        echo = EchoModel()
        result = await Agent(model=echo, memory=memory).run(long, session_id="s")
        assert echo.requests[0].messages[-1] == ("user", long)
        assert result.injection.problems == ()
        assert (await memory.stats()).unembedded == 0
        assert [message.content for message in await memory.session_messages("s")] == [long, f"Echo: {long}"]


FORMS: dict[str, Callable[[int], Any]] = {
    "float64": lambda n: np.ones((n, 3), dtype=np.float64),
    "float16": lambda n: np.ones((n, 3), dtype=np.float16),
    "list of arrays": lambda n: [np.ones(3, dtype=np.float32)] * n,
    "lists of scalars": lambda n: [[np.float32(0.5), np.float64(1), np.int64(2)]] * n,
    "tuples of ints": lambda n: [(1, 0, 0)] * n,
    "tuple of lists": lambda n: tuple([0.1, 0.2, 0.3] for _ in range(n)),
}


@pytest.mark.parametrize("form", list(FORMS))
async def test_vectors_of_any_numeric_form_are_taken(tmp_path: Path, form: str) -> None:
    def embed(texts: list[str]) -> Any:
        return FORMS[form](len(texts))

    async with Memory.open(tmp_path / "memory.db", embedder=embed) as memory:
        await memory.remember([Episode("x", "", session_id="s"), Episode("y", "", session_id="s")])
        matches = await memory.recall_scored("z")
        assert [match.similarity for match in matches] == pytest.approx([1, 1], abs=0.01)  # pyright: ignore[reportUnknownMemberType]
        assert all(type(match.similarity) is float for match in matches)


async def test_an_async_function_can_be_the_embedder(tmp_path: Path) -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [[1.0, 0.0] for _ in texts]

    async with Memory.open(tmp_path / "memory.db", embedder=embed) as memory:
        await memory.remember(Episode("x", "", session_id="s"))
        assert [match.vector_rank for match in await memory.recall_scored("z")] == [0]
