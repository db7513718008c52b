"""Many small writes: whatever a store does to keep them searchable, they are searched like one large one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import NewEpisode, Search

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    add_episodes,
    at,
    embedded,
    gather,
    requires,
    told,
)
from .passages import ALL, about, rating
from .ranking import varied

KEYWORDS, VECTORS = Capability.KEYWORDS, Capability.VECTORS


class GrowthConformance(ConformanceBase):
    """All writes and both searches, over hundreds of writes."""

    async def fill_slowly(self, store: Store, user: str, texts: Sequence[str]) -> None:
        """Write each text as an episode, and every third one as a fact, with a write of its own."""
        for place, text in enumerate(texts):
            await store.add_episodes(user, [NewEpisode(_numbered(place, text), embedded(_angle(place)))])
            if place % 3 == 0:
                await store.add_facts(user, [(_fact(place, text), embedded(_angle(place)))], gather)

    async def fill_at_once(self, store: Store, user: str, texts: Sequence[tuple[int, str]]) -> None:
        """Write the same with one write for the episodes and one for the facts."""
        await store.add_episodes(
            user, [NewEpisode(_numbered(place, text), embedded(_angle(place))) for place, text in texts]
        )
        facts = [(_fact(place, text), embedded(_angle(place))) for place, text in texts if place % 3 == 0]
        await store.add_facts(user, facts, gather)

    async def everything_found(self, store: Store, user: str) -> list[object]:
        """What several searches give, by words, by vector, and by both, in both kinds of search."""
        found: list[object] = []
        for search in (
            about("kayak 17 canoe"), Search(query=embedded(33), chars=ALL, limit=50),
            about("canoe number 5", query=embedded(120), limit=700), about("lake", at=at(2), limit=700),
        ):  # fmt: skip
            if (search.words and KEYWORDS in self.capabilities) or VECTORS in self.capabilities:
                episodes, facts = await store.passages(user, search)
                found.append(([rating(one) for one in episodes], [rating(one) for one in facts]))
                ranked_episodes, ranked_facts = await store.search(user, search)
                found += [[one.items[key].id for key in one.lexical] for one in (ranked_episodes, ranked_facts)]
                found += [
                    [(one.items[key].id, pytest.approx(cosine, abs=1e-5)) for key, cosine in one.vector]
                    for one in (ranked_episodes, ranked_facts)
                ]
        return found

    async def test_many_small_writes_are_searched_like_one_large_one(self, store: Store) -> None:
        texts = [varied(place) for place in range(600)]
        await self.fill_slowly(store, "slow", texts)
        await self.fill_at_once(store, "once", list(enumerate(texts)))
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        for user in ("slow", "once"):  # whatever a store does behind its writes is done by the time of the next one
            await self.fill_at_once(store, user, [(600, varied(600))])
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        if Capability.PERSISTENT in self.capabilities:
            await store.aclose()
            assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")

    @pytest.mark.parametrize("searched_before", [False, True])
    async def test_what_was_forgotten_of_many_small_writes_is_as_if_it_never_was(
        self, store: Store, searched_before: bool
    ) -> None:
        texts = [varied(place) for place in range(600)]
        await self.fill_slowly(store, "slow", texts)
        if searched_before:
            await self.everything_found(store, "slow")
        await store.forget("slow", session_id="s2")
        await store.forget("slow", before=at(1))
        kept = [(place, text) for place, text in enumerate(texts) if _session(place) != "s2" and place >= 150]
        await self.fill_at_once(store, "once", kept)
        assert len(await store.episodes("slow")) == len(kept)
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        more = [(place, varied(place)) for place in range(600, 610)]
        for user in ("slow", "once"):
            await self.fill_at_once(store, user, more)
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")

    @requires(VECTORS)
    async def test_vectors_of_many_small_writes_can_be_set_and_counted(self, store: Store) -> None:
        for place in range(300):
            await add_episodes(store, None, told(f"{place}", id=f"{place}"))
        for place in range(0, 300, 2):
            await store.set_vectors(None, {f"{place}": embedded(place / 2)}, {})
        episodes, _ = await store.unembedded(None, SPACE, 1000)
        assert [episode.id for episode in episodes] == [f"{place}" for place in range(1, 300, 2)]
        assert (await store.stats(None, everyone=False, embedder=SPACE)).unembedded == 150
        for _ in range(2):
            await store.set_vectors(None, {"0": embedded(90), "1": embedded(10)}, {})
        assert (await store.stats(None, everyone=False, embedder=SPACE)).unembedded == 149
        found, _ = await store.search(None, Search(query=embedded(10), limit=2))
        assert {found.items[key].id for key, _ in found.vector} == {"1", "20"}


def _session(place: int) -> str:
    return f"s{place // 7 % 4}"


def _angle(place: int) -> float:
    return place * 61 % 360


def _numbered(place: int, text: str) -> Episode:
    return told(
        text, output="I see." if place % 2 else "", id=f"e{place}", session=_session(place),
        occurred_at=at(place // 150), user_name=f"N{place % 3}",
    )  # fmt: skip


def _fact(place: int, text: str) -> Fact:
    return Fact(
        f"N{place % 3}", f"p{place}", text, id=f"f{place}", recorded_at=at(place // 150),
        source_episode_id=f"e{place}",
    )  # fmt: skip
