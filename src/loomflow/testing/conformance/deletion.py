"""Forgetting: rows, vectors and index entries go, the count is true, and everybody else keeps everything."""

from __future__ import annotations

import pytest

from loomflow.bitemporal import supersede
from loomflow.errors import ConfigError
from loomflow.items import Episode, Fact, Forgotten
from loomflow.ports import Store
from loomflow.records import NewEpisode, OpenRun, Search

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    asking,
    at,
    by_keyword,
    by_vector,
    contents,
    embedded,
    gather,
    inputs,
    objects,
    retract,
    told,
    writing,
)


async def fill(store: Store, user: str | None, *, episodes: int = 3, facts: int = 2, blocks: int = 1) -> None:
    """Write some of everything, all of it with the word "kayak" and in one direction."""
    for number in range(blocks):
        await store.change_block(user, f"block {number}", writing("kayak"))
    stated = [Fact(f"s{number}", "p", f"kayak {number}", id=f"f{number}") for number in range(facts)]
    await store.add_facts(user, [(fact, embedded(10)) for fact in stated], gather)
    await store.add_episodes(
        user,
        [
            NewEpisode(told(f"kayak {number}", id=f"e{number}", user_name=f"N{number}"), embedded(10), "[]")
            for number in range(episodes)
        ],
    )


async def found(store: Store, user: str | None, limit: int = 5) -> int:
    """How many of what `fill` wrote the two searches find."""
    episodes, facts = await store.search(user, asking("kayak", query=embedded(0), limit=limit))
    return sum(len(ranking) for ranking in (episodes.lexical, episodes.vector, facts.lexical, facts.vector))


async def everything(store: Store, user: str | None) -> tuple[object, ...]:
    """All that a store shows of a user."""
    return (
        await store.blocks(user), await objects(store, user, history=True), await store.turns(user, None),
        await store.episodes(user), await store.search(user, asking("kayak", query=embedded(0))),
        await store.unembedded(user, "conformance:unknown", 10_000), await store.names(user),
        await store.passages(user, asking("kayak", query=embedded(0), text="kayak", chars=1_000_000)),
    )  # fmt: skip


