"""The life of a store: opening, closing, using it again, many tasks at once, two stores on one database, counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from loomflow.bitemporal import supersede
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import NewEpisode, OpenRun

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    add_episodes,
    add_facts,
    appending,
    asking,
    at,
    by_vector,
    contents,
    embedded,
    gather,
    inputs,
    objects,
    requires,
    retract,
    said,
    told,
    towards,
    writing,
)

PERSISTENT = Capability.PERSISTENT


async def write_some(store: Store) -> None:
    """Write one of everything for Ana, and a little for somebody anonymous."""
    await store.change_block("ana", "profile", writing("likes tea"))
    await store.add_facts("ana", [(Fact("Ana", "home", "Porto", id="f", recorded_at=at(1)), embedded(10))], gather)
    await add_facts(store, "ana", Fact("Ana", "home", "Braga", id="f", recorded_at=at(2)), plan=supersede)
    await store.add_episodes("ana", [NewEpisode(told("kayak", id="e", occurred_at=at(1)), embedded(10), "[]")])
    await store.begin_run("ana", OpenRun("r", "s", "prompt", at(3)))
    await add_episodes(store, None, told("anonymous", id="e", occurred_at=at(1)))


async def all_of(store: Store) -> tuple[object, ...]:
    """What `write_some` wrote, as the store shows it."""
    return (
        await store.users(), await contents(store, "ana"), await objects(store, "ana", history=True),
        await store.turns("ana", None), await store.episodes(None), await store.search("ana", asking("kayak braga")),
    )  # fmt: skip


class LifecycleConformance(ConformanceBase):
    """`open`, `aclose`, `users`, `stats`, concurrency and sharing."""

    async def test_opening_is_idempotent(self, store: Store) -> None:
        await asyncio.gather(*(store.open() for _ in range(8)))
        await add_episodes(store, None, told("x"))
        await store.open()
        assert await inputs(store, None) == ["x"]

    async def test_a_store_opens_on_first_use(self, tmp_path: Path) -> None:
        store = await self.make_store(tmp_path)
        try:
            await asyncio.gather(*(add_episodes(store, None, told(f"{number}")) for number in range(8)))
            assert len(await inputs(store, None)) == 8
        finally:
            await store.aclose()
            await self.drop(tmp_path)

    async def test_closing_is_idempotent_and_needs_no_opening(self, store: Store) -> None:
        await store.aclose()
        await store.open()
        await asyncio.gather(store.aclose(), store.aclose())
        await store.aclose()

    async def test_a_closed_store_opens_again_on_use(self, store: Store) -> None:
        for round_ in range(3):
            await add_episodes(store, "ana", told(f"round {round_}", id=f"{round_}"))
            assert (await inputs(store, "ana"))[-1] == f"round {round_}"
            await store.aclose()

    @requires(PERSISTENT)
    async def test_a_closed_store_keeps_everything(self, store: Store) -> None:
        await write_some(store)
        before = await all_of(store)
        await store.aclose()
        assert await all_of(store) == before

    @requires(PERSISTENT)
    async def test_a_store_opened_anew_has_everything(self, store: Store, tmp_path: Path) -> None:
        await write_some(store)
        before = await all_of(store)
        again = await self.reopen(store, tmp_path)
        try:
            assert await all_of(again) == before
            await add_episodes(again, "ana", told("later", id="later"))
            assert await inputs(again, "ana") == ["kayak", "later"]
        finally:
            await again.aclose()

    async def test_closing_finishes_what_was_begun(self, store: Store) -> None:
        await store.open()
        writes = [asyncio.create_task(add_episodes(store, None, told(f"{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        await store.aclose()
        written = await asyncio.gather(*writes)
        assert len(written) == 20
        if PERSISTENT in self.capabilities:
            assert {episode.input for (episode,) in written} == set(await inputs(store, None))

    async def test_many_tasks_at_once_lose_nothing(self, store: Store) -> None:
        async def work(number: int) -> None:
            user = f"user {number % 5}"
            await add_episodes(store, user, told(f"episode {number}", id=f"e{number}"))
            await store.change_block(user, "log", appending(f"<{number}>"))
            await add_facts(store, user, Fact("s", "likes", f"thing {number}"), plan=supersede)
            await store.search(user, asking("episode thing"))
            run = OpenRun(f"r{number}", "runs", "x", at(0))
            await store.begin_run(user, run)
            await store.finish_run(user, run.run_id, NewEpisode(told("x", session="runs", id=run.run_id)))
            await store.stats(user, everyone=True, embedder=SPACE)

        await asyncio.gather(*(work(number) for number in range(60)))
        for index in range(5):
            user = f"user {index}"
            numbers = [str(number) for number in range(60) if number % 5 == index]
            log = (await contents(store, user))["log"]
            assert sorted(log.strip("<>").split("><"), key=int) == numbers
            assert sorted(await inputs(store, user, session_id="s")) == sorted(f"episode {n}" for n in numbers)
            assert sorted(await objects(store, user)) == sorted(f"thing {n}" for n in numbers)
            assert len(await store.turns(user, "runs")) == 12

    async def test_a_reader_sees_whole_batches(self, store: Store) -> None:
        seen: set[int] = set()

        async def read() -> None:
            while 300 not in seen:
                seen.add(len(await store.episodes(None)))
                await asyncio.sleep(0)

        async def write() -> None:
            for _ in range(10):
                await add_episodes(store, None, *(told("x") for _ in range(30)))

        await asyncio.gather(read(), write())
        assert {count % 30 for count in seen} == {0}

    @requires(PERSISTENT)
    async def test_two_stores_on_one_database_see_each_others_writes(self, store: Store, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)
        try:
            await write_some(store)
            assert await all_of(other) == await all_of(store)
            for first, second in ((store, other), (other, store)):
                await add_episodes(first, "ana", told("fresh kestrel"))
                await first.change_block("ana", "profile", writing(f"by {id(first)}"))
                assert (await inputs(second, "ana"))[-1] == "fresh kestrel"
                assert await contents(second, "ana") == {"profile": f"by {id(first)}"}
            await other.forget("ana")
            assert (await store.users(), await inputs(store, "ana")) == ([None], [])
        finally:
            await other.aclose()

    @requires(PERSISTENT, Capability.KEYWORDS)
    async def test_two_stores_search_one_index(self, store: Store, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)
        try:
            await add_episodes(store, "ana", told("kestrel"))
            assert await said(other, "ana", asking("kestrel")) == ["kestrel"]
            await other.forget("ana")
            assert await said(store, "ana", asking("kestrel")) == []
        finally:
            await other.aclose()

    @requires(PERSISTENT, Capability.VECTORS)
    async def test_two_stores_search_the_same_vectors(self, store: Store, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)

        async def nearest(searched: Store) -> list[str]:
            episodes, _ = await searched.search("ana", towards(0))
            return [episode.input for episode in by_vector(episodes)]

        try:
            for angle in (50, 20, 80):
                await store.add_episodes("ana", [NewEpisode(told(f"{angle}", id=f"{angle}"), embedded(angle))])
                assert await nearest(other) == await nearest(store)
            await other.set_vectors("ana", {"80": embedded(0)}, {})
            assert await nearest(store) == ["80", "20", "50"]
            await other.forget("ana")
            assert await nearest(store) == []
            await other.add_episodes("ana", [NewEpisode(told("new", id="20"), embedded(30))])
            assert await nearest(store) == ["new"]
        finally:
            await other.aclose()

    @requires(PERSISTENT)
    async def test_two_stores_lose_no_update(self, store: Store, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)
        try:
            await asyncio.gather(
                *((store, other)[n % 2].change_block(None, "log", appending(f"<{n}>")) for n in range(40)),
                *(add_episodes((store, other)[n % 2], None, told(f"e{n}", id=f"e{n % 20}")) for n in range(40)),
            )
            (block,) = await other.blocks(None)
            assert block.version == 40
            assert len(block.content.split("><")) == 40
            assert len(await inputs(store, None)) == 20
        finally:
            await other.aclose()

    async def test_users_are_those_who_have_anything(self, store: Store) -> None:
        assert await store.users() == []
        await store.change_block("blocks", "b", writing(""))
        await add_facts(store, "facts", Fact("s", "p", "o", id="f"))
        await retract(store, "facts", "f")
        await add_episodes(store, None, told("x"))
        await store.begin_run("runs", OpenRun("r", "s", "x", at(0)))
        users = await store.users()
        assert len(users) == 4
        assert set(users) == {"blocks", "facts", None, "runs"}
        await store.change_block("blocks", "b", lambda _: None)
        await store.forget("facts")
        assert set(await store.users()) == {None, "runs", "blocks"}, "what the block said is kept"
        assert (await store.stats(None, everyone=True, embedder=None)).users == 3
        await store.forget("blocks")
        assert set(await store.users()) == {None, "runs"}

    async def test_stats_count_one_user_or_everyone(self, store: Store) -> None:
        await write_some(store)
        ana = await store.stats("ana", everyone=False, embedder=None)
        assert (ana.users, ana.sessions, ana.blocks, ana.facts, ana.fact_versions, ana.episodes) == (1, 1, 1, 1, 2, 1)
        everyone = await store.stats(None, everyone=True, embedder=None)
        assert (everyone.users, everyone.sessions, everyone.episodes) == (2, 2, 2)
        anonymous = await store.stats(None, everyone=False, embedder=None)
        assert (anonymous.users, anonymous.blocks, anonymous.episodes) == (1, 0, 1)
        nobody = await store.stats("nobody", everyone=False, embedder=None)
        assert replace(nobody, bytes=0) == replace(
            ana, users=0, sessions=0, blocks=0, facts=0, fact_versions=0, episodes=0, bytes=0
        )
        assert ana.url == store.url
        assert (ana.unembedded, ana.embedder) == (0, None)

    @requires(Capability.VECTORS)
    async def test_stats_count_what_is_not_embedded(self, store: Store) -> None:
        await store.add_facts(None, [(Fact("s", "p", f"{n}", id=f"{n}"), embedded(n)) for n in range(3)], gather)
        await store.add_episodes(None, [NewEpisode(told("x"), embedded(0)), NewEpisode(told("y"))])
        await add_facts(store, None, Fact("s", "p", "none"))
        assert (await store.stats(None, everyone=False, embedder=SPACE)).unembedded == 2
        await retract(store, None, "0")
        stats = await store.stats(None, everyone=True, embedder=SPACE)
        assert (stats.facts, stats.episodes, stats.unembedded, stats.embedder) == (3, 2, 2, SPACE)
        assert (await store.stats(None, everyone=True, embedder="conformance:unknown")).unembedded == 5
