"""Search of passages: where they stand, what filters leave, how they are ranked, and the names that users go by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loomflow.bitemporal import supersede
from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import FactPlan, NewEpisode, OpenRun, Passage, Search
from loomflow.words import query_terms

from .base import (
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    at,
    embedded,
    gather,
    requires,
    retract,
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
    return replace(Search(words=tuple(query_terms(question)), text=question, chars=ALL), **fields)


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


async def speakers(store: Store, user: str | None) -> list[str]:
    return sorted((await store.names(user)).speakers)


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
            ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(whole)]
            between = [whole[end:start] for end, start in zip(ends, starts, strict=True)]
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
        [
            ("周五之前要登录系统。", "登录"),
            ("来週の会議は京都です。", "会議はどこ"),
            ("서울에서 만나요.", "서울"),
            ("𠮷野家で食べた", "𠮷野家"),
        ],
    )
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
        await retract(store, None, "gone")
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

    # Names

    async def test_names_are_those_of_users_and_agents_in_episodes(self, store: Store) -> None:
        assert await speakers(store, "ana") == []
        await add_episodes(
            store, "ana", told("x", user_name="Ana Lima", agent_name="Nova"), told("y", user_name="Ana Lima"),
            told("z"), told("q", agent_name="o'Neill; --"),
        )  # fmt: skip
        await add_episodes(store, "bo", told("x", user_name="Bo", agent_name="Nova"))
        await add_facts(store, "ana", Fact("Cy", "likes", "tea"))
        assert await speakers(store, "ana") == ["Ana Lima", "Nova", "o'Neill; --"]
        assert await speakers(store, "bo") == ["Bo", "Nova"]
        assert await speakers(store, None) == []
        await store.begin_run("ana", OpenRun("r", "s", "x", at(0)))
        await store.finish_run("ana", "r", NewEpisode(told("x", id="r", user_name="Dora")))
        await add_episodes(store, "ana", told("x", id="r", user_name="of a repetition"))
        assert await speakers(store, "ana") == ["Ana Lima", "Dora", "Nova", "o'Neill; --"]

    async def test_names_of_users_and_of_agents_are_told_apart(self, store: Store) -> None:
        await add_episodes(store, None, told("x", user_name="Ana", agent_name="Nova"), told("y", user_name="Nova"))
        names = await store.names(None)
        assert (sorted(names.users), sorted(names.agents)) == (["Ana", "Nova"], ["Nova"])

    async def test_names_say_which_subjects_are_the_same(self, store: Store, clock: ManualClock) -> None:
        before = clock()
        clock.advance(days=1)
        await add_facts(store, "ana", Fact("Mum", "same_as", "Maria Silva", id="f"), Fact("Mum", "likes", "tea"))
        merged = clock()
        assert (await store.names("ana")).same_as == {"Mum": "Maria Silva"}
        assert (await store.names("bo")).same_as == {}
        clock.advance(days=1)
        await retract(store, "ana", "f")
        assert (await store.names("ana")).same_as == {}
        assert (await store.names("ana", at=merged)).same_as == {"Mum": "Maria Silva"}
        assert (await store.names("ana", at=before)).same_as == {}

    async def test_names_are_those_of_the_moment(self, store: Store) -> None:
        for day, (user, agent) in enumerate((("Ana", "Nova"), ("Bo", "Nova"), ("Ana", "Orbit"))):
            await add_episodes(store, None, told("x", user_name=user, agent_name=agent, occurred_at=at(day)))
        found = [await store.names(None, at=at(day)) for day in (-1, 0, 1, 2)]
        assert [sorted(names.users) for names in found] == [[], ["Ana"], ["Ana", "Bo"], ["Ana", "Bo"]]
        assert [sorted(names.agents) for names in found] == [[], ["Nova"], ["Nova"], ["Nova", "Orbit"]]

    async def test_names_go_with_the_last_episode_that_has_them(self, store: Store) -> None:
        await add_episodes(
            store, "ana", told("x", session="a", user_name="Ana", agent_name="Nova", occurred_at=at(5)),
            told("y", session="b", user_name="Ana", agent_name="Vega", occurred_at=at(5)),
            told("z", session="b", user_name="Old", occurred_at=at(0)),
        )  # fmt: skip
        await add_episodes(store, "bo", told("x", session="a", user_name="Bo"))
        await store.forget("ana", session_id="a")
        assert await speakers(store, "ana") == ["Ana", "Old", "Vega"]
        await store.forget("ana", before=at(3))
        assert await speakers(store, "ana") == ["Ana", "Vega"]
        await store.forget("ana")
        assert (await speakers(store, "ana"), await speakers(store, "bo")) == ([], ["Bo"])
