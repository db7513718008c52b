"""Filters of a search: user, session, ids, valid and recorded time. Every one applies before the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from loomflow.bitemporal import supersede
from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import NOT_EMBEDDED, Embedded, FactPlan, Found, Item, NewEpisode, Search

from .base import (
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    asking,
    at,
    by_keyword,
    by_vector,
    embedded,
    gather,
    retract,
    told,
)

BEST = "harbour lights"
WORSE = "a long walk through the whole town and at the end of it the harbour"


@dataclass(frozen=True, slots=True)
class Way:
    """One of the two searches, so that a test can be run by either.

    `BEST` ranks above `WORSE` in both.
    """

    search: Search
    ranking: Callable[[Found[Any]], list[Any]]
    vectors: dict[str, Embedded]

    async def add(self, store: Store, user: str | None, *episodes: Episode) -> None:
        """Add episodes, each with the vector of its text."""
        await store.add_episodes(user, [NewEpisode(e, self._vector(e.input)) for e in episodes])

    async def state(self, store: Store, user: str | None, *facts: Fact, plan: FactPlan = gather) -> None:
        """Add facts, each with the vector of its object."""
        await store.add_facts(user, [(fact, self._vector(fact.object)) for fact in facts], plan)

    async def episodes(self, store: Store, user: str | None, **fields: Any) -> list[Episode]:
        """The episodes found, best first."""
        found, _ = await store.search(user, replace(self.search, **fields))
        return self._ranked(found)

    async def facts(self, store: Store, user: str | None, **fields: Any) -> list[Fact]:
        """The facts found, best first."""
        _, found = await store.search(user, replace(self.search, **fields))
        return self._ranked(found)

    def _ranked(self, found: Found[Item]) -> list[Item]:
        return self.ranking(found)

    def _vector(self, text: str) -> Embedded:
        return self.vectors.get(text, NOT_EMBEDDED)


WAYS = {
    Capability.KEYWORDS: Way(asking(BEST), by_keyword, {}),
    Capability.VECTORS: Way(Search(query=embedded(0)), by_vector, {BEST: embedded(1), WORSE: embedded(50)}),
}


def names(items: Sequence[Episode | Fact]) -> list[str | None]:
    return [item.id for item in items]


class FilterConformance(ConformanceBase):
    """`search` within a user's memory, without the running conversation, at a moment."""

    @pytest.fixture(params=list(WAYS), ids=lambda capability: capability.value)
    def way(self, request: pytest.FixtureRequest) -> Way:
        """The search by keyword, then the search by vector."""
        if request.param not in self.capabilities:
            pytest.skip(f"the store is not: {request.param.value}")
        return WAYS[request.param]

    async def test_best_ranks_above_worse(self, store: Store, way: Way) -> None:
        await way.add(store, None, told(WORSE, id="worse"), told(BEST, id="best"))
        await way.state(store, None, Fact("s", "p", WORSE, id="worse"), Fact("s", "p", BEST, id="best"))
        assert names(await way.episodes(store, None)) == ["best", "worse"]
        assert names(await way.facts(store, None)) == ["best", "worse"]

    @pytest.mark.parametrize(("me", "other"), [("ana", "bo"), (None, "bo"), ("ana", None)])
    async def test_other_users_take_no_place_within_the_limit(
        self, store: Store, way: Way, me: str | None, other: str | None
    ) -> None:
        await way.add(store, other, *(told(BEST, id=f"other {n}") for n in range(200)))
        await way.state(store, other, *(Fact(f"s{n}", "p", BEST, id=f"other {n}") for n in range(200)))
        await way.add(store, me, *(told(WORSE, id=f"mine {n}") for n in range(3)))
        await way.state(store, me, *(Fact("s", "p", WORSE, id=f"mine {n}") for n in range(3)))
        assert set(names(await way.episodes(store, me, limit=5))) == {"mine 0", "mine 1", "mine 2"}
        assert set(names(await way.facts(store, me, limit=5))) == {"mine 0", "mine 1", "mine 2"}

    async def test_the_running_session_takes_no_place_within_the_limit(self, store: Store, way: Way) -> None:
        await way.add(store, None, *(told(WORSE, id=f"old {n}", session="old") for n in range(3)))
        await way.add(store, None, *(told(BEST, id=f"now {n}", session="now") for n in range(150)))
        found = await way.episodes(store, None, limit=3, without_session="now")
        assert set(names(found)) == {"old 0", "old 1", "old 2"}

    async def test_what_is_in_the_history_takes_no_place_within_the_limit(self, store: Store, way: Way) -> None:
        await way.add(store, None, *(told(WORSE, id=f"old {n}") for n in range(3)))
        await way.add(store, None, *(told(BEST, id=f"it's {n}") for n in range(150)))
        without = frozenset([*(f"it's {n}" for n in range(150)), "unknown", 'a"b', "%"])
        found = await way.episodes(store, None, limit=3, without_ids=without)
        assert set(names(found)) == {"old 0", "old 1", "old 2"}

    async def test_ended_facts_take_no_place_within_the_limit(self, store: Store, way: Way) -> None:
        store.clock = ManualClock(at(10))
        for n in range(100):
            await way.state(
                store, None, Fact(f"s{n}", "p", BEST, valid_until=at(10)), Fact(f"s{n}", "q", BEST, valid_from=at(11))
            )
        await way.state(
            store, None, Fact("s", "p", WORSE, id="open"), Fact("s", "p", WORSE, id="ends later", valid_until=at(11)),
            Fact("s", "p", WORSE, id="begins now", valid_from=at(10)),
        )  # fmt: skip
        assert set(names(await way.facts(store, None, limit=3))) == {"open", "ends later", "begins now"}

    async def test_retired_versions_take_no_place_within_the_limit(self, store: Store, way: Way) -> None:
        clock = ManualClock(at(0))
        store.clock = clock
        for confidence in range(100):
            clock.advance(hours=1)
            await way.state(store, None, Fact("s", "p", BEST, id="f", confidence=confidence / 100), plan=supersede)
        await way.state(store, None, Fact("s", "p", BEST, id="gone"))
        await retract(store, None, "gone")
        await way.state(store, None, Fact("s", "q", WORSE, id="g"))
        assert names(await way.facts(store, None, limit=2)) == ["f", "g"]

    async def test_facts_from_the_running_session_are_left_out(self, store: Store, way: Way) -> None:
        for source, session in (("e1", "now"), ("e2", "old"), ("e3", "now")):
            await add_episodes(store, None, told("x", id=source, session=session))
        for source in ("e1", "e2", "e3", "not stored", None):
            await way.state(store, None, Fact("s", "p", BEST, id=f"from {source}", source_episode_id=source))
        assert set(names(await way.facts(store, None, without_session="now"))) == {
            "from e2", "from not stored", "from None",
        }  # fmt: skip
        assert set(names(await way.facts(store, None, without_ids=frozenset(["e1", "e2"])))) == {
            "from e3", "from not stored", "from None",
        }  # fmt: skip

    async def test_a_session_of_another_user_with_the_same_name_is_not_meant(self, store: Store, way: Way) -> None:
        await add_episodes(store, "bo", told("x", id="e", session="now"))
        await way.add(store, "ana", told(BEST, id="mine", session="old"))
        await way.state(store, "ana", Fact("s", "p", BEST, id="f", source_episode_id="e"))
        assert names(await way.episodes(store, "ana", without_session="now")) == ["mine"]
        assert names(await way.facts(store, "ana", without_session="now")) == ["f"]

    @pytest.mark.parametrize("session", ["s_1", "s%1", "%", "s-1 ", "S-1"])
    async def test_a_session_is_left_out_by_its_exact_name(self, store: Store, way: Way, session: str) -> None:
        await way.add(store, None, told(BEST, id="other", session="s-1"), told(BEST, id="own", session=session))
        assert names(await way.episodes(store, None, without_session=session)) == ["other"]

    async def test_at_a_moment_only_what_had_occurred_by_then_is_found(self, store: Store, way: Way) -> None:
        await way.add(store, None, *(told(BEST, id=f"day {day}", occurred_at=at(day)) for day in range(50)))
        found = await way.episodes(store, None, at=at(3), limit=4)
        assert set(names(found)) == {"day 0", "day 1", "day 2", "day 3"}

    async def test_at_a_moment_only_what_was_known_and_true_then_is_found(self, store: Store, way: Way) -> None:
        clock = ManualClock(at(0))
        store.clock = clock
        for day, city in ((1, "Acme"), (5, "Orbis")):
            clock.moment = at(day)
            await way.state(store, None, Fact(f"{BEST} {city}", "home", BEST, id="f"), plan=supersede)
        clock.moment = at(9)
        await way.state(store, None, Fact("s", "p", BEST, id="told on 9", valid_from=at(0)))
        subjects = {
            day: sorted(fact.subject[-5:] for fact in await way.facts(store, None, at=at(day))) for day in (0, 1, 4, 5)
        }
        assert subjects == {0: [], 1: [" Acme"], 4: [" Acme"], 5: ["Orbis"]}
        assert len(await way.facts(store, None)) == 2

    async def test_all_filters_apply_together(self, store: Store, way: Way) -> None:
        await way.add(store, "bo", *(told(BEST, id=f"bo {n}", occurred_at=at(0)) for n in range(60)))
        await way.add(store, "ana", *(told(BEST, id=f"s {n}", session="now", occurred_at=at(0)) for n in range(60)))
        await way.add(store, "ana", *(told(BEST, id=f"i {n}", occurred_at=at(0)) for n in range(60)))
        await way.add(store, "ana", *(told(BEST, id=f"late {n}", occurred_at=at(9)) for n in range(60)))
        await way.add(store, "ana", told(WORSE, id="mine", occurred_at=at(1)))
        found = await way.episodes(
            store, "ana", limit=2, at=at(5), without_session="now", without_ids=frozenset(f"i {n}" for n in range(60))
        )
        assert names(found) == ["mine"]
