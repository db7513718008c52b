"""Vector search: exact neighbours, one space at a time, vectors that cannot be used, embedding later."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from loomflow.bitemporal import supersede
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import Embedded, NewEpisode, Search

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    asking,
    by_keyword,
    by_vector,
    direction,
    embedded,
    gather,
    ids,
    requires,
    retract,
    told,
    towards,
)

VECTORS = Capability.VECTORS
OTHER_SPACE = "conformance:other"


def vector(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, dtype=np.float32)


UNUSABLE = [
    vector(*numbers) for numbers in ((0, 0), (math.nan, 1), (math.inf, 1), (-math.inf, math.inf), (math.nan,) * 2)
]


async def add(store: Store, user: str | None, degrees: dict[str, float], space: str = SPACE) -> None:
    """Add an episode and a fact for each name, in the direction given."""
    await store.add_episodes(
        user, [NewEpisode(told(name, id=name), embedded(angle, space)) for name, angle in degrees.items()]
    )
    facts = [(Fact(name, "p", name, id=name), embedded(angle, space)) for name, angle in degrees.items()]
    await store.add_facts(user, facts, gather)


async def nearest(store: Store, user: str | None, search: Search) -> list[str]:
    """The names found by vector, best first; the same for episodes and facts."""
    episodes, facts = await store.search(user, search)
    names = [episode.input for episode in by_vector(episodes)]
    assert [fact.object for fact in by_vector(facts)] == names
    return names


class VectorConformance(ConformanceBase):
    """`search` by vector, `unembedded` and `set_vectors`."""

    @requires(VECTORS)
    async def test_the_nearest_come_first(self, store: Store) -> None:
        angles = {"far": 170.0, "near": 3.0, "middle": 80.0, "opposite": 180.0, "exact": 0.0}
        await add(store, None, angles)
        assert await nearest(store, None, towards(0)) == ["exact", "near", "middle", "far", "opposite"]
        assert await nearest(store, None, towards(190)) == ["opposite", "far", "middle", "exact", "near"]

    @requires(VECTORS)
    async def test_a_search_gives_the_cosines(self, store: Store) -> None:
        await add(store, None, {"0": 0.0, "60": 60.0, "90": 90.0, "180": 180.0})
        for found in await store.search(None, towards(0)):
            assert [cosine for _, cosine in found.vector] == pytest.approx([1, 0.5, 0, -1], abs=0.005)
            assert set(found.items) == {key for key, _ in found.vector}
            assert found.lexical == ()

    @requires(VECTORS)
    async def test_the_exact_neighbours_are_found_among_many(self, store: Store) -> None:
        # Two degrees apart at both ends, many close together between them, in an order that has nothing to do with
        # nearness. At right angles to the question, two degrees are .035 of a cosine.
        angles = [*range(90, 100, 2), *(105 + number / 13 for number in range(390)), *range(142, 152, 2)]
        order = [angles[number * 149 % 400] for number in range(400)]
        await add(store, None, {f"{angle:g}": angle for angle in order})
        assert await nearest(store, None, towards(0, limit=5)) == ["90", "92", "94", "96", "98"]
        assert await nearest(store, None, towards(-100, limit=5)) == ["150", "148", "146", "144", "142"]

    @requires(VECTORS)
    async def test_an_item_is_as_near_as_the_nearest_of_its_passages(self, store: Store) -> None:
        two_sides = np.array([direction(170), direction(20)])
        long = np.array([direction(angle) for angle in (170, 10, 170)])
        long_text = " ".join(f"{mark} {'word ' * 55}." for mark in ("one", "two", "three"))
        await store.add_episodes(
            None,
            [
                NewEpisode(told("far", output="near"), Embedded(SPACE, two_sides)),
                NewEpisode(told("alone"), embedded(30)),
                NewEpisode(told(long_text), Embedded(SPACE, long)),
                NewEpisode(told("one for", output="both sides"), embedded(40)),
            ],
        )
        episodes, _ = await store.search(None, towards(0))
        assert [episode.input for episode in by_vector(episodes)] == [long_text, "far", "alone", "one for"]
        expected = [math.cos(math.radians(angle)) for angle in (10, 20, 30, 40)]
        assert [cosine for _, cosine in episodes.vector] == pytest.approx(expected, abs=0.01)

    @requires(VECTORS)
    async def test_passages_without_direction_take_nothing_from_the_others(self, store: Store) -> None:
        sides = np.array([vector(0, 0), direction(60)])
        await store.add_episodes(None, [NewEpisode(told("silent", output="said"), Embedded(SPACE, sides))])
        episodes, _ = await store.search(None, towards(0))
        assert [cosine for _, cosine in episodes.vector] == pytest.approx([0.5], abs=0.01)
        assert await store.unembedded(None, SPACE, 10) == ([], [])

    @requires(VECTORS)
    async def test_length_does_not_count(self, store: Store) -> None:
        lengths = {"short": (10, 1e-18), "long": (20, 1e18), "unit": (30, 1.0)}
        await store.add_episodes(
            None, [NewEpisode(told(name), Embedded(SPACE, direction(*of))) for name, of in lengths.items()]
        )
        episodes, _ = await store.search(None, Search(query=Embedded(SPACE, direction(0, 1e15))))
        assert [episode.input for episode in by_vector(episodes)] == ["short", "long", "unit"]

    @requires(VECTORS)
    async def test_the_limit_holds_for_vectors(self, store: Store) -> None:
        await add(store, None, {f"{angle}": angle for angle in range(0, 90, 10)})
        assert await nearest(store, None, towards(0, limit=3)) == ["0", "10", "20"]

    @requires(VECTORS)
    async def test_vectors_of_another_embedder_are_never_compared(self, store: Store) -> None:
        await add(store, None, {"same": 90.0})
        await add(store, None, {"other": 0.0}, OTHER_SPACE)
        assert await nearest(store, None, towards(0)) == ["same"]
        unknown = Search(query=Embedded("conformance:unknown", direction(0)))
        assert await nearest(store, None, unknown) == []

    @requires(VECTORS)
    @pytest.mark.parametrize("unusable", UNUSABLE)
    async def test_a_question_without_direction_is_near_to_nothing(
        self, store: Store, unusable: NDArray[np.float32]
    ) -> None:
        await add(store, None, {"x": 0.0, "y": 90.0})
        for found in await store.search(None, Search(query=Embedded(SPACE, unusable))):
            assert (found.items, found.vector) == ({}, ())

    @requires(VECTORS)
    @pytest.mark.parametrize("unusable", UNUSABLE)
    async def test_text_without_direction_is_kept_and_near_to_nothing(
        self, store: Store, unusable: NDArray[np.float32]
    ) -> None:
        await store.add_episodes(None, [NewEpisode(told("lost", id="lost"), Embedded(SPACE, unusable))])
        await store.add_facts(None, [(Fact("s", "p", "lost", id="lost"), Embedded(SPACE, unusable))], gather)
        await add(store, None, {"kept": 90.0})
        assert await nearest(store, None, towards(0)) == ["kept"]
        episodes, facts = await store.unembedded(None, SPACE, 10)
        assert (ids(episodes), ids(facts)) == (["lost"], ["lost"])

    @requires(VECTORS)
    async def test_a_question_of_another_length_is_near_to_nothing(self, store: Store) -> None:
        await add(store, None, {"two": 0.0})
        for numbers in ((1.0,), (1.0, 0.0, 0.0)):
            assert await nearest(store, None, Search(query=Embedded(SPACE, vector(*numbers)))) == []
        assert await nearest(store, None, towards(0)) == ["two"]

    @requires(VECTORS)
    @pytest.mark.parametrize("other", [(0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0,)])
    @pytest.mark.parametrize("searched_between", [False, True])
    async def test_vectors_of_two_lengths_under_one_name_do_not_mix(
        self, store: Store, other: tuple[float, ...], searched_between: bool
    ) -> None:
        await add(store, None, {"two": 0.0, "two again": 60.0})
        if searched_between:
            await nearest(store, None, towards(0))
        longer = Embedded(SPACE, vector(*other))
        await store.add_episodes(None, [NewEpisode(told("longer"), longer)])
        await store.add_facts(None, [(Fact("s", "p", "longer"), longer)], gather)
        assert await nearest(store, None, towards(0)) == ["two", "two again"]
        assert await nearest(store, None, Search(query=longer)) == ["longer"]

    @requires(VECTORS, Capability.KEYWORDS)
    async def test_words_and_vectors_give_two_rankings_over_one_set(self, store: Store) -> None:
        await store.add_episodes(
            None,
            [
                NewEpisode(told("kayak and canoe"), embedded(60)),
                NewEpisode(told("kayak on the lake, a long way from home"), embedded(10)),
                NewEpisode(told("neither"), embedded(30)),
                NewEpisode(told("canoe without a vector")),
            ],
        )
        episodes, _ = await store.search(None, asking("kayak canoe", query=embedded(0)))
        assert by_keyword(episodes)[0].input == "kayak and canoe"
        assert {episode.input for episode in by_keyword(episodes)} == {
            "kayak and canoe", "kayak on the lake, a long way from home", "canoe without a vector",
        }  # fmt: skip
        assert [episode.input for episode in by_vector(episodes)] == [
            "kayak on the lake, a long way from home", "neither", "kayak and canoe",
        ]  # fmt: skip
        assert set(episodes.items) == {*episodes.lexical, *(key for key, _ in episodes.vector)}

    @requires(VECTORS, Capability.KEYWORDS)
    @pytest.mark.parametrize("unusable", UNUSABLE)
    async def test_words_are_found_although_the_vector_has_no_direction(
        self, store: Store, unusable: NDArray[np.float32]
    ) -> None:
        await add(store, None, {"kayak": 0.0})
        episodes, facts = await store.search(None, asking("kayak", query=Embedded(SPACE, unusable)))
        assert [episode.input for episode in by_keyword(episodes)] == ["kayak"]
        assert [fact.object for fact in by_keyword(facts)] == ["kayak"]
        assert (episodes.vector, facts.vector) == ((), ())

    @requires(VECTORS)
    async def test_what_is_written_after_a_search_is_found_by_the_next(self, store: Store) -> None:
        for name, angle in (("a", 50.0), ("b", 40.0), ("c", 45.0)):
            await add(store, None, {name: angle})
            assert name in await nearest(store, None, towards(0))
        assert await nearest(store, None, towards(0)) == ["b", "c", "a"]

    @requires(VECTORS)
    async def test_an_episode_written_twice_keeps_its_first_vector(self, store: Store) -> None:
        await store.add_episodes(None, [NewEpisode(told("first", id="e"), embedded(0))])
        await store.add_episodes(None, [NewEpisode(told("second", id="e"), embedded(90))])
        episodes, _ = await store.search(None, towards(90))
        assert [episode.input for episode in by_vector(episodes)] == ["first"]
        assert episodes.vector[0][1] == pytest.approx(0, abs=0.005)

    @requires(VECTORS)
    async def test_a_corrected_fact_is_found_by_its_new_vector(self, store: Store, clock: ManualClock) -> None:
        await store.add_facts(None, [(Fact("s", "p", "old", id="f"), embedded(0))], gather)
        clock.advance(days=1)
        await store.add_facts(None, [(Fact("s", "p", "new", id="f"), embedded(90))], supersede)
        _, facts = await store.search(None, towards(0))
        assert [fact.object for fact in by_vector(facts)] == ["new"]
        assert facts.vector[0][1] == pytest.approx(0, abs=0.005)

    @requires(VECTORS)
    async def test_a_version_with_the_same_text_keeps_its_vector(self, store: Store, clock: ManualClock) -> None:
        await store.add_facts(None, [(Fact("Ana", "home", "Porto", id="f", valid_from=clock()), embedded(0))], gather)
        clock.advance(days=2)
        later = Fact("Ana", "home", "Braga", valid_from=clock.moment)
        await store.add_facts(None, [(later, embedded(90))], supersede)
        _, facts = await store.unembedded(None, SPACE, 10)
        assert facts == []
        clock.advance(days=-1)
        _, found = await store.search(None, towards(0))
        assert [fact.object for fact in by_vector(found)] == ["Porto"]
        assert found.vector[0][1] == pytest.approx(1, abs=0.005)

    @requires(VECTORS)
    async def test_what_has_no_vector_of_this_embedder_is_unembedded(self, store: Store) -> None:
        await add(store, "ana", {"done": 0.0})
        await add(store, "ana", {"other": 0.0}, OTHER_SPACE)
        await add_episodes(store, "ana", told("none", id="none"))
        await add_facts(store, "ana", Fact("s", "p", "none", id="none"), Fact("s", "p", "gone", id="gone"))
        await retract(store, "ana", "gone")
        await add_episodes(store, "bo", told("of Bo"))
        episodes, facts = await store.unembedded("ana", SPACE, 10)
        assert (set(ids(episodes)), set(ids(facts))) == ({"none", "other"}, {"none", "other"})
        episodes, facts = await store.unembedded("ana", "conformance:unknown", 2)
        assert (len(episodes), len(facts)) == (2, 2)

    @requires(VECTORS)
    async def test_vectors_set_later_are_searched_at_once(self, store: Store) -> None:
        await add(store, "ana", {"there": 45.0})
        await add_episodes(store, "ana", told("later", id="later"))
        await add_facts(store, "ana", Fact("s", "p", "later", id="later"))
        assert await nearest(store, "ana", towards(0)) == ["there"]
        await store.set_vectors("ana", {"later": embedded(10)}, {"later": embedded(10)})
        assert await nearest(store, "ana", towards(0)) == ["later", "there"]
        assert await store.unembedded("ana", SPACE, 10) == ([], [])

    @requires(VECTORS)
    async def test_a_vector_set_later_leaves_those_of_other_embedders(self, store: Store) -> None:
        await add(store, None, {"x": 0.0, "y": 80.0}, OTHER_SPACE)
        other = Search(query=Embedded(OTHER_SPACE, direction(0)))
        assert await nearest(store, None, other) == ["x", "y"]
        await store.set_vectors(None, {"x": embedded(90)}, {"x": embedded(90)})
        assert await nearest(store, None, other) == ["x", "y"]
        assert await nearest(store, None, towards(90)) == ["x"]

    @requires(VECTORS)
    @pytest.mark.parametrize("searched_before", [False, True])
    async def test_vectors_of_all_embedders_but_one_can_be_dropped(self, store: Store, searched_before: bool) -> None:
        spaces = (SPACE, OTHER_SPACE, "conformance:third")
        searches = {space: Search(query=Embedded(space, direction(0))) for space in spaces}
        for user in ("ana", "bo"):
            for space in spaces:
                await add(store, user, {f"{user} {space} {n}": 60.0 * n for n in range(2)}, space)
        if searched_before:
            for search in searches.values():
                assert len(await nearest(store, "ana", search)) == 2
        await store.drop_vectors("ana", but=OTHER_SPACE)
        assert await nearest(store, "ana", searches[OTHER_SPACE]) == [f"ana {OTHER_SPACE} {n}" for n in range(2)]
        for space in (SPACE, "conformance:third"):
            assert await nearest(store, "ana", searches[space]) == []
            episodes, facts = await store.unembedded("ana", space, 10)
            assert (len(episodes), len(facts)) == (6, 6)
            assert len(await nearest(store, "bo", searches[space])) == 2
        await store.set_vectors("ana", {f"ana {SPACE} 1": embedded(5)}, {f"ana {SPACE} 1": embedded(5)})
        assert await nearest(store, "ana", towards(0)) == [f"ana {SPACE} 1"]

    @requires(VECTORS, Capability.KEYWORDS)
    async def test_dropping_the_vectors_of_all_known_embedders_leaves_the_words(self, store: Store) -> None:
        await add(store, None, {"kayak": 0.0})
        await store.drop_vectors(None, but="conformance:unknown")
        assert await nearest(store, None, towards(0)) == []
        episodes, facts = await store.search(None, asking("kayak"))
        assert (len(episodes.lexical), len(facts.lexical)) == (1, 1)

    @requires(VECTORS)
    async def test_a_vector_set_again_replaces_itself(self, store: Store) -> None:
        await add(store, None, {"x": 0.0, "y": 50.0})
        assert await nearest(store, None, towards(0)) == ["x", "y"]
        await store.set_vectors(None, {"x": embedded(90)}, {"x": embedded(90)})
        assert await nearest(store, None, towards(0)) == ["y", "x"]

    @requires(VECTORS)
    async def test_vectors_of_unknown_items_and_other_users_are_not_set(self, store: Store) -> None:
        await add(store, "ana", {"x": 0.0})
        await store.set_vectors("bo", {"x": embedded(90)}, {"x": embedded(90)})
        await store.set_vectors("ana", {"y": embedded(90)}, {"y": embedded(90)})
        assert await nearest(store, "ana", towards(0)) == ["x"]
        assert await nearest(store, "bo", towards(0)) == []
        episodes, _ = await store.search("ana", towards(0))
        assert episodes.vector[0][1] == pytest.approx(1, abs=0.005)
        assert await store.users() == ["ana"]

    @requires(VECTORS)
    @pytest.mark.parametrize("unusable", UNUSABLE)
    async def test_setting_an_unusable_vector_leaves_the_one_there(
        self, store: Store, unusable: NDArray[np.float32]
    ) -> None:
        await add(store, None, {"x": 0.0})
        await store.set_vectors(None, {"x": Embedded(SPACE, unusable)}, {"x": Embedded(SPACE, unusable)})
        assert await nearest(store, None, towards(0)) == ["x"]
