"""Facts: plans, all-or-nothing batches, filters on both time axes, retraction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from loomflow.bitemporal import FactChanges, supersede
from loomflow.errors import ConfigError
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import NOT_EMBEDDED, FactFilter

from .base import ConformanceBase, ManualClock, add_facts, at, gather, ids, objects, retract

EVERYTHING = FactFilter(history=True)

FULL = Fact(
    "Ana  Lima",
    "Lives_In",
    "São Paulo 上海 👩‍👩‍👧",
    valid_from=datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    valid_until=datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    recorded_at=datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC),
    confidence=0.25,
    source_episode_id="episode 7",
    id="fact:1",
    metadata={"tags": ["a", {"b": None}], "n": 3, "x": 0.5, "ok": True, "城": "é"},
)


def replacing(believed: Sequence[Fact], new: Fact) -> FactChanges:
    """The plan that retires whatever is believed about the same thing."""
    return FactChanges(tuple(replace(fact, retired_at=new.recorded_at) for fact in believed), (new,))


class FactConformance(ConformanceBase):
    """`add_facts`, `change_facts` and `facts`."""

    async def test_a_fact_comes_back_as_written(self, store: Store) -> None:
        written = replace(FULL, user_id="ana")
        assert await add_facts(store, "ana", FULL) == [FactChanges(add=(written,))]
        assert await store.facts("ana", FactFilter()) == [written]

    @pytest.mark.parametrize(
        "moment",
        [
            datetime.min.replace(tzinfo=UTC),
            datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
        ],
    )
    async def test_every_moment_is_kept_to_the_microsecond(self, store: Store, moment: datetime) -> None:
        fact = Fact("s", "p", "o", valid_from=moment, valid_until=moment, recorded_at=moment)
        await add_facts(store, None, fact)
        (stored,) = await store.facts(None, FactFilter())
        assert (stored.valid_from, stored.valid_until, stored.recorded_at) == (moment, moment, moment)

    async def test_ids_and_times_are_given_where_they_are_missing(self, store: Store, clock: ManualClock) -> None:
        await add_facts(store, None, Fact("s", "p", "one"), Fact("s", "p", "two"))
        stored = await store.facts(None, FactFilter())
        assert [fact.recorded_at for fact in stored] == [clock(), clock()]
        assert len(set(ids(stored))) == 2
        assert None not in ids(stored)

    async def test_adding_nothing_changes_nothing(self, store: Store) -> None:
        assert await store.add_facts("ana", [], gather) == []
        assert await store.users() == []

    async def test_a_plan_sees_what_is_believed_about_the_same_thing(self, store: Store) -> None:
        await add_facts(
            store, "ana",
            Fact("Ana", "lives_in", "Porto", id="a"), Fact("ana ", "Lives In", "Braga", id="b"),
            Fact("Ana", "likes", "tea", id="c"), Fact("Bo", "lives_in", "Faro", id="d"),
        )  # fmt: skip
        await add_facts(store, "bo", Fact("Ana", "lives_in", "Lagos", id="e"))
        await retract(store, "ana", "b")
        seen: list[list[str | None]] = []

        def plan(believed: Sequence[Fact], new: Fact) -> FactChanges:
            seen.append([fact.id for fact in believed if fact.subject.strip().casefold() == "ana"])
            assert {fact.user_id for fact in believed} <= {"ana"}
            assert all(fact.retired_at is None for fact in believed)
            assert (new.user_id, new.id is None, new.recorded_at is None) == ("ana", False, False)
            return FactChanges()

        await add_facts(store, "ana", Fact("ANA", "lives-in", "Evora"), plan=plan)
        assert [fact_id for fact_id in seen[0] if fact_id in ("a", "b", "e")] == ["a"]

    async def test_a_plan_sees_the_fact_of_the_same_id(self, store: Store) -> None:
        await add_facts(store, None, Fact("Ana", "likes", "tea", id="f"))
        seen: list[Sequence[Fact]] = []

        def plan(believed: Sequence[Fact], new: Fact) -> FactChanges:
            seen.append(believed)
            return FactChanges()

        await add_facts(store, None, Fact("Somebody else", "owns", "a kayak", id="f"), plan=plan)
        assert "f" in ids(seen[0])

    async def test_a_plan_sees_the_facts_before_it_in_the_batch(self, store: Store) -> None:
        await add_facts(store, None, *(Fact("Ana", "lives_in", city) for city in ("A", "B", "C")), plan=replacing)
        assert await objects(store, None) == ["C"]
        assert await objects(store, None, history=True) == ["A", "B", "C"]

    async def test_a_plan_that_says_nothing_changes_nothing(self, store: Store) -> None:
        nothing = FactChanges()
        assert await add_facts(store, "ana", Fact("s", "p", "o"), plan=lambda _, __: nothing) == [nothing]
        assert await store.facts("ana", EVERYTHING) == []
        assert await store.users() == []

    async def test_a_plan_that_raises_undoes_the_whole_batch(self, store: Store) -> None:
        class RefusedError(Exception):
            pass

        def plan(believed: Sequence[Fact], new: Fact) -> FactChanges:
            if new.object == "bad":
                raise RefusedError
            return replacing(believed, new)

        await add_facts(store, "ana", Fact("Ana", "lives_in", "Porto"))
        before = await store.facts("ana", EVERYTHING)
        batch = [Fact("Ana", "lives_in", "Braga"), Fact("Ana", "likes", "tea"), Fact("Ana", "p", "bad")]
        for user in ("ana", "new user"):
            with pytest.raises(RefusedError):
                await add_facts(store, user, *batch, Fact("Ana", "p", "after"), plan=plan)
        assert await store.facts("ana", EVERYTHING) == before
        assert await store.users() == ["ana"]
        await add_facts(store, "ana", *batch[:2], plan=plan)
        assert await objects(store, "ana") == ["Braga", "tea"]

    async def test_a_fact_of_another_user_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(ConfigError):
            await add_facts(store, "ana", Fact("s", "p", "1"), Fact("s", "p", "2", user_id="bo"))
        assert await store.users() == []

    async def test_a_retired_version_stays_in_the_history(self, store: Store, clock: ManualClock) -> None:
        await add_facts(store, None, Fact("Ana", "lives_in", "Porto", id="old"))
        clock.advance(days=1)
        await add_facts(store, None, Fact("Ana", "lives_in", "Braga", id="new"), plan=replacing)
        old, new = await store.facts(None, EVERYTHING)
        assert (old.object, old.retired_at) == ("Porto", clock())
        assert (new.object, new.retired_at) == ("Braga", None)

    async def test_versions_of_one_id_share_it(self, store: Store, clock: ManualClock) -> None:
        for day, city in enumerate(("Porto", "Braga", "Faro")):
            clock.moment = at(day)
            await add_facts(store, None, Fact("Ana", "home", city, id="f"), plan=supersede)
        versions = await store.facts(None, EVERYTHING)
        assert [(fact.id, fact.object, fact.retired_at) for fact in versions] == [
            ("f", "Porto", at(1)), ("f", "Braga", at(2)), ("f", "Faro", None),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            ({}, ["tea", "Porto", "TEA", "oats"]),
            ({"subject": "ana lima"}, ["tea", "Porto", "TEA"]),
            ({"subject": " ANA   lima "}, ["tea", "Porto", "TEA"]),
            ({"predicate": "Likes"}, ["tea", "TEA", "oats"]),
            ({"predicate": "lives in"}, ["Porto"]),
            ({"predicate": "LIVES-IN"}, ["Porto"]),
            ({"object": "Tea"}, ["tea", "TEA"]),
            ({"subject": "Bo", "predicate": "likes", "object": "oats"}, ["oats"]),
            ({"subject": "Bo", "object": "tea"}, []),
            ({"subject": "ana_lima"}, []),
            ({"subject": "ana%"}, []),
            ({"object": "t_a"}, []),
        ],
    )
    async def test_filters_compare_in_normal_form(
        self, store: Store, which: dict[str, Any], expected: list[str]
    ) -> None:
        await add_facts(
            store, None,
            Fact("Ana Lima", "likes", "tea"), Fact("Ana Lima", "lives_in", "Porto"),
            Fact("ana  lima", "Likes", "TEA"), Fact("Bo", "likes", "oats"),
        )  # fmt: skip
        assert await objects(store, None, **which) == expected

    async def test_facts_come_in_the_order_of_recording(self, store: Store) -> None:
        for name, day in (("late", 3), ("early", 1), ("tie 1", 2), ("tie 2", 2)):
            await add_facts(store, None, Fact("s", "p", name, recorded_at=at(day)))
        assert await objects(store, None) == ["early", "tie 1", "tie 2", "late"]

    @pytest.mark.parametrize(
        ("day", "expected"),
        [
            (-1000, ["always", "until 10"]),
            (4, ["always", "until 10"]),
            (5, ["always", "from 5", "5 to 10", "until 10"]),
            (10, ["always", "from 5"]),
            (1000, ["always", "from 5"]),
        ],
    )
    async def test_valid_time_includes_its_start_and_not_its_end(
        self, store: Store, day: int, expected: list[str]
    ) -> None:
        await add_facts(
            store, None,
            Fact("s", "p", "always"), Fact("s", "p", "from 5", valid_from=at(5)),
            Fact("s", "p", "5 to 10", valid_from=at(5), valid_until=at(10)),
            Fact("s", "p", "until 10", valid_until=at(10)),
            Fact("s", "p", "never", valid_from=at(7), valid_until=at(7)),
        )  # fmt: skip
        assert await objects(store, None, valid_at=at(day)) == expected
        assert len(await objects(store, None)) == 5

    @pytest.mark.parametrize(
        ("day", "expected"), [(0, []), (1, ["Porto"]), (2, ["Porto"]), (3, ["Braga"]), (6, ["Braga"]), (7, [])]
    )
    async def test_recorded_time_includes_its_start_and_not_its_end(
        self, store: Store, clock: ManualClock, day: int, expected: list[str]
    ) -> None:
        for moment, city in ((at(1), "Porto"), (at(3), "Braga")):
            clock.moment = moment
            await add_facts(store, None, Fact("Ana", "home", city, id="f"), plan=supersede)
        clock.moment = at(7)
        await retract(store, None, "f")
        assert await objects(store, None, known_at=at(day)) == expected
        assert await objects(store, None) == []

    async def test_both_time_axes_narrow_together(self, store: Store, clock: ManualClock) -> None:
        clock.moment = at(1)
        await add_facts(store, None, Fact("Ana", "employer", "Acme", valid_from=at(-300)))
        clock.moment = at(2)
        await add_facts(store, None, Fact("Ana", "employer", "Orbis", valid_from=at(-100)), plan=supersede)
        assert await objects(store, None, valid_at=at(-50), known_at=at(1)) == ["Acme"]
        assert await objects(store, None, valid_at=at(-50), known_at=at(2)) == ["Orbis"]
        assert await objects(store, None, valid_at=at(-200), known_at=at(2)) == ["Acme"]
        assert await objects(store, None, valid_at=at(-200)) == ["Acme"]
        assert await objects(store, None, valid_at=at(-400), known_at=at(2)) == []

    async def test_history_ignores_known_at_and_keeps_the_other_filters(self, store: Store) -> None:
        await add_facts(store, None, Fact("Ana", "home", "Porto", id="f", recorded_at=at(1)))
        await add_facts(store, None, Fact("Ana", "home", "Braga", id="f", recorded_at=at(2)), plan=supersede)
        await add_facts(store, None, Fact("Bo", "home", "Faro", recorded_at=at(3)))
        which = FactFilter(subject="ana", known_at=at(0), history=True)
        assert [fact.object for fact in await store.facts(None, which)] == ["Porto", "Braga"]

    async def test_a_retracted_fact_is_no_longer_believed(self, store: Store, clock: ManualClock) -> None:
        await add_facts(store, "ana", Fact("Ana", "likes", "tea", id="f"), Fact("Ana", "likes", "oats", id="g"))
        clock.advance(days=1)
        assert await retract(store, "ana", "f")
        assert await objects(store, "ana") == ["oats"]
        retracted = (await store.facts("ana", EVERYTHING))[0]
        assert (retracted.id, retracted.retired_at) == ("f", clock())

    async def test_retracting_says_whether_there_was_one(self, store: Store) -> None:
        await add_facts(store, "ana", Fact("Ana", "likes", "tea", id="f"))
        assert not await retract(store, "ana", "other")
        assert not await retract(store, "bo", "f")
        assert not await retract(store, None, "f")
        assert await retract(store, "ana", "f")
        assert not await retract(store, "ana", "f")
        assert await store.users() == ["ana"]

    async def test_a_retracted_fact_can_be_told_again(self, store: Store, clock: ManualClock) -> None:
        await add_facts(store, None, Fact("Ana", "likes", "tea", id="f"))
        clock.advance(days=1)
        await retract(store, None, "f")
        clock.advance(days=1)
        await add_facts(store, None, Fact("Ana", "likes", "tea", id="f"), plan=supersede)
        assert await objects(store, None) == ["tea"]
        assert len(await store.facts(None, EVERYTHING)) == 2

    async def test_concurrent_supersession_leaves_one_value(self, store: Store) -> None:
        await asyncio.gather(
            *(add_facts(store, None, Fact("Ana", "home", f"city {n}"), plan=replacing) for n in range(20))
        )
        assert len(await store.facts(None, FactFilter())) == 1
        assert len(await store.facts(None, EVERYTHING)) == 20

    async def test_a_large_batch_is_one_write(self, store: Store) -> None:
        batch = [(Fact(f"s{number}", "is", f"thing {number}", id=f"f{number}"), NOT_EMBEDDED) for number in range(600)]
        changes = await store.add_facts(None, batch, gather)
        assert [change.add[0].id for change in changes] == [f"f{number}" for number in range(600)]
        assert await objects(store, None) == [f"thing {number}" for number in range(600)]
