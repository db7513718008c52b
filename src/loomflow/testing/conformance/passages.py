"""Search of passages: where they stand, what filters leave, how they are ranked, and the names that users go by."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loomflow.bitemporal import supersede
from loomflow.items import Episode, Fact
from loomflow.ports import FactPlan, NewEpisode, OpenRun, Passage, Search, Store
from loomflow.words import query_terms

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    at,
    embedded,
    gather,
    requires,
    told,
)

KEYWORDS, VECTORS = Capability.KEYWORDS, Capability.VECTORS
ALL = 1_000_000
"""More characters than any test stores: a search for so many returns every passage that the filters leave."""

TEXT = "harbour lights"
SENTENCE = "In the evening we walked to the harbour and looked at the boats that had come in over the day. "
LONG = "".join(f"Part {number}. {SENTENCE}" for number in range(30))


def about(question: str, **fields: Any) -> Search:
    """A search of passages by the words of a question, and by what else it says."""
    return Search(**{"words": tuple(query_terms(question)), "text": question, "chars": ALL} | fields)


WAYS = {KEYWORDS: about(TEXT), VECTORS: Search(query=embedded(0), chars=ALL)}


def text_of(passage: Passage[Any]) -> str:
    """The text that a passage stands for."""
    if isinstance(passage.item, Fact):
        return passage.item.text[passage.start : passage.end]
    return (passage.item.output if passage.is_agent else passage.item.input)[passage.start : passage.end]


def rating(passage: Passage[Any]) -> tuple[object, ...]:
    """All that a search says of a passage, without its place in the order of writing."""
    return (
        text_of(passage), passage.start, passage.end, passage.is_agent, pytest.approx(passage.score, abs=1e-4),
        pytest.approx(passage.relevance, abs=1e-4), pytest.approx(passage.coverage, abs=1e-4),
    )  # fmt: skip


async def add(store: Store, user: str | None, *episodes: Episode) -> None:
    """Add episodes of one passage, all in the direction that the vector search of `WAYS` goes."""
    await store.add_episodes(user, [NewEpisode(episode, embedded(0)) for episode in episodes])


async def state(store: Store, user: str | None, *facts: Fact, plan: FactPlan = gather) -> None:
    """Add facts in that direction."""
    await store.add_facts(user, [(fact, embedded(0)) for fact in facts], plan)


async def episode_ids(store: Store, user: str | None, search: Search) -> list[str | None]:
    """Whose passages are found, best first."""
    episodes, _ = await store.passages(user, search)
    return [passage.item.id for passage in episodes]


async def fact_ids(store: Store, user: str | None, search: Search) -> list[str | None]:
    """Which facts are found, best first."""
    _, facts = await store.passages(user, search)
    return [passage.item.id for passage in facts]


async def said(store: Store, user: str | None, search: Search) -> list[str]:
    """The texts of the passages of episodes, best first."""
    episodes, _ = await store.passages(user, search)
    return [text_of(passage) for passage in episodes]


class PassageConformance(ConformanceBase):
    """`passages` and `names`."""

    @pytest.fixture(params=list(WAYS), ids=lambda capability: capability.value)
    def search(self, request: pytest.FixtureRequest) -> Search:
        """A search by words alone, then one by a vector alone."""
        if request.param not in self.capabilities:
            pytest.skip(f"the store is not: {request.param.value}")
        return WAYS[request.param]

    # Where passages stand

    async def test_each_side_of_an_episode_and_each_fact_is_a_passage(self, store: Store, search: Search) -> None:
        await add(store, "ana", told(TEXT, output=f"no {TEXT}", id="both"), told("", output=TEXT, id="answer"))
        await state(store, "ana", Fact("harbour", "has", "lights", id="f"))
        episodes, facts = await store.passages("ana", search)
        assert sorted((one.item.id, one.is_agent, text_of(one)) for one in episodes) == [
            ("answer", True, TEXT), ("both", False, TEXT), ("both", True, f"no {TEXT}"),
        ]  # fmt: skip
        assert [(one.item.id, one.is_agent, text_of(one)) for one in facts] == [("f", False, "harbour has lights")]
        assert {one.item.user_id for one in (*episodes, *facts)} == {"ana"}

    @pytest.mark.parametrize(
        "text", [f"  {LONG}\n", "\u3000".join(["港の明かりを見た。"] * 99), f"{TEXT} {'x' * 2000}"]
    )
    async def test_long_text_gives_passages_that_together_have_all_of_it(
        self, store: Store, search: Search, text: str
    ) -> None:
        await add(store, None, told(text, output=f"{TEXT}: {text}"))
        found, _ = await store.passages(None, search)
        for is_agent, whole in ((False, text), (True, f"{TEXT}: {text}")):
            spans = sorted((one.start, one.end) for one in found if one.is_agent == is_agent)
            assert len(spans) > 2
            assert spans[-1][1] <= len(whole)
            between = [whole[end:start] for (_, end), (start, _) in zip([(0, 0), *spans], [*spans, (len(whole), 0)])]
            assert "".join(between).strip() == ""
            assert all(text_of(one) == text_of(one).strip() != "" for one in found)

    @requires(KEYWORDS)
    async def test_of_long_text_the_passage_that_has_the_words_comes_first(self, store: Store) -> None:
        needle = "Nadia keeps her kestrel in the shed."
        text = f"{LONG[:2000]}{needle} {LONG[2000:]}"
        await add_episodes(store, None, told(text, output=LONG))
        best = (await said(store, None, about("Where is the kestrel kept?")))[0]
        assert needle in best
        assert len(best) < len(text) / 3

    @requires(KEYWORDS)
    @pytest.mark.parametrize(
        ("text", "question"),
        [("周五之前要登录系统。", "登录"), ("来週の会議は京都です。", "会議はどこ"), ("서울에서 만나요.", "서울"), ("𠮷野家で食べた", "𠮷野家")],
    )  # fmt: skip
    async def test_scripts_without_spaces_are_found_as_passages(self, store: Store, text: str, question: str) -> None:
        await add_episodes(
            store, None, told("何も無い日", session="a"), told(text, session="b"), told("무엇", session="c")
        )
        await add_facts(store, None, Fact("x", "y", text), Fact("x", "y", "無い"))
        episodes, facts = await store.passages(None, about(question))
        assert (text_of(episodes[0]), facts[0].item.object) == (text, text)
        assert 0 < min(episodes[0].coverage, facts[0].coverage) <= 1
        assert {one.coverage for one in (*episodes[1:], *facts[1:])} == {0}

    # How much of them

    async def test_as_many_characters_as_asked_for_are_found_and_all_if_there_are_no_more(
        self, store: Store, search: Search
    ) -> None:
        episodes = [told(f"{TEXT} {number} {'x' * (number % 7)}", session=f"{number % 5}") for number in range(120)]
        await add(store, None, *episodes)
        every = await said(store, None, search)
        assert len(every) == 120
        for chars in (1, 20, 200, 1000):
            some = await said(store, None, replace(search, chars=chars))
            assert some == every[: len(some)]
            assert sum(map(len, some)) >= chars

    async def test_nothing_is_found_without_words_and_without_a_vector(self, store: Store) -> None:
        await add(store, None, told(TEXT))
        await state(store, None, Fact("s", "p", TEXT))
        assert await store.passages(None, Search(text=TEXT, chars=ALL)) == ([], [])

    async def test_nothing_is_found_for_a_user_without_memory(self, store: Store, search: Search) -> None:
        await add(store, "ana", told(TEXT))
        assert await store.passages("nobody", search) == ([], [])
        assert await store.users() == ["ana"]

    async def test_passages_follow_what_is_written_and_forgotten(self, store: Store, search: Search) -> None:
        for number in range(4):
            await add(store, "ana", told(TEXT, id=f"{number}", session=f"s{number % 2}"))
            assert len(await episode_ids(store, "ana", search)) == number + 1
        await store.forget("ana", session_id="s1")
        assert sorted(map(str, await episode_ids(store, "ana", search))) == ["0", "2"]
        await store.forget("ana")
        assert await episode_ids(store, "ana", search) == []
        await add(store, "ana", told(TEXT, id="1", session="s0"))
        assert await episode_ids(store, "ana", search) == ["1"]

    # Filters

    @pytest.mark.parametrize(("me", "other"), [("ana", "bo"), (None, "bo"), ("ana", None), ("an_", "ana")])
    async def test_passages_of_other_users_are_never_found(
        self, store: Store, search: Search, me: str | None, other: str | None
    ) -> None:
        await add(store, other, *(told(f"{TEXT} {number}", id=f"{number}") for number in range(100)))
        await state(store, other, *(Fact(f"s{number}", "p", TEXT, id=f"{number}") for number in range(100)))
        await add(store, me, told(f"a walk to the {TEXT}", id="mine"))
        await state(store, me, Fact("a walk", "went to", TEXT, id="mine"))
        for chars in (1, ALL):
            assert await episode_ids(store, me, replace(search, chars=chars)) == ["mine"]
            assert await fact_ids(store, me, replace(search, chars=chars)) == ["mine"]

    @pytest.mark.parametrize("session", ["now", "s_1", "s%1", "%", "s-1 ", "S-1"])
    async def test_passages_of_a_session_are_left_out_and_take_no_place(
        self, store: Store, search: Search, session: str
    ) -> None:
        await add(store, None, told(f"a walk to the {TEXT}", id="old", session="s-1"))
        await add(store, None, *(told(TEXT, id=f"now {number}", session=session) for number in range(150)))
        for chars in (1, ALL):
            assert await episode_ids(store, None, replace(search, chars=chars, without_session=session)) == ["old"]
        assert len(await episode_ids(store, None, replace(search, without_session="unknown"))) == 151

    async def test_passages_of_some_episodes_are_left_out_and_take_no_place(self, store: Store, search: Search) -> None:
        await add(store, None, told(f"a walk to the {TEXT}", id="old"))
        await add(store, None, *(told(TEXT, output=TEXT, id=f"it's {number}") for number in range(150)))
        without = frozenset([*(f"it's {number}" for number in range(150)), "unknown", 'a"b', "%"])
        for chars in (1, ALL):
            assert await episode_ids(store, None, replace(search, chars=chars, without_ids=without)) == ["old"]

    async def test_facts_that_came_from_what_is_left_out_are_left_out(self, store: Store, search: Search) -> None:
        for source, session in (("e1", "now"), ("e2", "old"), ("e3", "now")):
            await add(store, "ana", told("x", id=source, session=session))
        await add(store, "bo", told("x", id="e4", session="now"))
        for source in ("e1", "e2", "e3", "e4", None):
            await state(store, "ana", Fact("s", "p", TEXT, id=f"from {source}", source_episode_id=source))
        found = await fact_ids(store, "ana", replace(search, without_session="now"))
        assert sorted(map(str, found)) == ["from None", "from e2", "from e4"]
        found = await fact_ids(store, "ana", replace(search, without_ids=frozenset(["e1", "e2"])))
        assert sorted(map(str, found)) == ["from None", "from e3", "from e4"]

    async def test_only_facts_that_are_true_now_are_found(self, store: Store, search: Search) -> None:
        store.clock = ManualClock(at(10))
        for number in range(100):
            await state(
                store, None, Fact(f"s{number}", "p", TEXT, valid_until=at(10)),
                Fact(f"s{number}", "q", TEXT, valid_from=at(11)),
            )  # fmt: skip
        await state(
            store, None, Fact("s", "p", TEXT, id="open"), Fact("s", "p", TEXT, id="ends later", valid_until=at(11)),
            Fact("s", "p", TEXT, id="begins now", valid_from=at(10)),
        )  # fmt: skip
        assert sorted(map(str, await fact_ids(store, None, search))) == ["begins now", "ends later", "open"]
        assert len(await fact_ids(store, None, replace(search, chars=1))) >= 1

    async def test_retired_versions_of_facts_are_not_found(
        self, store: Store, search: Search, clock: ManualClock
    ) -> None:
        for confidence in range(40):
            clock.advance(hours=1)
            await state(store, None, Fact("s", "p", TEXT, id="f", confidence=confidence / 40), plan=supersede)
        await state(store, None, Fact("s", "p", TEXT, id="gone"))
        await store.retract_fact(None, "gone")
        _, facts = await store.passages(None, search)
        assert [(one.item.id, one.item.confidence) for one in facts] == [("f", 39 / 40)]

    async def test_at_a_moment_only_what_was_there_then_is_found(
        self, store: Store, search: Search, clock: ManualClock
    ) -> None:
        await add(store, None, *(told(TEXT, id=f"{day}", occurred_at=at(day)) for day in range(30)))
        for day, city in ((1, "Acme"), (5, "Orbis")):
            clock.moment = at(day)
            await state(store, None, Fact(f"{TEXT} {city}", "home", TEXT, id="f"), plan=supersede)
        clock.moment = at(40)
        await state(store, None, Fact("s", "p", TEXT, id="told later", valid_from=at(0)))
        for chars in (1, ALL):
            found = await episode_ids(store, None, replace(search, at=at(3), chars=chars))
            assert set(found) <= {"0", "1", "2", "3"}
            assert len(found) == (1 if chars == 1 else 4)
        for day, subjects in ((0, []), (1, [f"{TEXT} Acme"]), (4, [f"{TEXT} Acme"]), (5, [f"{TEXT} Orbis"])):
            _, facts = await store.passages(None, replace(search, at=at(day)))
            assert [one.item.subject for one in facts] == subjects
        assert len(await fact_ids(store, None, search)) == 2

    # Ranking

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
            assert [text_of(one).removeprefix("note says 4 ") for one in found][0] == "harbour lights at night"
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
                texts = [f"{_text(day * 4 + n)}{' and more' * (day % 3)}" for n in range(4)]
                await add(store, None, *(told(text, session=session, occurred_at=at(day)) for text in texts))
                await state(store, None, *(Fact(f"on {day}", "was", text, recorded_at=at(day)) for text in texts))

        await write(range(9))
        search = about("canoe, lake or river 3?", at=at(8))
        if VECTORS in self.capabilities:
            search = replace(search, query=embedded(20))
        before = (await store.passages(None, search), await store.search(None, search))
        await write(range(9, 30))
        assert (await store.passages(None, search), await store.search(None, search)) == before

    # Names

    async def test_names_are_those_of_users_and_agents_in_episodes(self, store: Store) -> None:
        assert await store.names("ana") == []
        await add_episodes(
            store, "ana", told("x", user_name="Ana Lima", agent_name="Nova"), told("y", user_name="Ana Lima"),
            told("z"), told("q", agent_name="o'Neill; --"),
        )  # fmt: skip
        await add_episodes(store, "bo", told("x", user_name="Bo", agent_name="Nova"))
        await add_facts(store, "ana", Fact("Cy", "likes", "tea"))
        assert sorted(await store.names("ana")) == ["Ana Lima", "Nova", "o'Neill; --"]
        assert sorted(await store.names("bo")) == ["Bo", "Nova"]
        assert await store.names(None) == []
        await store.begin_run("ana", OpenRun("r", "s", "x", at(0)))
        await store.finish_run("ana", "r", NewEpisode(told("x", id="r", user_name="Dora")))
        await add_episodes(store, "ana", told("x", id="r", user_name="of a repetition"))
        assert sorted(await store.names("ana")) == ["Ana Lima", "Dora", "Nova", "o'Neill; --"]

    async def test_names_go_with_the_last_episode_that_has_them(self, store: Store) -> None:
        await add_episodes(
            store, "ana", told("x", session="a", user_name="Ana", agent_name="Nova", occurred_at=at(5)),
            told("y", session="b", user_name="Ana", agent_name="Vega", occurred_at=at(5)),
            told("z", session="b", user_name="Old", occurred_at=at(0)),
        )  # fmt: skip
        await add_episodes(store, "bo", told("x", session="a", user_name="Bo"))
        await store.forget("ana", session_id="a")
        assert sorted(await store.names("ana")) == ["Ana", "Old", "Vega"]
        await store.forget("ana", before=at(3))
        assert sorted(await store.names("ana")) == ["Ana", "Vega"]
        await store.forget("ana")
        assert (await store.names("ana"), await store.names("bo")) == ([], ["Bo"])

    # Many small writes

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
        texts = [_text(place) for place in range(600)]
        await self.fill_slowly(store, "slow", texts)
        await self.fill_at_once(store, "once", list(enumerate(texts)))
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        await asyncio.sleep(0.3)  # whatever a store does behind its writes, it changes nothing
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        if Capability.PERSISTENT in self.capabilities:
            await store.aclose()
            assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")

    @pytest.mark.parametrize("searched_before", [False, True])
    async def test_what_was_forgotten_of_many_small_writes_is_as_if_it_never_was(
        self, store: Store, searched_before: bool
    ) -> None:
        texts = [_text(place) for place in range(600)]
        await self.fill_slowly(store, "slow", texts)
        if searched_before:
            await self.everything_found(store, "slow")
        await store.forget("slow", session_id="s2")
        await store.forget("slow", before=at(1))
        kept = [(place, text) for place, text in enumerate(texts) if _session(place) != "s2" and place >= 150]
        await self.fill_at_once(store, "once", kept)
        assert len(await store.episodes("slow")) == len(kept)
        assert await self.everything_found(store, "slow") == await self.everything_found(store, "once")
        more = [(place, _text(place)) for place in range(600, 610)]
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
        assert [found.items[key].id for key, _ in found.vector][0] in ("1", "20")


def _text(place: int) -> str:
    words = ("kayak", "canoe", "lake", "number", "river", "shed")
    return f"{words[place % 6]} {words[place * 7 % 5]} {place}{' and more' * (place % 4)}"


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
