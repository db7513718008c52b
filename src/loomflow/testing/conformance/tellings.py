"""The tellings of facts: kept with every version, and forgotten one by one with the session that they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loomflow.bitemporal import SingleValued
from loomflow.items import ORIGINS, Fact, Forgotten, Origin, Source
from loomflow.ports import Store
from loomflow.predicates import is_single_valued
from loomflow.records import FactFilter
from loomflow.transactions import Rules, retraction, telling_all

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    ManualClock,
    add_episodes,
    add_facts,
    asking,
    at,
    by_vector,
    embedded,
    objects,
    requires,
    stated,
    told,
    towards,
)

GONE, KEPT = "gone", "kept"
WORD = "xylophonist"
QUOTED = f"{WORD} 記憶"
HISTORY = FactFilter(history=True)

FULL = Source(
    id="fact:1",
    told_at=datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC),
    recorded_at=datetime(2026, 2, 3, 4, 5, 7, 1, tzinfo=UTC),
    valid_from=datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    valid_until=datetime(2030, 1, 1, tzinfo=UTC),
    episode_id='episode "7"',
    quote="I said: 'naïve' 上海 👩‍👩‍👧\n\"and\" \\ more",
    origin="agent",
    confidence=0.25,
)
BARE = Source(id="用户", told_at=datetime.min.replace(tzinfo=UTC), recorded_at=datetime.max.replace(tzinfo=UTC))

Told = tuple[str, Fact]


def said(session: str, object_: str, start: int | None = None, end: int | None = None, **fields: Any) -> Told:
    """A fact about where Ana lives, told in a session."""
    fact = Fact(
        "Ana", fields.pop("predicate", "lives_in"), object_, source_episode_id=f"e-{session}",
        valid_from=None if start is None else at(start), valid_until=None if end is None else at(end),
        quote=f"{session} says {object_}", **fields,
    )  # fmt: skip
    return session, fact


STORIES: dict[str, Sequence[Told]] = {
    "ended by what is gone": [said(KEPT, "Porto"), said(GONE, "Braga")],
    "ended by what is kept": [said(GONE, "Porto"), said(KEPT, "Braga")],
    "told in both": [said(KEPT, "Porto", 1), said(GONE, "Porto", 1)],
    "told in both, first by what is gone": [said(GONE, "Porto", 1), said(KEPT, "Porto", 1)],
    "told in both without a time": [said(GONE, "Porto"), said(KEPT, "Porto"), said(GONE, "Porto")],
    "came back after what is gone": [said(KEPT, "Porto", 1), said(GONE, "Braga", 3), said(KEPT, "Porto", 5)],
    "parted by what is kept": [said(GONE, "Porto", 1), said(KEPT, "Braga", 3), said(GONE, "Porto", 5)],
    "an end that is gone": [said(KEPT, "Porto", 1), said(GONE, "Porto", 1, 4)],
    "an end that is kept": [said(GONE, "Porto", 1), said(KEPT, "Porto", 1, 4)],
    "opened again by what is gone": [said(KEPT, "Porto", -9, -4), said(GONE, "Porto", -9)],
    "a start that is gone": [said(KEPT, "Porto", 5), said(GONE, "Porto", 2)],
    "late arrival that is gone": [said(KEPT, "Braga", 5), said(GONE, "Porto", 1), said(KEPT, "Faro", 9)],
    "gone in the middle": [said(KEPT, "Porto", 1), said(GONE, "Braga", 3), said(KEPT, "Faro", 5)],
    "over when it was told": [said(KEPT, "Porto"), said(GONE, "Braga", end=-9), said(KEPT, "Faro", end=-5)],
    "all of it gone": [said(GONE, "Porto", 1), said(GONE, "Braga", 3), said(GONE, "Porto", 5)],
    "nothing gone": [said(KEPT, "Porto", 1), said(KEPT, "Braga", 3)],
    "values that gather": [
        said(KEPT, "tea", predicate="likes"), said(GONE, "oats", predicate="likes"),
        said(GONE, "tea", predicate="likes"), said(KEPT, "rye", predicate="likes"),
    ],
    "an end of one of those": [said(KEPT, "tea", 1, predicate="likes"), said(GONE, "tea", 1, 3, predicate="likes")],
    "an agent beside a user that is gone": [
        said(GONE, "Porto", 1, origin="user"), said(KEPT, "Braga", 3, origin="agent"),
    ],
    "a user beside an agent that is gone": [
        said(GONE, "Braga", 1, origin="agent"), said(KEPT, "Porto", 3, origin="user"),
    ],
    "synonyms": [said(KEPT, "Acme", 1, predicate="works_for"), said(GONE, "Orbis", 3, predicate="employer")],
}  # fmt: skip
"""What was told in two sessions, one of which is forgotten."""


class TellingConformance(ConformanceBase):
    """Sources of facts, and `forget` of a session or of what is old."""

    async def begin(self, store: Store, user: str | None = "ana") -> None:
        """Write one episode for each session."""
        for session in (GONE, KEPT):
            await add_episodes(store, user, told(session, id=f"e-{session}", session=session, occurred_at=at(0)))

    async def tell(
        self, store: Store, clock: ManualClock, story: Sequence[Told], *, user: str | None = "ana",
        only: str | None = None, single_valued: SingleValued = is_single_valued,
    ) -> None:  # fmt: skip
        """Tell facts a day apart, or only those of one session, each at the same moment as if all were told."""
        for day, (session, told_now) in enumerate(story):
            clock.moment = at(day)
            if only in (None, session):
                fact, rules = replace(told_now, id=f"f{day}"), Rules(clock(), single_valued)
                await store.change_facts(
                    user, lambda fact=fact, rules=rules: telling_all([fact], rules), {fact.text: embedded(10 * day)}
                )
        clock.moment = at(100)

    # Sources

    @pytest.mark.parametrize("sources", [(), (FULL,), (BARE, FULL), tuple(replace(FULL, id=f"{n}") for n in range(32))])
    async def test_sources_come_back_as_written(self, store: Store, sources: tuple[Source, ...]) -> None:
        await add_facts(store, "ana", Fact("s", "p", "o", id="f", recorded_at=at(0), sources=sources))
        for which in (FactFilter(), HISTORY, FactFilter(id="f"), FactFilter(known_at=at(1)), FactFilter(subject="s")):
            (stored,) = await store.facts("ana", which)
            assert stored.sources == sources
            assert [type(source) for source in stored.sources] == [Source] * len(sources)

    @pytest.mark.parametrize("origin", ORIGINS)
    @pytest.mark.parametrize("told_at", [None, datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)])
    @pytest.mark.parametrize("quote", [None, FULL.quote])
    async def test_who_said_it_when_and_in_which_words_comes_back(
        self, store: Store, origin: Origin, told_at: datetime | None, quote: str | None
    ) -> None:
        fact = Fact("s", "p", "o", id="f", recorded_at=at(0), origin=origin, told_at=told_at, quote=quote)
        await add_facts(store, "ana", fact)
        for which in (FactFilter(), HISTORY):
            (stored,) = await store.facts("ana", which)
            assert stored == replace(fact, user_id="ana")
            assert (stored.origin, stored.told_at, stored.quote) == (origin, told_at, quote)

    async def test_every_version_keeps_the_tellings_of_its_time(self, store: Store, clock: ManualClock) -> None:
        story = [said(KEPT, "Porto", 1), said(GONE, "Porto", 1), said(KEPT, "Porto", 1, origin="tool")]
        await self.tell(store, clock, story[:2])
        versions = await store.facts("ana", HISTORY)
        assert [[source.episode_id for source in fact.sources] for fact in versions] == [
            ["e-kept"], ["e-kept", "e-gone"],
        ]  # fmt: skip
        assert [source.told_at for source in versions[1].sources] == [at(0), at(1)]
        assert [source.quote for source in versions[1].sources] == ["kept says Porto", "gone says Porto"]
        assert [fact.quote for fact in versions] == ["kept says Porto", "gone says Porto"]
        assert [fact.source_episode_id for fact in versions] == ["e-kept", "e-gone"]

    async def test_a_retired_version_keeps_its_sources(self, store: Store, clock: ManualClock) -> None:
        await self.tell(store, clock, [said(KEPT, "Porto", 1)])
        await store.change_facts("ana", lambda: retraction("f0", Rules(clock())))
        (version,) = await store.facts("ana", HISTORY)
        assert [source.id for source in version.sources] == ["f0"]
        assert version.retired_at == clock()

    async def test_a_fact_without_sources_counts_as_its_own(self, store: Store, clock: ManualClock) -> None:
        clock.moment = at(2)
        old = Fact("Ana", "lives_in", "Porto", id="old", recorded_at=at(1), quote="q", source_episode_id="e-kept")
        await add_facts(store, "ana", old)
        new = Fact("Ana", "lives_in", "Braga", id="new", valid_from=at(2))
        await store.change_facts("ana", lambda: telling_all([new], Rules(clock())))
        ended, begun = await store.facts("ana", FactFilter())
        assert (ended.object, ended.valid_from, ended.valid_until) == ("Porto", at(1), at(2))
        assert [(source.id, source.quote, source.episode_id, source.told_at) for source in ended.sources] == [
            ("old", "q", "e-kept", at(1))
        ]
        assert begun.object == "Braga"

    # Forgetting a session

    @pytest.mark.parametrize("story", list(STORIES))
    async def test_what_is_left_is_what_the_other_session_would_have_given(
        self, store: Store, clock: ManualClock, story: str
    ) -> None:
        await self.begin(store)
        await self.begin(store, "never")
        await self.tell(store, clock, STORIES[story])
        await self.tell(store, clock, STORIES[story], user="never", only=KEPT)
        await store.forget("ana", session_id=GONE)
        assert await self.state(store, "ana") == await self.state(store, "never")

    @pytest.mark.parametrize("story", list(STORIES))
    async def test_no_version_shows_what_was_forgotten(self, store: Store, clock: ManualClock, story: str) -> None:
        await self.begin(store)
        await self.tell(store, clock, STORIES[story])
        await store.forget("ana", session_id=GONE)
        for fact in await store.facts("ana", HISTORY):
            assert fact.sources
            assert all(source.episode_id == "e-kept" for source in fact.sources)
            assert fact.source_episode_id == "e-kept"
            assert fact.quote == fact.sources[-1].quote
            assert "gone" not in repr((fact, fact.sources))

    @pytest.mark.parametrize("story", list(STORIES))
    async def test_the_count_is_that_of_the_versions_that_went(
        self, store: Store, clock: ManualClock, story: str
    ) -> None:
        await self.begin(store)
        await self.tell(store, clock, STORIES[story])
        before = [(fact.id, fact.recorded_at) for fact in await store.facts("ana", HISTORY)]
        forgotten = await store.forget("ana", session_id=GONE)
        after = [
            (fact.id, fact.recorded_at) for fact in await store.facts("ana", HISTORY) if fact.recorded_at != at(100)
        ]
        assert forgotten == Forgotten(facts=len(before) - len(after), episodes=1)
        assert await store.forget("ana", session_id=GONE) == Forgotten()

    @pytest.mark.parametrize("story", list(STORIES))
    async def test_searches_agree_with_what_is_left(self, store: Store, clock: ManualClock, story: str) -> None:
        await self.begin(store)
        await self.tell(store, clock, STORIES[story])
        await store.search("ana", asking("ana", query=embedded(0)))
        await store.forget("ana", session_id=GONE)
        left = sorted(fact.text for fact in await store.facts("ana", FactFilter(valid_at=clock())))
        found, vector = await store.search("ana", asking("ana lives", query=embedded(0)))
        assert list(found.items) == list(found.lexical) == []
        lexical = sorted(vector.items[key].text for key in vector.lexical)
        assert lexical == (left if Capability.KEYWORDS in self.capabilities else [])
        near = sorted(fact.text for fact in by_vector(vector))
        assert near == (left if Capability.VECTORS in self.capabilities else [])
        passages = (await store.passages("ana", asking("ana", text="ana", chars=100_000, query=embedded(0))))[1]
        if Capability.KEYWORDS in self.capabilities:
            assert sorted(passage.item.text for passage in passages) == left
        if Capability.VECTORS in self.capabilities:
            assert (
                await store.stats("ana", everyone=False, embedder=SPACE)
            ).unembedded == 1  # the episode that is left

    async def test_what_a_forgotten_value_had_ended_is_open_again(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        await self.tell(store, clock, STORIES["ended by what is gone"])
        assert await objects(store, "ana", valid_at=at(9)) == ["Braga"]
        assert await store.forget("ana", session_id=GONE) == Forgotten(facts=1, episodes=1)
        (porto,) = await store.facts("ana", FactFilter())
        assert (porto.object, porto.valid_until, porto.recorded_at) == ("Porto", None, clock())
        assert await objects(store, "ana", valid_at=at(9)) == ["Porto"]

    @requires(Capability.KEYWORDS, Capability.VECTORS)
    async def test_what_is_open_again_is_found_as_before(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        await self.tell(store, clock, STORIES["ended by what is gone"])
        assert await stated(store, "ana", asking("Porto")) == []
        await store.forget("ana", session_id=GONE)
        assert await stated(store, "ana", asking("Porto")) == ["Porto"]
        _, facts = await store.search("ana", towards(0))
        assert [fact.object for fact in by_vector(facts)] == ["Porto"]

    async def test_a_retracted_fact_is_not_believed_again(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        await self.tell(store, clock, [said(KEPT, "Porto", 1), said(GONE, "Porto", 1)])
        await store.change_facts("ana", lambda: retraction("f0", Rules(clock())))
        assert await store.forget("ana", session_id=GONE) == Forgotten(episodes=1)
        assert await objects(store, "ana") == []
        assert [fact.quote for fact in await store.facts("ana", HISTORY)] == ["kept says Porto", "kept says Porto"]

    @pytest.mark.parametrize("is_single", [True, False])
    async def test_the_memory_says_which_predicates_hold_one_value(
        self, store: Store, clock: ManualClock, is_single: bool
    ) -> None:
        def single_valued(predicate: str) -> bool:
            return is_single

        await self.begin(store)
        story = [said(KEPT, "Cleo", 1, predicate="mentor"), said(GONE, "Dana", 3, predicate="mentor")]
        await self.tell(store, clock, story, single_valued=single_valued)
        assert len(await objects(store, "ana", valid_at=at(9))) == (1 if is_single else 2)
        await store.forget("ana", session_id=GONE, single_valued=single_valued)
        assert await objects(store, "ana", valid_at=at(9)) == ["Cleo"]

    async def test_facts_without_sources_go_with_their_episode(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        facts = [
            Fact("Ana", "lives_in", "Porto", id="a", recorded_at=at(1), source_episode_id="e-kept", valid_until=at(2)),
            Fact("Ana", "lives_in", "Braga", id="b", recorded_at=at(2), source_episode_id="e-gone", valid_from=at(2)),
            Fact("Ana", "owns", "books", id="c", recorded_at=at(2)),
        ]
        await add_facts(store, "ana", *facts)
        assert await store.forget("ana", session_id=GONE) == Forgotten(facts=1, episodes=1)
        assert await objects(store, "ana") == ["Porto", "books"]
        assert await store.forget("ana", before=at(2)) == Forgotten(facts=1, episodes=1)
        assert await objects(store, "ana") == ["books"]

    async def test_other_users_keep_every_telling(self, store: Store, clock: ManualClock) -> None:
        for user in ("ana", "bo", None):
            await self.begin(store, user)
            await self.tell(store, clock, STORIES["gone in the middle"], user=user)
        before = [await self.everything(store, user) for user in ("bo", None)]
        await store.forget("ana", session_id=GONE)
        await store.forget("ana", before=at(50))
        assert [await self.everything(store, user) for user in ("bo", None)] == before

    # Forgetting what is old

    @pytest.mark.parametrize(
        ("day", "left"), [(0, ["f0", "f1", "f2"]), (1, ["f1", "f2"]), (2, ["f2"]), (3, [])], ids=str
    )
    async def test_tellings_before_a_moment_go_and_later_ones_stay(
        self, store: Store, clock: ManualClock, day: int, left: list[str]
    ) -> None:
        await self.tell(store, clock, [said(f"{n}", "tea", predicate="likes") for n in range(3)])
        versions = len(await store.facts("ana", HISTORY))
        forgotten = await store.forget("ana", before=at(day))
        assert forgotten == Forgotten(facts=min(day, versions))
        believed = await store.facts("ana", FactFilter())
        assert [source.id for fact in believed for source in fact.sources] == left
        for fact in await store.facts("ana", HISTORY):
            assert all(source.told_at >= at(day) for source in fact.sources)

    async def test_what_was_said_before_a_moment_goes_however_late_it_was_learned(
        self, store: Store, clock: ManualClock
    ) -> None:
        story = [said(KEPT, city, predicate="likes", told_at=at(day)) for city, day in (("tea", -9), ("rye", 5))]
        await self.tell(store, clock, story)
        bare = [
            Fact("Ana", "likes", "oats", id="a", recorded_at=at(9), told_at=at(-9)),
            Fact("Ana", "likes", "figs", id="b", recorded_at=at(-9), told_at=at(9)),
        ]
        await add_facts(store, "ana", *bare)
        assert await store.forget("ana", before=at(0)) == Forgotten(facts=2)
        assert sorted(await objects(store, "ana")) == ["figs", "rye"]

    async def test_what_an_old_telling_had_ended_is_open_again(self, store: Store, clock: ManualClock) -> None:
        await self.tell(store, clock, [said(KEPT, "Porto", 5), said(KEPT, "Porto", 1, 3), said(KEPT, "Braga", 9)])
        await store.forget("ana", before=at(2))
        assert [
            (fact.object, fact.valid_from, fact.valid_until) for fact in await store.facts("ana", FactFilter())
        ] == [("Braga", at(9), None)]

    async def test_session_and_moment_narrow_to_one_telling(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        await self.tell(store, clock, [said(session, "tea", predicate="likes") for session in (GONE, KEPT)])
        await store.forget("ana", session_id=GONE, before=at(0))
        assert [len(fact.sources) for fact in await store.facts("ana", FactFilter())] == [2]
        await store.forget("ana", session_id=GONE, before=at(1))
        (tea,) = await store.facts("ana", FactFilter())
        assert [source.id for source in tea.sources] == ["f1"]

    async def test_what_one_episode_says_twice_is_one_telling(self, store: Store, clock: ManualClock) -> None:
        await self.begin(store)
        await self.tell(store, clock, [said(GONE, "tea", predicate="likes") for _ in range(3)])
        (tea,) = await store.facts("ana", FactFilter())
        assert [source.id for source in tea.sources] == ["f0"]

    # Bytes

    @requires(Capability.PERSISTENT)
    @pytest.mark.parametrize("narrow", [{"session_id": GONE}, {"before": at(2)}], ids=["session", "before"])
    async def test_no_byte_of_a_forgotten_quote_is_left_in_the_files(
        self, store: Store, clock: ManualClock, tmp_path: Path, narrow: dict[str, Any]
    ) -> None:
        await self.begin(store)
        story = [said(session, "tea", predicate="likes") for session in (KEPT, GONE, KEPT)]
        if "before" in narrow:
            story[0] = story[1]
        quoted = [(s, replace(fact, quote=f"{QUOTED} {s}") if s == GONE else fact) for s, fact in story]
        await self.tell(store, clock, quoted)
        await self.tell(store, clock, quoted, user="bo")
        await store.forget("bo")
        await store.forget("ana", secure=True, **narrow)
        assert await objects(store, "ana") == ["tea"]
        assert in_files(tmp_path, WORD, QUOTED) == []
        await store.aclose()
        assert in_files(tmp_path, WORD, QUOTED) == []

    async def state(self, store: Store, user: str) -> list[tuple[object, ...]]:
        """What is believed, and on which grounds."""
        believed = await store.facts(user, FactFilter())
        rows = [
            (
                fact.text, fact.valid_from, fact.valid_until, fact.confidence, fact.origin, fact.quote,
                fact.source_episode_id, fact.sources,
            )
            for fact in believed
        ]  # fmt: skip
        return sorted(rows, key=repr)

    async def everything(self, store: Store, user: str | None) -> list[tuple[Fact, tuple[Source, ...]]]:
        """Every version with its sources."""
        return [(fact, fact.sources) for fact in await store.facts(user, HISTORY)]


def in_files(folder: Path, *texts: str) -> list[str]:
    """The files in which one of the texts stands, as it is or in another encoding."""
    wanted = [text.encode(encoding) for text in texts for encoding in ("utf-8", "utf-16-le", "unicode_escape")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(form in path.read_bytes() for form in wanted)]
