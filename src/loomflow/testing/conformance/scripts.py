"""Changes of facts by script: reads that see its own writes, all of it or nothing, vectors by text, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loomflow.bitemporal import FactChanges
from loomflow.errors import ConfigError
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import NOT_EMBEDDED, Embedded, FactFilter, FactScript
from loomflow.transactions import Rules, telling

from .base import (
    Capability,
    ConformanceBase,
    ManualClock,
    add_facts,
    at,
    by_vector,
    direction,
    embedded,
    objects,
    requires,
    stated,
    towards,
)
from .base import asking as asking_for

COUNTER = FactFilter(subject="counter", predicate="stands at")
EVERYTHING = FactFilter(history=True)


class RefusedError(Exception):
    """Raised by the scripts of these tests."""


def stored(text: str, **fields: Any) -> Fact:
    """A fact with all that a store asks of a version: id and recorded time."""
    subject, predicate, object_ = text.split(" ", 2)
    return Fact(subject, predicate, object_, id=fields.pop("id", text), recorded_at=at(0), **fields)


def writing_facts(*facts: Fact) -> FactScript[int]:
    """The script that adds facts; how many."""
    for fact in facts:
        yield FactChanges(add=(fact,))
    return len(facts)


def counting(step: str) -> FactScript[int]:
    """The script that reads a number, writes one more, and returns what it read."""
    found = yield COUNTER
    number = max((int(fact.object) for fact in found), default=0)
    retired = tuple(replace(fact, retired_at=at(1)) for fact in found)
    new = Fact("counter", "stands at", str(number + 1), id=step, recorded_at=at(0))
    yield FactChanges(retired, (new,))
    return number


def restating(fact: Fact, **fields: Any) -> FactScript[None]:
    """The script that puts another version in the place of one."""
    yield FactChanges((replace(fact, retired_at=at(1)),), (replace(fact, recorded_at=at(1), **fields),))


async def nearest(store: Store, degrees: float, space: str | None = None) -> list[str]:
    """The objects of the facts that a search by vector finds, nearest first."""
    search = towards(degrees)
    if space is not None:
        search = replace(search, query=Embedded(space, search.query.vector))
    _, facts = await store.search(None, search)
    return [fact.object for fact in by_vector(facts)]


class ScriptConformance(ConformanceBase):
    """`change_facts`."""

    async def test_a_script_that_does_nothing_changes_nothing(self, store: Store) -> None:
        assert await store.change_facts("ana", writing_facts) == 0
        assert await store.users() == []

    async def test_what_a_script_returns_is_returned(self, store: Store) -> None:
        facts = [stored("Ana likes tea"), stored("Ana likes oats")]
        assert await store.change_facts("ana", lambda: writing_facts(*facts)) == 2
        assert await store.facts("ana", FactFilter()) == [replace(fact, user_id="ana") for fact in facts]

    async def test_a_script_is_answered_with_what_is_there(self, store: Store) -> None:
        await add_facts(store, "ana", stored("Ana likes tea"), stored("Ana owns books"))
        await add_facts(store, "bo", stored("Ana likes oats"))
        filters = [FactFilter(), FactFilter(predicate="likes"), FactFilter(id="Ana owns books"), FactFilter(id="x")]

        def reading() -> FactScript[list[list[Fact]]]:
            first = yield filters[0]
            second = yield filters[1]
            third = yield filters[2]
            return [first, second, third, (yield filters[3])]

        answers = await store.change_facts("ana", reading)
        assert answers == [await store.facts("ana", which) for which in filters]
        assert [[fact.object for fact in answer] for answer in answers] == [["tea", "books"], ["tea"], ["books"], []]

    async def test_a_script_reads_its_own_writes(self, store: Store) -> None:
        tea = stored("Ana likes tea")
        retired = replace(tea, retired_at=at(1))

        def script() -> FactScript[list[list[str]]]:
            seen: list[list[Fact]] = [(yield FactFilter(subject="ana", predicate="likes"))]
            yield FactChanges(add=(tea,))
            seen.append((yield FactFilter(subject="ana", predicate="likes")))
            seen.append((yield FactFilter(id=tea.id)))
            yield FactChanges((retired,), (stored("Ana likes oats"),))
            seen.append((yield FactFilter(subject="ana", predicate="likes")))
            seen.append((yield FactFilter(id=tea.id)))
            seen.append((yield EVERYTHING))
            seen.append((yield FactFilter(known_at=at(0))))
            return [[fact.object for fact in found] for found in seen]

        assert await store.change_facts("ana", script) == [
            [], ["tea"], ["tea"], ["oats"], [], ["tea", "oats"], ["tea", "oats"],
        ]  # fmt: skip

    async def test_a_script_can_retire_what_it_added(self, store: Store) -> None:
        tea = stored("kestrel likes tea", id="f")

        def script() -> FactScript[None]:
            yield FactChanges(add=(tea,))
            yield FactChanges((replace(tea, retired_at=at(0)),), (replace(tea, object="oolong"),))

        await store.change_facts(None, script)
        assert await objects(store, None) == ["oolong"]
        assert await objects(store, None, history=True) == ["tea", "oolong"]
        found = await stated(store, None, asking_for("kestrel"))
        assert found == (["oolong"] if Capability.KEYWORDS in self.capabilities else [])

    @pytest.mark.parametrize("user", ["ana", "new user"])
    async def test_a_script_that_raises_midway_changes_nothing(self, store: Store, user: str) -> None:
        tea = stored("Ana likes tea")
        await add_facts(store, "ana", tea)
        before = await store.facts("ana", EVERYTHING)

        def script() -> FactScript[None]:
            yield FactChanges((replace(tea, retired_at=at(1)),), (stored("Ana likes oats"),))
            found = yield FactFilter(subject="ana")
            raise RefusedError(found)

        with pytest.raises(RefusedError):
            await store.change_facts(user, script, {"Ana likes oats": embedded(0)})
        assert await store.facts("ana", EVERYTHING) == before
        assert await store.users() == ["ana"]
        assert await nearest(store, 0) == []
        assert await stated(store, "ana", asking_for("oats")) == []

    async def test_a_version_that_cannot_be_written_undoes_the_script(self, store: Store) -> None:
        tea = stored("Ana likes tea")
        with pytest.raises(Exception, match=r".+"):  # two versions of one id cannot both be believed
            await store.change_facts("ana", lambda: writing_facts(tea, tea))
        assert await store.users() == []

    async def test_a_script_that_writes_a_fact_of_another_user_is_refused(self, store: Store) -> None:
        own, foreign = stored("Ana likes tea", user_id="ana"), stored("Ana likes oats", user_id="bo")
        for user, facts in (("ana", [own, foreign]), (None, [foreign]), (None, [own])):
            with pytest.raises(ConfigError, match="of user_id"):
                await store.change_facts(user, lambda facts=facts: writing_facts(*facts))
        assert await store.users() == []

    async def test_a_script_sees_and_retires_nothing_of_another_user(self, store: Store) -> None:
        tea = stored("Ana likes tea")
        await add_facts(store, "bo", tea)

        def script() -> FactScript[list[Fact]]:
            yield FactChanges(retire=(replace(tea, retired_at=at(1)),))
            return (yield EVERYTHING)

        for user in ("ana", None):
            assert await store.change_facts(user, script) == []
        assert await objects(store, "bo") == ["tea"]
        assert await store.users() == ["bo"]

    async def test_a_refused_script_may_be_followed_by_another(self, store: Store) -> None:
        def refused() -> FactScript[None]:
            yield FactFilter()
            raise RefusedError

        for _ in range(3):
            with pytest.raises(RefusedError):
                await store.change_facts("ana", refused)
            await store.change_facts("ana", lambda: counting("x"))
            await store.forget("ana")
        assert await store.users() == []

    async def test_of_twenty_scripts_at_once_none_interleaves(self, store: Store) -> None:
        read = await asyncio.gather(
            *(store.change_facts("ana", lambda number=number: counting(f"{number}")) for number in range(20))
        )
        assert sorted(read) == list(range(20))
        assert await objects(store, "ana") == ["20"]
        assert sorted(await objects(store, "ana", history=True), key=int) == [f"{n}" for n in range(1, 21)]

    @requires(Capability.PERSISTENT)
    async def test_scripts_of_two_stores_do_not_interleave(self, store: Store, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)
        try:
            read = await asyncio.gather(
                *((store, other)[n % 2].change_facts("ana", lambda n=n: counting(f"{n}")) for n in range(20))
            )
            assert sorted(read) == list(range(20))
            assert await objects(other, "ana") == await objects(store, "ana") == ["20"]
        finally:
            await other.aclose()

    async def test_tellings_at_once_leave_one_value_of_which_each_ends_the_one_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        def tell(number: int) -> FactScript[Fact]:
            return telling(Fact("Ana", "lives_in", f"city {number}"), Rules(clock()))

        await asyncio.gather(*(store.change_facts("ana", lambda n=n: tell(n)) for n in range(20)))
        believed = sorted(await store.facts("ana", FactFilter()), key=lambda fact: fact.valid_from or at(0))
        assert len(believed) == 20
        assert [fact.valid_until for fact in believed] == [*(fact.valid_from for fact in believed[1:]), None]

    # Vectors

    @requires(Capability.VECTORS)
    async def test_versions_get_the_vector_of_their_text(self, store: Store) -> None:
        facts = [stored("Ana likes tea"), stored("Ana likes oats"), stored("Ana likes rye")]
        vectors = {"Ana likes tea": embedded(50), "Ana likes oats": embedded(5), "Ana likes nothing": embedded(0)}
        await store.change_facts(None, lambda: writing_facts(*facts), vectors)
        assert await nearest(store, 0) == ["oats", "tea"]
        assert (await store.stats(None, everyone=False, embedder="conformance:2d")).unembedded == 1

    @requires(Capability.VECTORS)
    @pytest.mark.parametrize("given", [{}, {"Ana likes tea": NOT_EMBEDDED}, {"Ana likes oats": embedded(90)}])
    async def test_a_version_whose_text_was_believed_before_keeps_its_vectors(
        self, store: Store, given: dict[str, Embedded]
    ) -> None:
        tea = stored("Ana likes tea")
        vectors = {tea.text: Embedded("conformance:2d", np.stack([direction(10)]))}
        await store.change_facts(None, lambda: writing_facts(tea), vectors)
        await store.change_facts(None, lambda: restating(tea, quote="I like tea"), given)
        (version,) = await store.facts(None, FactFilter())
        assert version.quote == "I like tea"
        assert await nearest(store, 0) == ["tea"]
        assert (await store.stats(None, everyone=False, embedder="conformance:2d")).unembedded == 0

    @requires(Capability.VECTORS)
    async def test_a_vector_that_is_given_takes_the_place_of_the_one_before(self, store: Store) -> None:
        tea, oats = stored("Ana likes tea"), stored("Ana likes oats")
        await store.change_facts(
            None, lambda: writing_facts(tea, oats), {tea.text: embedded(10), oats.text: embedded(30)}
        )
        await store.change_facts(None, lambda: restating(tea), {tea.text: embedded(80)})
        assert await nearest(store, 0) == ["oats", "tea"]
        assert await nearest(store, 90) == ["tea", "oats"]

    @requires(Capability.VECTORS)
    async def test_the_vectors_of_every_embedder_are_kept(self, store: Store) -> None:
        tea = stored("Ana likes tea", id="f")
        await store.change_facts(None, lambda: writing_facts(tea), {tea.text: embedded(10)})
        await store.set_vectors(None, {}, {"f": embedded(70, "conformance:other")})
        await store.change_facts(None, lambda: restating(tea), {tea.text: embedded(20)})
        assert await nearest(store, 0) == ["tea"]
        assert await nearest(store, 0, "conformance:other") == ["tea"]

    @requires(Capability.VECTORS)
    async def test_another_text_in_the_place_of_one_does_not_get_its_vectors(self, store: Store) -> None:
        tea = stored("Ana likes tea")
        await store.change_facts(None, lambda: writing_facts(tea), {tea.text: embedded(10)})
        await store.change_facts(None, lambda: restating(tea, object="oats"))
        assert await nearest(store, 0) == []
        assert (await store.stats(None, everyone=False, embedder="conformance:2d")).unembedded == 1

    @requires(Capability.VECTORS)
    async def test_versions_within_one_script_keep_their_vectors_too(self, store: Store) -> None:
        tea = stored("Ana likes tea")

        def script() -> FactScript[None]:
            yield from writing_facts(tea)
            yield from restating(tea, quote="twice")

        await store.change_facts(None, script, {tea.text: embedded(10)})
        await store.change_facts(None, lambda: restating(replace(tea, recorded_at=at(1))))
        assert await nearest(store, 0) == ["tea"]

    @requires(Capability.KEYWORDS)
    async def test_only_what_is_believed_is_found_by_keyword(self, store: Store) -> None:
        tea = stored("Ana likes kestrels")
        await store.change_facts(None, lambda: writing_facts(tea))
        assert await stated(store, None, asking_for("kestrels")) == ["kestrels"]
        await store.change_facts(None, lambda: restating(tea, object="owls"))
        assert await stated(store, None, asking_for("kestrels")) == []
        assert await stated(store, None, asking_for("owls")) == ["owls"]

    async def test_many_steps_are_one_change(self, store: Store) -> None:
        facts: Sequence[Fact] = [stored(f"s{number} is thing {number}", id=f"f{number}") for number in range(600)]
        assert await store.change_facts(None, lambda: writing_facts(*facts)) == 600
        assert await objects(store, None) == [fact.object for fact in facts]
