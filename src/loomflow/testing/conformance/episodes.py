"""Episodes: idempotent ids, the order of writing, all-or-nothing batches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from loomflow.errors import ConfigError
from loomflow.items import Episode
from loomflow.ports import Store
from loomflow.records import NewEpisode

from .base import Capability, ConformanceBase, ManualClock, add_episodes, asking, at, ids, inputs, requires, said, told

FULL = Episode(
    "Wo können wir essen? 寿司 👩‍👩‍👧",
    "At the river.\r\n  Two lines.",
    session_id="s:1/%_",
    occurred_at=datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC),
    id="episode 7",
    metadata={"tags": ["a", {"b": None}], "n": 3, "x": 0.5, "ok": True, "城": "é"},
    user_name="Ana",
    agent_name="Nova",
)


class EpisodeConformance(ConformanceBase):
    """`add_episodes` and `episodes`."""

    async def test_an_episode_comes_back_as_written(self, store: Store) -> None:
        written = replace(FULL, user_id="ana")
        assert await add_episodes(store, "ana", FULL) == [written]
        assert await store.episodes("ana") == [written]

    @pytest.mark.parametrize(
        "moment",
        [
            datetime.min.replace(tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
        ],
    )
    async def test_every_occurrence_is_kept_to_the_microsecond(self, store: Store, moment: datetime) -> None:
        await add_episodes(store, None, told("x", occurred_at=moment))
        (stored,) = await store.episodes(None)
        assert stored.occurred_at == moment

    async def test_missing_ids_and_moments_are_given(self, store: Store, clock: ManualClock) -> None:
        first, second = await add_episodes(store, None, told("one"), told("two"))
        assert (first.occurred_at, second.occurred_at) == (clock(), clock())
        assert first.id
        assert second.id
        assert first.id != second.id
        assert await store.episodes(None) == [first, second]

    async def test_adding_no_episode_changes_nothing(self, store: Store) -> None:
        assert await store.add_episodes("ana", []) == []
        assert await store.users() == []

    async def test_an_id_given_twice_is_the_same_episode(self, store: Store) -> None:
        (first,) = await add_episodes(store, "ana", told("the first text", id="e"))
        again = await add_episodes(store, "ana", told("another text", id="e", session="other"), told("new", id="f"))
        assert again[0] == first
        assert await inputs(store, "ana") == ["the first text", "new"]
        assert await inputs(store, "ana", session_id="other") == []

    async def test_an_id_given_twice_in_one_batch_is_the_same_episode(self, store: Store) -> None:
        first, again, other = await add_episodes(
            store, None, told("first", id="e"), told("again", id="e"), told("other", id="f")
        )
        assert first == again
        assert await store.episodes(None) == [first, other]

    @requires(Capability.KEYWORDS)
    async def test_an_episode_written_twice_is_found_once(self, store: Store) -> None:
        for text in ("green kestrel", "green heron"):
            await add_episodes(store, None, told(text, id="e"))
        assert await said(store, None, asking("green")) == ["green kestrel"]
        assert await said(store, None, asking("heron")) == []

    async def test_two_users_may_use_one_id(self, store: Store) -> None:
        await add_episodes(store, "ana", told("of Ana", id="e"))
        await add_episodes(store, "bo", told("of Bo", id="e"))
        assert await inputs(store, "ana") == ["of Ana"]
        assert await inputs(store, "bo") == ["of Bo"]

    async def test_episodes_stand_in_the_order_of_writing_whatever_their_clocks_say(self, store: Store) -> None:
        for name, day in (("a", 5), ("b", 1), ("c", 1), ("d", 9), ("e", 2)):
            await add_episodes(store, None, told(name, occurred_at=at(day)))
        await add_episodes(store, None, *(told(name, occurred_at=at(0)) for name in ("f", "g", "h")))
        assert await inputs(store, None) == list("abcdefgh")

    async def test_a_limit_keeps_the_newest_in_order(self, store: Store) -> None:
        await add_episodes(store, None, *(told(f"m{number}", occurred_at=at(0)) for number in range(13)))
        assert await inputs(store, None, limit=10) == [f"m{number}" for number in range(3, 13)]
        assert await inputs(store, None, limit=1) == ["m12"]
        assert len(await inputs(store, None, limit=500)) == 13

    async def test_a_session_lists_its_own_episodes(self, store: Store) -> None:
        sessions = ["s1", "S1", "s_", "s%", "s1 ", "%"]
        for turn in range(2):
            for session in sessions:
                await add_episodes(store, None, told(f"{session}:{turn}", session=session))
        for session in sessions:
            assert await inputs(store, None, session_id=session) == [f"{session}:0", f"{session}:1"]
            assert await inputs(store, None, session_id=session, limit=1) == [f"{session}:1"]
        assert await inputs(store, None, session_id="s") == []

    async def test_an_episode_of_another_user_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(ConfigError):
            await add_episodes(store, "ana", told("mine"), told("his", user_id="bo"))
        assert await store.users() == []

    async def test_a_batch_is_written_as_a_whole(self, store: Store) -> None:
        batches = [[told(f"{batch}.{turn}") for turn in range(20)] for batch in range(6)]
        await asyncio.gather(*(add_episodes(store, None, *batch) for batch in batches))
        order = [text.split(".")[0] for text in await inputs(store, None)]
        assert len(order) == 120
        assert sum(before != after for before, after in pairwise(order)) == 5

    async def test_concurrent_writers_of_one_id_agree(self, store: Store) -> None:
        results = await asyncio.gather(
            *(add_episodes(store, "ana", told(f"text {number}", id="e")) for number in range(12))
        )
        stored = await store.episodes("ana")
        assert len(stored) == 1
        assert all(result == stored for result in results)

    async def test_long_texts_are_kept_whole(self, store: Store) -> None:
        text = "line of log text, 日志\n" * 50_000
        (written,) = await store.add_episodes(None, [NewEpisode(told("long", output=text))])
        (stored,) = await store.episodes(None)
        assert stored == written
        assert stored.output == text
        assert ids([stored]) == ids([written])
