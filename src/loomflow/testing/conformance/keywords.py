"""Keyword search: which texts a question finds, and in which order."""

from __future__ import annotations

import pytest

from loomflow.bitemporal import supersede
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import Search
from loomflow.words import MAX_QUERY_WORDS

from .base import (
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    asking,
    by_keyword,
    requires,
    retract,
    said,
    stated,
    told,
)

KEYWORDS = Capability.KEYWORDS


class KeywordConformance(ConformanceBase):
    """`search` by words."""

    @requires(KEYWORDS)
    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("I run along the river every morning", "Where do I go running?"),
            ("We planned two weddings", "the wedding plan"),
            ("Ferry timetable meetings are on Tuesdays", "When is the ferry timetable meeting on Tuesday?"),
            ("Petra moved to Leon in spring", "where does Petra live now"),
            ("PETRA MOVED", "petra"),
            ("a café in Zürich", "cafe zurich"),
            ("a cafe in Zurich", "CAFÉ ZÜRICH"),
            ("cafe\u0301 de flore", "café"),
            ("tiếng Việt", "tieng viet"),
            ("Straße 7", "strasse"),
            ("он живёт в МОСКВЕ", "москве"),
            ("Η ΟΔΟΣ ΑΘΗΝΑΣ", "οδος αθηνας"),
            ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
            ("the ofﬁce", "office"),
            ("İstanbul'da yaşıyor", "istanbul"),
            ("İstanbul'da yaşıyor", "İstanbul"),
            ("lives_in Lisbon", "lives"),
            ("record 4BE1-77AA-90C2 belongs to the launch", "4BE1-77AA-90C2"),
            ("she doesn't keep parrots", "doesn't keep"),
            ("release v2.14.0-rc1", "what is in 2.14.0?"),
            ("mail ida@example.org", "ida@example.org"),
        ],
    )
    async def test_a_question_finds_texts_that_share_a_word(self, store: Store, text: str, question: str) -> None:
        await add_episodes(store, None, told("nothing of the kind"), told(text))
        await add_facts(store, None, Fact("nobody", "knows", "anything"), Fact("memory", "holds", text))
        assert await said(store, None, asking(question)) == [text]
        assert await stated(store, None, asking(question)) == [text]

    @requires(KEYWORDS)
    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("周五之前要登录系统", "登录"),
            ("周五之前要登录系统", "登"),
            ("周五之前要登录系统", "周"),
            ("周五之前要登录系统", "统"),
            ("周五之前要登录系统", "周五开会"),
            ("来週の会議は京都です", "会議"),
            ("来週の会議は京都です", "京"),
            ("カラオケが好き", "カラオケ"),
            ("ｶﾗｵｹが好き", "カラオケ"),
            ("서울에서 만나요", "서울"),
            ("서울에서 만나요", "울"),
            ("用C++写的服务", "C++"),
            ("用C++写的服务", "服务"),
            ("𠮷野家で食べた", "𠮷野家"),
            ("々の字", "々"),
        ],
    )
    async def test_scripts_without_spaces_are_found_by_one_two_or_more_characters(
        self, store: Store, text: str, question: str
    ) -> None:
        await add_episodes(store, None, told("何も無い"), told(text))
        await add_facts(store, None, Fact("无", "no", "何も無い"), Fact("x", "y", text))
        assert await said(store, None, asking(question)) == [text]
        assert await stated(store, None, asking(question)) == [text]

    @requires(KEYWORDS)
    @pytest.mark.parametrize(
        "question",
        [
            '"', '""', "'", "*", "te*", "^tea", "tea AND", "tea OR", "NOT tea", "NEAR(tea milk, 2)", "tea NEAR milk",
            "text:tea", "u:1 OR text:tea", "col-umn: tea", "-tea", "+tea", "(tea", "tea)", "{tea}", "te{a", "tea\\",
            "a\0tea", "tea;--", "tea' OR '1'='1", "tea % _ ? :x @y $z", "[tea]", "tea,,milk", "–tea—", "tea…",
            "🍵 tea 🍵", "😀", "  ",
        ],
    )  # fmt: skip
    async def test_free_text_is_never_syntax(self, store: Store, question: str) -> None:
        await add_episodes(store, "ana", told("tea with milk"))
        await add_episodes(store, "bo", told("tea without milk"))
        expected = ["tea with milk"] if "tea" in question else []
        assert await said(store, "ana", asking(question)) == expected

    @requires(KEYWORDS)
    @pytest.mark.parametrize("word", ["and", "or", "not", "near", "text", "u", "rank", "rowid"])
    async def test_words_that_are_operators_elsewhere_are_words(self, store: Store, word: str) -> None:
        await add_episodes(store, None, told(f"a text with {word.upper()} in it"), told("nothing here"))
        assert len(await said(store, None, Search(words=(word,)))) == 1

    @requires(KEYWORDS)
    @pytest.mark.parametrize("backwards", [False, True])
    async def test_more_matching_words_rank_higher(self, store: Store, backwards: bool) -> None:
        ranked = [
            "Ferry harbour timetable",
            "Harbour timetable, a list of things for the garden",
            "Timetable, a list of all the things for the garden",
        ]
        for text in reversed(ranked) if backwards else ranked:
            await add_episodes(store, None, told(text))
            await add_facts(store, None, Fact("note", "says", text))
        for _ in range(2):
            assert await said(store, None, asking("ferry harbour timetable")) == ranked
            assert await stated(store, None, asking("ferry harbour timetable")) == ranked

    @requires(KEYWORDS)
    async def test_a_rare_word_counts_more_than_a_common_one(self, store: Store) -> None:
        await add_episodes(store, None, *(told(f"meeting notes number {number}") for number in range(30)))
        await add_episodes(store, None, told("a kayak on the lake"))
        assert (await said(store, None, asking("meeting kayak")))[0] == "a kayak on the lake"

    @requires(KEYWORDS)
    async def test_either_side_of_an_episode_and_every_part_of_a_fact_is_searched(self, store: Store) -> None:
        await add_episodes(store, None, told("alpha", output="beta"))
        await add_facts(store, None, Fact("gamma", "delta_epsilon", "zeta"))
        for word in ("alpha", "beta"):
            assert await said(store, None, asking(word)) == ["alpha"]
        for word in ("gamma", "delta", "epsilon", "zeta"):
            assert await stated(store, None, asking(word)) == ["zeta"]

    @requires(KEYWORDS)
    async def test_episodes_and_facts_are_ranked_apart(self, store: Store) -> None:
        await add_episodes(store, None, told("green kestrel"))
        await add_facts(store, None, Fact("bike", "is", "green"))
        episodes, facts = await store.search(None, asking("green kestrel"))
        assert [episode.input for episode in by_keyword(episodes)] == ["green kestrel"]
        assert [fact.object for fact in by_keyword(facts)] == ["green"]
        assert set(episodes.items) == set(episodes.lexical)
        assert set(facts.items) == set(facts.lexical)
        assert (episodes.vector, facts.vector) == ((), ())

    @requires(KEYWORDS)
    async def test_the_limit_holds_for_each_kind(self, store: Store) -> None:
        await add_episodes(store, None, *(told(f"tea number {number}") for number in range(9)))
        await add_facts(store, None, *(Fact("Ana", "likes", f"tea {number}") for number in range(9)))
        episodes, facts = await store.search(None, asking("tea", limit=4))
        assert (len(episodes.lexical), len(facts.lexical)) == (4, 4)

    async def test_a_search_for_nothing_finds_nothing(self, store: Store) -> None:
        await add_episodes(store, None, told("tea"))
        await add_facts(store, None, Fact("Ana", "likes", "tea"))
        episodes, facts = await store.search(None, Search())
        assert (episodes.items, episodes.lexical, episodes.vector) == ({}, (), ())
        assert (facts.items, facts.lexical, facts.vector) == ({}, (), ())

    async def test_a_search_for_a_user_without_memory_finds_nothing(self, store: Store) -> None:
        await add_episodes(store, "ana", told("tea"))
        episodes, facts = await store.search("nobody", asking("tea"))
        assert (episodes.items, facts.items) == ({}, {})
        assert await store.users() == ["ana"]

    @requires(KEYWORDS)
    async def test_a_corrected_fact_is_found_by_its_new_words_only(self, store: Store, clock: ManualClock) -> None:
        await add_facts(store, None, Fact("Ana", "likes", "oolong tea", id="f"))
        clock.advance(days=1)
        await add_facts(store, None, Fact("Ana", "likes", "espresso", id="f"), plan=supersede)
        assert await stated(store, None, asking("oolong")) == []
        assert await stated(store, None, asking("espresso")) == ["espresso"]
        await retract(store, None, "f")
        assert await stated(store, None, asking("espresso")) == []

    @requires(KEYWORDS)
    async def test_a_fact_restated_is_found_once(self, store: Store, clock: ManualClock) -> None:
        for day in range(4):
            clock.advance(days=day)
            await add_facts(store, None, Fact("Ana", "likes", "oolong", id="f", confidence=day / 4), plan=supersede)
        assert await stated(store, None, asking("oolong")) == ["oolong"]

    @requires(KEYWORDS)
    async def test_as_many_words_as_a_question_can_have_are_searched(self, store: Store) -> None:
        await add_episodes(store, None, told("the last word stands here"), told("none of them"))
        words = tuple(f"w{number}" for number in range(MAX_QUERY_WORDS - 1))
        assert await said(store, None, Search(words=(*words, "last"))) == ["the last word stands here"]