class DeletionConformance(ConformanceBase):
    """`forget`."""

    async def test_forgetting_a_user_leaves_nothing(self, store: Store) -> None:
        nothing = await everything(store, "ana")
        await fill(store, "ana")
        await store.begin_run("ana", OpenRun("r", "s", "kayak", at(0)))
        await found(store, "ana")
        assert await store.forget("ana") == Forgotten(blocks=1, facts=2, episodes=3)
        assert await everything(store, "ana") == nothing
        assert await found(store, "ana") == 0
        assert await store.users() == []

    async def test_many_rows_go_in_one_call(self, store: Store) -> None:
        await fill(store, "bo", episodes=4, facts=3)
        before = await everything(store, "bo")
        await fill(store, "ana", episodes=1203, facts=231, blocks=12)
        assert await store.forget("ana") == Forgotten(blocks=12, facts=231, episodes=1203)
        assert await found(store, "ana", 5000) == 0
        assert await store.forget("ana") == Forgotten()
        stats = await store.stats("ana", everyone=False, embedder=SPACE)
        assert (stats.blocks, stats.facts, stats.fact_versions, stats.episodes, stats.sessions) == (0, 0, 0, 0, 0)
        assert await everything(store, "bo") == before

    @pytest.mark.parametrize(
        ("gone", "kept"), [("ana", "bo"), (None, "bo"), ("ana", None), ("a", "ana"), ("an_", "ana")]
    )
    async def test_other_users_keep_everything(self, store: Store, gone: str | None, kept: str | None) -> None:
        await fill(store, gone)
        await fill(store, kept)
        before = await everything(store, kept)
        assert (await store.forget(gone)).total == 6
        assert await everything(store, kept) == before
        assert await store.users() == [kept]

    async def test_forgetting_somebody_unknown_deletes_nothing(self, store: Store) -> None:
        await fill(store, "ana")
        before = await everything(store, "ana")
        for user in ("bo", "Ana", "ana ", "%", "_", None):
            assert await store.forget(user) == Forgotten()
        assert await store.forget("ana", session_id="unknown") == Forgotten()
        assert await store.forget("ana", before=at(-1000)) == Forgotten()
        assert await everything(store, "ana") == before

    @pytest.mark.parametrize("session", ["", "  ", "a\nb"])
    async def test_an_unusable_session_is_refused(self, store: Store, session: str) -> None:
        await fill(store, "ana")
        with pytest.raises(ConfigError):
            await store.forget("ana", session_id=session)
        assert len(await store.episodes("ana")) == 3

    async def test_every_version_of_a_fact_goes(self, store: Store, clock: ManualClock) -> None:
        for city in ("Porto", "Braga", "Faro"):
            clock.advance(days=1)
            await add_facts(store, None, Fact("Ana", "home", city, id="f"), plan=supersede)
        await retract(store, None, "f")
        await store.forget(None)
        assert await objects(store, None, history=True) == []
        assert await objects(store, None, known_at=clock.moment) == []

    async def test_a_session_goes_with_the_facts_that_came_from_it(self, store: Store) -> None:
        await store.change_block("ana", "profile", writing("kept"))
        for session in ("gone", "kept"):
            await add_episodes(store, "ana", told(session, id=f"e-{session}", session=session))
            await store.begin_run("ana", OpenRun("r", session, session, at(0)))
            await add_facts(store, "ana", Fact("s", "p", session, source_episode_id=f"e-{session}"))
        await add_facts(store, "ana", Fact("s", "p", "told by hand"))
        await add_episodes(store, "bo", told("of Bo", id="e-gone", session="gone"))
        await add_facts(store, "bo", Fact("s", "p", "of Bo", source_episode_id="e-gone"))
        assert await store.forget("ana", session_id="gone") == Forgotten(facts=1, episodes=1)
        assert await store.turns("ana", "gone") == []
        assert len(await store.turns("ana", "kept")) == 2
        assert await inputs(store, "ana") == ["kept"]
        assert await objects(store, "ana") == ["kept", "told by hand"]
        assert await contents(store, "ana") == {"profile": "kept"}
        assert (await inputs(store, "bo"), await objects(store, "bo")) == (["of Bo"], ["of Bo"])

    @pytest.mark.parametrize("session", ["s_1", "s%1", "%", "S-1"])
    async def test_a_session_is_forgotten_by_its_exact_name(self, store: Store, session: str) -> None:
        await add_episodes(store, None, told("other", session="s-1"), told("own", session=session))
        assert await store.forget(None, session_id=session) == Forgotten(episodes=1)
        assert await inputs(store, None) == ["other"]

    async def test_what_is_older_than_a_moment_goes(self, store: Store) -> None:
        await store.change_block(None, "profile", writing("kept"))
        for day in range(4):
            await add_episodes(store, None, told(f"day {day}", occurred_at=at(day)))
            await add_facts(store, None, Fact("s", "p", f"day {day}", recorded_at=at(day)))
        assert await store.forget(None, before=at(2)) == Forgotten(facts=2, episodes=2)
        assert await inputs(store, None) == ["day 2", "day 3"]
        assert await objects(store, None) == ["day 2", "day 3"]
        assert await contents(store, None) == {"profile": "kept"}

    async def test_session_and_moment_narrow_together(self, store: Store) -> None:
        for session in ("a", "b"):
            for day in range(3):
                await add_episodes(
                    store, None, told(f"{session}{day}", id=f"{session}{day}", session=session, occurred_at=at(day))
                )
                source = f"{session}{day}"
                await add_facts(store, None, Fact("s", "p", source, recorded_at=at(day), source_episode_id=source))
        assert await store.forget(None, session_id="a", before=at(1)) == Forgotten(facts=1, episodes=1)
        assert await inputs(store, None) == ["a1", "a2", "b0", "b1", "b2"]
        assert sorted(await objects(store, None)) == ["a1", "a2", "b0", "b1", "b2"]

    async def test_open_runs_go_with_what_is_forgotten(self, store: Store) -> None:
        for run, session, day in (("a", "gone", 0), ("b", "kept", 0), ("c", "kept", 5)):
            await store.begin_run(None, OpenRun(run, session, "x", at(day)))
        await store.forget(None, session_id="gone")
        await store.forget(None, before=at(2))
        assert [turn.interrupted and turn.interrupted.run_id for turn in await store.turns(None, None)] == ["c"]

    async def test_a_run_that_finishes_after_it_was_forgotten_is_a_new_episode(self, store: Store) -> None:
        await store.begin_run("ana", OpenRun("r", "s", "x", at(0)))
        await store.forget("ana")
        await store.finish_run("ana", "r", NewEpisode(Episode("x", "y", session_id="s", id="r")))
        assert await inputs(store, "ana") == ["x"]

    async def test_what_was_forgotten_can_be_written_again(self, store: Store) -> None:
        for _ in range(3):
            await fill(store, "ana")
            before = await found(store, "ana")
            await store.forget("ana")
            assert await found(store, "ana") == 0
            await fill(store, "ana")
            assert await found(store, "ana") == before
            assert (await contents(store, "ana"), await inputs(store, "ana")) == (
                {"block 0": "kayak"}, ["kayak 0", "kayak 1", "kayak 2"],
            )  # fmt: skip
            await store.forget("ana")

    async def test_the_rest_is_searched_as_before(self, store: Store) -> None:
        for session in ("gone", "kept"):
            await store.add_episodes(
                "ana",
                [NewEpisode(told(f"kayak {session} {n}", session=session), embedded(4 * n)) for n in range(20)],
            )
        await found(store, "ana")
        await store.forget("ana", session_id="gone")
        episodes, _ = await store.search("ana", asking("kayak", limit=30))
        expected = {f"kayak kept {n}" for n in range(20)} if Capability.KEYWORDS in self.capabilities else set[str]()
        assert {episode.input for episode in by_keyword(episodes)} == expected
        episodes, _ = await store.search("ana", Search(query=embedded(0), limit=30))
        ordered = [f"kayak kept {n}" for n in range(20)] if Capability.VECTORS in self.capabilities else list[str]()
        assert [episode.input for episode in by_vector(episodes)] == ordered
