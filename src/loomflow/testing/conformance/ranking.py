"""How passages are ranked, what each signal does, and what must not change ranks: others' memory, and the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import NewEpisode, Search

from .base import (
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    at,
    by_keyword,
    by_vector,
    embedded,
    gather,
    ids,
    requires,
    told,
)
from .passages import ALL, about, add, episode_ids, fact_ids, rating, said, state, text_of

KEYWORDS, VECTORS = Capability.KEYWORDS, Capability.VECTORS


class RankingConformance(ConformanceBase):
    """`passages`, best first."""

    @requires(KEYWORDS)
    async def test_passages_come_best_first(self, store: Store) -> None:
        texts = ["the harbour", "harbour lights", "nothing of the kind", "lights", "harbour lights at night", "a dog"]
        await add_episodes(store, None, *(told(text, session=text) for text in texts))
        await add_facts(store, None, *(Fact("note", f"says {number}", text) for number, text in enumerate(texts)))
        for found in await store.passages(None, about("harbour lights at night")):
            scores = [one.score for one in found]
            assert scores == sorted(scores, reverse=True)
            assert [one.relevance for one in found] == sorted((one.relevance for one in found), reverse=True)
            assert all(0 <= one.relevance <= 1 for one in found)
            assert text_of(found[0]).endswith("harbour lights at night")
            assert 1 >= found[0].coverage == max(one.coverage for one in found) > found[1].coverage > 0
            assert found[-1].coverage == 0
            assert {one.similarity for one in found} == {None}

    @requires(VECTORS)
    async def test_a_vector_alone_finds_what_is_near(self, store: Store) -> None:
        angles = {f"far {number}": 80 + number / 2 for number in range(40)} | {"near": 5.0}
        await store.add_episodes(
            None, [NewEpisode(told(name, session=name), embedded(angle)) for name, angle in angles.items()]
        )
        await store.add_facts(
            None, [(Fact(name, "p", "o", id=name), embedded(angle)) for name, angle in angles.items()], gather
        )
        episodes, facts = await store.passages(None, Search(query=embedded(0), chars=ALL))
        assert (episodes[0].item.input, facts[0].item.subject) == ("near", "near")
        for found in (episodes, facts):
            assert len(found) == 41
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
            cosines = {
                one.item.input if isinstance(one.item, Episode) else one.item.subject: one.similarity for one in found
            }
            assert cosines == pytest.approx(
                {name: np.cos(np.radians(angle)) for name, angle in angles.items()}, abs=0.01
            )

    @requires(VECTORS, KEYWORDS)
    async def test_what_has_no_vector_is_found_by_its_words(self, store: Store) -> None:
        await add(store, None, *(told(f"number {number}", session=f"{number}") for number in range(30)))
        await add_episodes(store, None, told("a kestrel without a vector", session="new"))
        await add_facts(store, None, Fact("a kestrel", "has", "no vector"))
        for found in await store.passages(None, about("kestrel", query=embedded(90))):
            assert "kestrel" in text_of(found[0])
            assert all(np.isfinite(one.score) for one in found)

    @requires(VECTORS, KEYWORDS)
    async def test_vectors_of_another_embedder_say_nothing(self, store: Store) -> None:
        for number in range(30):
            await store.add_episodes(
                None, [NewEpisode(told(f"kayak {number}", session=f"{number}"), embedded(3 * number, "conformance:b"))]
            )
        plain, _ = await store.passages(None, about("kayak"))
        found, _ = await store.passages(None, about("kayak", query=embedded(0)))
        assert [rating(one) for one in found] == [rating(one) for one in plain]
        assert {one.similarity for one in found} <= {None, 0}

    @requires(KEYWORDS)
    async def test_what_was_said_near_a_match_ranks_above_what_was_not(self, store: Store) -> None:
        await add_episodes(store, None, *(told(f"talk {number}", session="other") for number in range(9)))
        await add_episodes(
            store, None, told("How is your kestrel?", session="k"), told("It flew off on Friday.", session="k")
        )
        found = await said(store, None, about("kestrel"))
        assert found[:2] == ["How is your kestrel?", "It flew off on Friday."]

    @requires(KEYWORDS)
    async def test_what_was_said_by_the_one_who_is_named_ranks_above(self, store: Store) -> None:
        for number in range(6):
            for name in ("Ana Lima", "Bo Berg"):
                await add_episodes(
                    store, None,
                    told("The kayak is fine", session=f"{name} {number}", user_name=name, id=f"{name} {number}"),
                )  # fmt: skip
        for question, name in (("What did Ana say of the kayak?", "Ana Lima"), ("Bo Berg, kayak", "Bo Berg")):
            found, _ = await store.passages(None, about(question, words=("kayak",)))
            assert {one.item.user_name for one in found[:6]} == {name}
            assert [bool(one.signals.get("speaker")) for one in found] == [True] * 6 + [False] * 6
        found, _ = await store.passages(None, about("What of Ana and Bo and the kayak?", words=("kayak",)))
        assert not any(one.signals.get("speaker") for one in found)

    @requires(KEYWORDS)
    async def test_facts_about_the_one_who_is_named_rank_above(self, store: Store) -> None:
        await add_facts(store, None, *(Fact(name, "owns", "a kayak", id=name) for name in ("Ana", "Bo", "Cy")))
        found = await fact_ids(store, None, about("Which kayak has Bo?", words=("kayak",)))
        assert found[0] == "Bo"

    @requires(KEYWORDS)
    async def test_facts_about_the_asker_rank_above(self, store: Store) -> None:
        for user, subject in (("ana", "Ana"), ("bo", "user"), (None, "me")):
            names = ("Cy", subject, "Di")
            await add_facts(store, user, *(Fact(name, "owns", "a kayak", id=f"{user} {name}") for name in names))
            _, facts = await store.passages(user, about("Which kayak have I?"))
            assert [one.item.subject for one in facts if one.signals.get("asker")] == [subject]
            assert facts[0].item.subject == subject
            _, facts = await store.passages(user, about("Which kayak is it?"))
            assert not any(one.signals.get("asker") for one in facts)

    @requires(KEYWORDS)
    async def test_facts_about_whom_the_question_is_about_are_found_however_many_others_there_are(
        self, store: Store
    ) -> None:
        texts = {"Bo": "a kayak", "user": "a kayak"} | {f"Cy{n}": "a kayak kayak" for n in range(40)}
        await store.add_facts(
            None,
            [(Fact(name, "owns", text, id=name), embedded(len(name) * 20)) for name, text in texts.items()],
            gather,
        )
        for question, name in (("Which kayak has Bo?", "Bo"), ("Which kayak have I?", "user")):
            search = about(question, words=("kayak",), limit=3)
            if VECTORS in self.capabilities:
                search = replace(search, query=embedded(90))
            _, found = await store.search(None, search)
            _, plain = await store.search(None, replace(search, text=""))
            for ranking in (by_keyword, by_vector) if VECTORS in self.capabilities else (by_keyword,):
                assert ids(ranking(found))[:3] == ids(ranking(plain))
                assert name not in ids(ranking(plain))
                assert name in ids(ranking(found))

    @requires(KEYWORDS)
    async def test_what_was_said_at_the_date_asked_for_ranks_above(self, store: Store) -> None:
        clock = ManualClock(at(30))  # 2026-01-31
        store.clock = clock
        await add_episodes(
            store, None, *(told("we paddled", session=f"{day}", id=f"{day}", occurred_at=at(day)) for day in range(31))
        )
        for question, days, moment in (
            ("Where did we paddle on January 12?", {11}, None),
            ("Where did we paddle on 2026-01-05?", {4}, None),
            ("Where did we paddle yesterday?", {29}, None),
            ("Where did we paddle yesterday?", {9}, at(10)),
        ):
            found, _ = await store.passages(None, about(question, words=("paddl",), at=moment))
            best = max(one.signals.get("date", 0) for one in found)
            assert best > 0
            assert days <= {int(one.item.id or "") for one in found if one.signals.get("date", 0) == best}
            assert found[0].signals["date"] == best
        found, _ = await store.passages(None, about("Where did we paddle?", words=("paddl",)))
        assert not any(one.signals.get("date") for one in found)

    @requires(KEYWORDS)
    async def test_what_names_a_time_ranks_above_where_a_time_is_asked_for(self, store: Store) -> None:
        await add_episodes(
            store, None, told("the kayak came", session="a"), told("the kayak came last week", session="b")
        )
        found, _ = await store.passages(None, about("When did the kayak come?"))
        assert [text_of(one) for one in found] == ["the kayak came last week", "the kayak came"]
        assert [bool(one.signals.get("time")) for one in found] == [True, False]
        found, _ = await store.passages(None, about("Where did the kayak come from?"))
        assert not any(one.signals.get("time") for one in found)

    @requires(KEYWORDS)
    async def test_with_a_half_life_what_is_old_ranks_lower(self, store: Store) -> None:
        store.clock = ManualClock(at(100))
        await add_episodes(
            store, None, told("kayak and canoe", session="a", id="old", occurred_at=at(0)),
            told("kayak on a lake", session="b", id="new", occurred_at=at(99)),
        )  # fmt: skip
        await add_facts(store, None, Fact("kayak", "is a", "canoe", id="old", recorded_at=at(0)),
                        Fact("kayak", "is", "a thing on a lake", id="new", recorded_at=at(99)))  # fmt: skip
        search = about("kayak canoe")
        assert (await episode_ids(store, None, search), await fact_ids(store, None, search)) == (["old", "new"],) * 2
        fading = replace(search, half_life_days=5.0)
        assert (await episode_ids(store, None, fading), await fact_ids(store, None, fading)) == (["new", "old"],) * 2
        plain, _ = await store.passages(None, search)
        faded, _ = await store.passages(None, fading)
        assert [rating(one) for one in faded] == [rating(one) for one in reversed(plain)]

    # What others have changes nothing

    @requires(KEYWORDS)
    async def test_what_others_store_changes_neither_ranks_nor_scores(self, store: Store) -> None:
        texts = [f"kayak {number}" if number % 3 else f"the canoe and the kayak {number}" for number in range(30)]
        await add(store, "ana", *(told(text, session=f"{place % 4}") for place, text in enumerate(texts)))
        await state(store, "ana", *(Fact("boat", f"p{place}", text) for place, text in enumerate(texts)))
        search = about("canoe or kayak 7?", query=embedded(20) if VECTORS in self.capabilities else Search().query)
        before = (await store.passages("ana", search), await store.search("ana", search))
        for other in ("bo", None, "Ana"):
            await add(store, other, *(told(f"canoe {'canoe ' * (n % 9)}", session="0") for n in range(200)))
            await state(store, other, *(Fact("boat", f"p{n}", "canoe") for n in range(200)))
        assert (await store.passages("ana", search), await store.search("ana", search)) == before
        await store.forget("bo")
        assert (await store.passages("ana", search), await store.search("ana", search)) == before

    @requires(KEYWORDS)
    @pytest.mark.parametrize("sessions", ["the same sessions", "sessions of their own"])
    async def test_seen_from_a_moment_what_was_written_later_changes_neither_ranks_nor_scores(
        self, store: Store, clock: ManualClock, sessions: str
    ) -> None:
        async def write(days: range) -> None:
            for day in days:
                clock.moment = at(day)
                session = f"{day % 3}" if day < 9 or sessions == "the same sessions" else f"day {day}"
                texts = [f"{varied(day * 4 + n)}{' and more' * (day % 3)}" for n in range(4)]
                await add(store, None, *(told(text, session=session, occurred_at=at(day)) for text in texts))
                await state(store, None, *(Fact(f"on {day}", "was", text, recorded_at=at(day)) for text in texts))

        await write(range(9))
        search = about("canoe, lake or river 3?", at=at(8))
        if VECTORS in self.capabilities:
            search = replace(search, query=embedded(20))
        before = (await store.passages(None, search), await store.search(None, search))
        await write(range(9, 30))
        assert (await store.passages(None, search), await store.search(None, search)) == before


def varied(place: int) -> str:
    """A text that shares some of its words with others."""
    words = ("kayak", "canoe", "lake", "number", "river", "shed")
    return f"{words[place % 6]} {words[place * 7 % 5]} {place}{' and more' * (place % 4)}"
