"""Searches at a moment: ranked as they were then, however much came later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import Embedded, NewEpisode
from loomflow.transactions import Rules, correction, retraction

from .base import SPACE, ConformanceBase, ManualClock, asking, at, by_keyword, by_vector, gather, told

QUESTIONS = 6


def near(number: int) -> Embedded:
    """One of many vectors that are all near to one another, so that little decides which is nearer."""
    angles = np.arange(1, 9) * (number + 1)
    return Embedded(SPACE, (1 + 0.15 * np.sin(angles)).astype(np.float32))


def episodes_of(day: int, count: int) -> list[NewEpisode]:
    """Episodes of a day with much the same words."""
    return [
        NewEpisode(
            told(f"kayak {'river ' * (n % 9)}{day}", id=f"{day} {n}", session=f"s{n % 5}", occurred_at=at(day)), near(n)
        )
        for n in range(count)
    ]


def facts_of(day: int, count: int) -> list[tuple[Fact, Embedded]]:
    """Facts of a day with much the same words."""
    return [
        (Fact(f"S{n}", "says", f"kayak {'river ' * (n % 9)}{day}", id=f"{day} {n}", recorded_at=at(day)), near(n))
        for n in range(count)
    ]


async def rankings(store: Store, **which: Any) -> list[Sequence[tuple[object, ...]]]:
    """What some questions find by every search, best first."""
    found: list[Sequence[tuple[object, ...]]] = []
    for number in range(QUESTIONS):
        search = asking("kayak river", query=near(number), limit=32, text="kayak river?", chars=2000, **which)
        episodes, facts = await store.search("ana", search)
        ranked: tuple[Sequence[Episode | Fact], ...] = (
            by_keyword(episodes), by_vector(episodes), by_keyword(facts), by_vector(facts),
        )  # fmt: skip
        found += [[(item.id, item.text) for item in items] for items in ranked]
        found += [[(cosine,) for _, cosine in ranking.vector] for ranking in (episodes, facts)]
        passages, of_facts = await store.passages("ana", search)
        found += [[(one.item.id, one.start, one.score, one.relevance) for one in passages]]
        found += [[(one.item.id, one.score, one.relevance) for one in of_facts]]
    return found


class MomentConformance(ConformanceBase):
    """`search` and `passages` with `Search.at`."""

    async def fill(self, store: Store, clock: ManualClock, day: int, count: int) -> None:
        """Add episodes and facts on a day."""
        clock.moment = at(day)
        await store.add_episodes("ana", episodes_of(day, count))
        await store.add_facts("ana", facts_of(day, count), gather)

    async def test_the_present_moment_is_ranked_as_now(self, store: Store, clock: ManualClock) -> None:
        await self.fill(store, clock, 1, 200)
        assert await rankings(store, at=at(1)) == await rankings(store)

    @pytest.mark.parametrize("session", [None, "s1"])
    async def test_what_came_later_changes_no_ranking(
        self, store: Store, clock: ManualClock, session: str | None
    ) -> None:
        await self.fill(store, clock, 1, 200)
        then = await rankings(store, without_session=session)
        for day in (5, 6):
            await self.fill(store, clock, day, 700)
            assert await rankings(store, at=at(1), without_session=session) == then
        assert await rankings(store) != then

    async def test_what_is_believed_no_more_is_ranked_as_it_was(self, store: Store, clock: ManualClock) -> None:
        await self.fill(store, clock, 1, 60)
        then = await rankings(store)
        clock.moment = at(5)
        for number in range(0, 60, 3):
            fields = {"object": f"river {number}"}
            await store.change_facts("ana", lambda n=number: retraction(f"1 {n}", Rules(clock())))
            await store.change_facts(
                "ana", lambda n=number, fields=fields: correction(f"1 {n + 1}", fields, Rules(clock()))
            )
        assert await rankings(store, at=at(1)) == then
        assert await rankings(store) != then

    async def test_before_the_first_item_nothing_is_found(self, store: Store, clock: ManualClock) -> None:
        await self.fill(store, clock, 1, 20)
        assert [ranking for ranking in await rankings(store, at=at(0)) if ranking] == []
