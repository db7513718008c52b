"""The facts of a memory: what is told, corrected, retracted and merged, asked for at any point of both time axes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loomflow import ConfigError, Episode, Fact, Memory
from loomflow.items import Origin, Source
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import ManualClock


def day(number: float) -> datetime:
    """A moment, so many days after the story begins."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture
def clock(still_memory: Memory) -> ManualClock:
    """The clock of `still_memory`, to be moved by the test."""
    clock = ManualClock(day(0))
    still_memory.store.clock = clock
    return clock


@pytest.fixture
def memory(still_memory: Memory, clock: ManualClock) -> Memory:
    """A memory with a clock that moves."""
    return still_memory


async def tell(memory: Memory, on: float, object_: str, start: float | None = None, **fields: Any) -> Fact:
    """Tell where Ana lives, or something else of her, on a day."""
    memory.store.clock = ManualClock(day(on))
    until = fields.pop("until", None)
    return await memory.facts.append(
        Fact(
            fields.pop("subject", "Ana"), fields.pop("predicate", "lives_in"), object_,
            valid_from=None if start is None else day(start), valid_until=None if until is None else day(until),
            **fields,
        )
    )  # fmt: skip


def on(memory: Memory, number: float) -> Memory:
    """The memory on a day."""
    memory.store.clock = ManualClock(day(number))
    return memory


async def values(memory: Memory, **which: Any) -> list[str]:
    """The objects of what is true, in order of the alphabet."""
    return sorted(fact.object for fact in await memory.facts.query(**which))


async def believed(memory: Memory) -> list[tuple[str, datetime | None, datetime | None]]:
    """What is believed now, over all of its valid time."""
    history = await memory.facts.history()
    spans = [(fact.object, fact.valid_from, fact.valid_until) for fact in history if fact.retired_at is None]
    return sorted(spans, key=lambda span: (span[1] or day(-10_000), span[0]))


def tellers(fact: Fact) -> list[str | None]:
    """The episodes that a fact was told in, in order."""
    return [source.episode_id for source in fact.sources]


# Versions


async def test_a_fact_comes_back_with_id_and_times(memory: Memory) -> None:
    told = await tell(memory, 1, "Porto")
    assert (told.id is None, told.recorded_at, told.valid_from, told.retired_at) == (False, day(1), None, None)
    assert await memory.facts.query() == [told]
    assert [source.id for source in told.sources] == [told.id]


async def test_several_facts_come_back_in_the_order_given(memory: Memory) -> None:
    facts = [Fact("Ana", "likes", "tea", user_id="ana"), Fact("Bo", "likes", "tea"), Fact("Ana", "owns", "a cat")]
    written = await memory.facts.append(facts)
    assert [(fact.text, fact.user_id) for fact in written] == [(fact.text, fact.user_id) for fact in facts]
    assert [fact.text for fact in await memory.facts.query(user_id="ana")] == ["Ana likes tea"]


async def test_a_new_value_ends_the_old_one_in_a_version_of_its_own(memory: Memory) -> None:
    porto = await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 5, "Braga", 3)
    first, ended, begun = await memory.facts.history("Ana")
    assert (first.id, first.valid_until, first.recorded_at, first.retired_at) == (porto.id, None, day(1), day(5))
    assert (ended.id, ended.valid_until, ended.recorded_at, ended.retired_at) == (porto.id, day(3), day(5), None)
    assert (begun.id, begun.valid_from, begun.recorded_at, begun.retired_at) == (braga.id, day(3), day(5), None)


async def test_values_told_without_a_time_follow_one_another_as_they_were_told(memory: Memory) -> None:
    for number, city in ((1, "Porto"), (5, "Braga"), (9, "Faro")):
        await tell(memory, number, city)
    assert await believed(memory) == [
        ("Porto", day(1), day(5)), ("Braga", day(5), day(9)), ("Faro", day(9), None),
    ]  # fmt: skip
    assert await values(memory) == ["Faro"]


async def test_a_batch_told_at_one_moment_is_told_in_its_order(memory: Memory) -> None:
    await memory.facts.append([Fact("Ana", "lives_in", city) for city in ("Porto", "Braga", "Faro")])
    on(memory, 1)
    assert await values(memory) == ["Faro"]
    assert sorted(city for city, _, _ in await believed(memory)) == ["Braga", "Faro", "Porto"]


@pytest.mark.parametrize("end", [3, 5, 9])
async def test_telling_an_end_closes_a_value_in_a_version_of_its_own(memory: Memory, end: int) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 5, "Porto", -100, until=end)
    open_, closed = await memory.facts.history("Ana")
    assert (open_.valid_until, open_.retired_at) == (None, day(5))
    assert (closed.valid_until, closed.recorded_at, closed.id) == (day(end), day(5), open_.id)
    assert await values(memory, valid_at=day(end)) == []
    assert await values(memory, valid_at=day(end - 0.001)) == ["Porto"]
    assert await values(memory, valid_at=day(end), known_at=day(4)) == ["Porto"]


async def test_what_was_retracted_stays_in_the_history(memory: Memory) -> None:
    tea = await tell(memory, 1, "tea", predicate="likes")
    assert await on(memory, 5).facts.retract(tea) is True
    assert await on(memory, 6).facts.retract(tea) is False
    assert await memory.facts.query() == []
    (version,) = await memory.facts.history()
    assert (version.object, version.recorded_at, version.retired_at) == ("tea", day(1), day(5))
    assert await values(memory, known_at=day(4)) == ["tea"]


async def test_nobody_retracts_a_fact_of_somebody_else(memory: Memory) -> None:
    tea = await memory.facts.append(Fact("Ana", "likes", "tea", user_id="ana"))
    assert tea.id is not None
    for user in ("bo", None):
        assert await memory.facts.retract(tea.id, user_id=user) is False
    assert await memory.facts.retract(tea.id, user_id="ana") is True


async def test_a_retracted_value_opens_what_it_had_ended(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 5, "Braga", 3)
    await on(memory, 9).facts.retract(braga)
    assert await believed(memory) == [("Porto", day(-100), None)]
    assert await values(memory, known_at=day(8)) == ["Braga"]


async def test_a_value_retracted_from_the_middle_leaves_no_gap(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 2, "Braga", -50)
    await tell(memory, 3, "Faro", -20)
    await on(memory, 4).facts.retract(braga)
    assert await believed(memory) == [("Porto", day(-100), day(-20)), ("Faro", day(-20), None)]


# The plane of valid time and recorded time

VALID = (-120, -100.001, -100, -70, -50.001, -50, -30, 0, 2.999, 3, 4, 30)
STORY = """
       -120  -100-  -100  -70  -50-  -50  -30   0    3-    3    4    30
0       .     .      .     .    .     .    .    .    .     .    .    .
0.999   .     .      .     .    .     .    .    .    .     .    .    .
1       .     .      P     P    P     P    P    P    P     P    P    P
4.999   .     .      P     P    P     P    P    P    P     P    P    P
5       .     .      P     P    P     P    P    P    P     B    B    B
9.999   .     .      P     P    P     P    P    P    P     B    B    B
10      .     .      P     P    P     F    F    F    F     B    B    B
14.999  .     .      P     P    P     F    F    F    F     B    B    B
15      .     .      P     P    P     F    F    F    F     C    C    C
20      .     .      P     P    P     P    P    P    P     C    C    C
24.999  .     .      P     P    P     P    P    P    P     C    C    C
25      P     P      P     P    P     P    P    P    P     C    C    C
30      P     P      P     P    P     P    P    P    P     C    C    .
99      P     P      P     P    P     P    P    P    P     C    C    .
"""
"""What was true (a column is a moment; with a "-", one just before it), as it was known on a day (a row)."""
CITIES = {".": [], "P": ["Porto"], "B": ["Braga"], "C": ["Bragança"], "F": ["Faro"]}


def plane() -> dict[tuple[float, float], list[str]]:
    """Expected cities by (valid, known)."""
    rows = [line.split() for line in STORY.strip().splitlines()[1:]]
    return {
        (valid, float(known)): CITIES[mark] for known, *marks in rows for valid, mark in zip(VALID, marks, strict=True)
    }


async def tell_the_story(memory: Memory) -> None:
    """Moves to Porto and to Braga; a late arrival, a correction, a retraction, another correction, and an end."""
    porto = await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 5, "Braga", 3)
    faro = await tell(memory, 10, "Faro", -50)
    await on(memory, 15).facts.correct(braga, object="Bragança")
    assert await on(memory, 20).facts.retract(faro)
    await on(memory, 25).facts.correct(porto, valid_from=day(-120))
    await tell(memory, 30, "Bragança", 3, until=20)


async def test_every_point_of_the_plane_is_answered_as_the_story_goes(memory: Memory) -> None:
    await tell_the_story(memory)
    on(memory, 100)
    found = {
        point: await values(memory, subject="Ana", valid_at=day(point[0]), known_at=day(point[1])) for point in plane()
    }
    assert found == plane()


async def test_the_last_row_of_the_plane_is_what_is_known_now(memory: Memory) -> None:
    await tell_the_story(memory)
    on(memory, 99)
    for (valid, known), cities in plane().items():
        if known == 99:
            assert await values(memory, valid_at=day(valid)) == cities


async def test_versions_of_the_story_never_overlap_on_the_plane(memory: Memory) -> None:
    await tell_the_story(memory)
    history = await memory.facts.history()
    for valid in VALID:
        for known in range(40):
            there = [
                fact.object
                for fact in history
                if fact.is_valid_at(day(valid))
                and fact.recorded_at is not None
                and fact.recorded_at <= day(known)
                and (fact.retired_at is None or day(known) < fact.retired_at)
            ]
            assert there == await values(memory, valid_at=day(valid), known_at=day(known))
            assert len(there) <= 1


@pytest.mark.parametrize(
    "order",
    [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)],
    ids=lambda order: "".join(map(str, order)),
)
async def test_late_arrivals_take_their_place_whatever_the_order(memory: Memory, order: Sequence[int]) -> None:
    moves = (("Porto", -100), ("Braga", -50), ("Faro", -20))
    for number, place in enumerate(order, 1):
        await tell(memory, number, *moves[place])
    assert await believed(memory) == [
        ("Porto", day(-100), day(-50)), ("Braga", day(-50), day(-20)), ("Faro", day(-20), None),
    ]  # fmt: skip
    first = moves[order[0]]
    assert await values(memory, known_at=day(1), valid_at=day(10)) == [first[0]]


async def test_a_late_arrival_without_its_own_time_counts_from_when_it_was_said(memory: Memory) -> None:
    await tell(memory, 5, "Braga", told_at=day(5))
    await tell(memory, 9, "Porto", told_at=day(1))
    assert await believed(memory) == [("Porto", day(1), day(5)), ("Braga", day(5), None)]


async def test_a_value_that_was_over_when_it_was_told_ends_nothing(memory: Memory) -> None:
    await tell(memory, 1, "Porto")
    await tell(memory, 5, "Braga", until=-30)
    assert await values(memory) == ["Porto"]
    assert await values(memory, valid_at=day(-31)) == ["Braga"]
    assert await values(memory, valid_at=day(-29)) == []


# Restating


async def test_telling_it_again_gathers_the_tellings_in_order(memory: Memory) -> None:
    first = await tell(memory, 1, "Porto", -100, source_episode_id="e1", quote="one", confidence=0.4)
    second = await tell(memory, 5, "porto ", -100, source_episode_id="e2", quote="two", confidence=0.9)
    third = await tell(memory, 9, "Porto", -100, source_episode_id="e3", quote="three", confidence=0.5)
    assert first.id == second.id == third.id
    assert (third.valid_from, third.recorded_at, third.object) == (day(-100), day(9), "Porto")
    assert (third.confidence, third.quote, third.source_episode_id) == (0.9, "three", "e3")
    assert tellers(third) == ["e1", "e2", "e3"]
    assert [source.told_at for source in third.sources] == [day(1), day(5), day(9)]
    assert [tellers(fact) for fact in await memory.facts.history()] == [["e1"], ["e1", "e2"], ["e1", "e2", "e3"]]
    assert await memory.facts.query() == [third]


async def test_what_was_said_earlier_and_learned_later_stands_first(memory: Memory) -> None:
    await tell(memory, 5, "Porto", -100, source_episode_id="later", told_at=day(5))
    await tell(memory, 6, "Porto", -100, source_episode_id="earlier", told_at=day(2))
    (fact,) = await memory.facts.query()
    assert tellers(fact) == ["earlier", "later"]
    assert (fact.valid_from, fact.recorded_at) == (day(-100), day(6))


async def test_the_same_value_with_an_earlier_start_begins_earlier(memory: Memory) -> None:
    first = await tell(memory, 1, "Porto", -10)
    again = await tell(memory, 5, "Porto", -100)
    assert (again.id, again.valid_from) == (first.id, day(-100))
    assert await values(memory, valid_at=day(-50)) == ["Porto"]
    assert await values(memory, valid_at=day(-50), known_at=day(4)) == []


async def test_telling_after_the_end_that_it_is_still_true_opens_it_again(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100, until=3)
    await tell(memory, 9, "Porto", -100)
    assert await believed(memory) == [("Porto", day(-100), None)]
    assert await values(memory, known_at=day(8), valid_at=day(9)) == []


async def test_a_value_that_comes_back_is_a_fact_of_its_own(memory: Memory) -> None:
    first = await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "Braga", -50)
    again = await tell(memory, 3, "Porto", -10)
    assert again.id != first.id
    assert await believed(memory) == [
        ("Porto", day(-100), day(-50)), ("Braga", day(-50), day(-10)), ("Porto", day(-10), None),
    ]  # fmt: skip


async def test_of_two_values_with_one_start_the_one_told_last_counts(memory: Memory) -> None:
    for number, city in enumerate(("Porto", "Braga", "Porto", "Braga", "Braga"), 1):
        await tell(memory, number, city, -100)
        assert await values(memory) == [city]
        assert await values(memory, valid_at=day(-100)) == [city]


async def test_what_is_told_again_after_its_end_was_told_counts_again(memory: Memory) -> None:
    for number, end in enumerate((None, 2, None, 3, 2, None, None), 1):
        await tell(memory, 2 * number, "Porto", -100, until=end)
        assert await believed(memory) == [("Porto", day(-100), None if end is None else day(end))]


async def test_telling_all_of_it_again_every_day_gathers_nothing(memory: Memory) -> None:
    moves = (("Porto", -100, -50), ("Braga", -50, None), ("Faro", -10, None))
    for number in range(9):
        for city, start, end in moves:
            await tell(memory, number, city, start, until=end)
    assert [len(fact.sources) for fact in await memory.facts.history() if fact.retired_at is None] == [1, 1, 1]


async def test_metadata_of_all_tellings_is_kept(memory: Memory) -> None:
    await tell(memory, 1, "Porto", metadata={"a": 1, "b": 1})
    again = await tell(memory, 2, "Porto", metadata={"b": 2, "c": 3})
    assert again.metadata == {"a": 1, "b": 2, "c": 3}


# What is one thing and what is not


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("likes", "tea"), ("dislikes", "tea")),
        (("likes", "tea"), ("does_not_like", "tea")),
        (("allergic_to", "nuts"), ("not_allergic_to", "nuts")),
        (("eats", "meat"), ("eats", "no meat")),
        (("is", "vegetarian"), ("is", "not vegetarian")),
        (("drinks", "coffee"), ("drinks", "coffee?")),
        (("writes", "C"), ("writes", "C++")),
        (("tolerates", "5 degrees"), ("tolerates", "-5 degrees")),
        (("speaks", "Czech"), ("speaks", "Welsh")),
        (("knows", "Ana"), ("knows", "Anna")),
        (("likes", "resume"), ("likes", "résumé")),
        (("feels", "👍"), ("feels", "👎")),
    ],
)
async def test_opposites_and_look_alikes_are_never_folded(
    memory: Memory, one: tuple[str, str], other: tuple[str, str]
) -> None:
    for number, (predicate, object_) in enumerate((one, other)):
        await tell(memory, number, object_, predicate=predicate)
    facts = await memory.facts.query()
    assert [(fact.predicate, fact.object) for fact in facts] == [one, other]
    assert [len(fact.sources) for fact in facts] == [1, 1]
    assert [fact.valid_until for fact in facts] == [None, None]


@pytest.mark.parametrize(
    ("subject", "predicate", "object_"),
    [
        ("ana lima", "lives_in", "Porto"),
        ("  ANA   LIMA ", "Lives In", "PORTO"),
        ("Ana Lima", "lives-in", "porto."),
        ("Ana Lima", "livesIn", ' "Porto" '),
        ("Ａna Lima", "LIVES_IN", "Ｐorto"),
        ("Ana\u00a0Lima", "resides in", "Por\u0074o"),
    ],
)
async def test_case_spacing_and_width_make_no_other_fact(
    memory: Memory, subject: str, predicate: str, object_: str
) -> None:
    first = await tell(memory, 1, "Porto", subject="Ana Lima")
    again = await tell(memory, 2, object_, subject=subject, predicate=predicate)
    assert again.id == first.id
    assert len(again.sources) == 2
    assert (again.subject, again.predicate, again.object) == ("Ana Lima", "lives_in", "Porto")
    assert await memory.facts.query(subject=subject) == [again]
    assert await memory.facts.query(predicate=predicate) == [again]
    assert await memory.facts.query(object=object_) == [again]


async def test_a_fact_is_stored_as_given(memory: Memory) -> None:
    given = ("  Ana\tLima ", "Likes_TO-drink", " Tea, “strong”!\n 茶 👩‍👩‍👧 ")
    await memory.facts.append(Fact(*given))
    (fact,) = await memory.facts.query()
    assert (fact.subject, fact.predicate, fact.object) == given
    assert fact.text == " ".join(given)


async def test_facts_about_something_else_are_not_touched(memory: Memory) -> None:
    others = [
        Fact("Bo", "lives_in", "Porto"), Fact("Ana", "works_at", "Porto"), Fact("Ana", "likes", "Porto"),
        Fact("Ana", "lived_in", "Porto"), Fact("Ana's sister", "lives_in", "Porto"),
        Fact("Ana", "lives_in", "Porto", user_id="ana"),
    ]  # fmt: skip
    await memory.facts.append(others)
    porto = await tell(memory, 0, "Porto")
    before = [await memory.facts.history(user_id=user) for user in (None, "ana")]
    braga = await tell(memory, 1, "Braga")
    await on(memory, 2).facts.correct(braga, object="Faro")
    await on(memory, 3).facts.retract(porto)
    after = [await memory.facts.history(user_id=user) for user in (None, "ana")]
    mine = {porto.id, braga.id}
    kept = [[fact for fact in facts if fact.id not in mine] for facts in after]
    assert kept == [[fact for fact in facts if fact.id not in mine] for facts in before]
    assert [[fact.sources for fact in facts if fact.id not in mine] for facts in after] == [
        [fact.sources for fact in facts if fact.id not in mine] for facts in before
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("works_at", "works_for"), ("works_for", "works_at"), ("works_at", "employer"), ("is employed at", "workplace"),
        ("lives_in", "moved_to"), ("resides in", "current city"), ("residence", "livesIn"), ("job", "occupation"),
        ("spouse", "married_to"), ("email", "e-mail address"), ("manager", "reports_to"), ("timezone", "Time Zone"),
        ("favorite_color", "favourite_color"), ("my favourite tea is", "my favourite tea is"),
    ],
)  # fmt: skip
async def test_predicates_that_say_the_same_share_one_time_line(memory: Memory, old: str, new: str) -> None:
    memory = Memory(memory.store, embedder=None, single_valued=["my favourite tea is"])
    await tell(memory, 1, "first", predicate=old)
    await tell(memory, 5, "second", predicate=new)
    assert [(fact.predicate, fact.object) for fact in await memory.facts.query()] == [(new, "second")]
    assert [(fact.predicate, fact.object) for fact in await memory.facts.query(predicate=new, valid_at=day(2))] == [
        (old, "first")
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("lives_in", "born_in"), ("job", "employer"), ("email", "phone"), ("favorite_tea", "favorite_color")],
)
async def test_predicates_that_say_something_else_do_not(memory: Memory, old: str, new: str) -> None:
    await tell(memory, 1, "first", predicate=old)
    await tell(memory, 5, "second", predicate=new)
    assert await values(memory) == ["first", "second"]


# Settings


async def told_twice(memory: Memory, predicate: str) -> list[str]:
    """What is true after two values of a predicate were told."""
    await tell(memory, 1, "first", predicate=predicate)
    await tell(memory, 5, "second", predicate=predicate)
    return await values(memory)


@pytest.mark.parametrize("name", ["mentor", "Mentor", " MENTOR "])
async def test_a_predicate_can_be_said_to_hold_one_value(memory: Memory, name: str) -> None:
    assert await told_twice(Memory(memory.store, embedder=None, single_valued=[name]), "mentor") == ["second"]


@pytest.mark.parametrize("name", ["lives_in", "livesIn", "resides in", "MOVED-TO"])
async def test_a_predicate_can_be_said_to_gather_values(memory: Memory, name: str) -> None:
    opened = Memory(memory.store, embedder=None, multi_valued=(name,))
    assert await told_twice(opened, "lives_in") == ["first", "second"]
    assert await told_twice(opened, "works_at") == ["first", "second", "second"]


async def test_a_setting_applies_to_every_change(memory: Memory) -> None:
    opened = Memory(memory.store, embedder=None, single_valued={"mentor"})
    await opened.remember(Episode("x", "", session_id="gone", id="e"))
    await tell(opened, 1, "Cleo", predicate="mentor")
    dana = await tell(opened, 2, "Dana", predicate="mentor")
    await on(opened, 3).facts.retract(dana)
    assert await values(opened) == ["Cleo"]
    eve = await tell(opened, 4, "Eve", predicate="mentor", source_episode_id="e")
    await on(opened, 5).facts.correct(eve, object="Eva")
    assert await values(opened) == ["Eva"]
    await on(opened, 6).forget(user_id=None, session_id="gone")
    assert await values(opened) == ["Cleo"]


@pytest.mark.parametrize("field", ["single_valued", "multi_valued"])
@pytest.mark.parametrize("names", ["mentor", 5, None, [5], [""], ["  "], [None], [b"mentor"]])
def test_a_setting_that_is_no_list_of_predicates_is_refused(field: str, names: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        Memory(SQLiteStore(None), embedder=None, **{field: names})
    with pytest.raises(ConfigError, match=field):
        Memory.open("inmemory", embedder=None, **{field: names})


@pytest.mark.parametrize(("single", "multi"), [("mentor", "Mentor"), ("works_at", "employer")])
def test_a_predicate_in_both_lists_is_refused(single: str, multi: str) -> None:
    with pytest.raises(ConfigError, match="both name"):
        Memory.open("inmemory", single_valued=[single], multi_valued=[multi])


def test_being_the_same_cannot_be_made_to_gather_values() -> None:
    with pytest.raises(ConfigError, match="same_as"):
        Memory.open("inmemory", multi_valued=["Same As"])


# What agents and tools say

OTHERS: tuple[Origin, ...] = ("agent", "tool")


@pytest.mark.parametrize("origin", OTHERS)
@pytest.mark.parametrize("start", [None, -50, 2, 9])
async def test_what_others_say_does_not_end_what_the_user_said(
    memory: Memory, origin: Origin, start: int | None
) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 5, "Braga", start, origin=origin)
    assert await values(memory) == ["Porto"]
    for moment in (-100, -50, 1, 2, 5, 9, 99):
        assert await values(memory, valid_at=day(moment)) == ["Porto"]


@pytest.mark.parametrize("origin", OTHERS)
async def test_what_the_user_says_ends_what_others_said(memory: Memory, origin: Origin) -> None:
    await tell(memory, 1, "Braga", origin=origin)
    assert await values(memory) == ["Braga"]
    await tell(memory, 5, "Porto")
    assert await values(memory) == ["Porto"]
    assert await values(memory, known_at=day(4)) == ["Braga"]


@pytest.mark.parametrize("origin", OTHERS)
async def test_an_end_that_others_tell_does_not_close_what_the_user_said(memory: Memory, origin: Origin) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 5, "Porto", -100, until=3, origin=origin)
    assert await values(memory) == ["Porto"]


@pytest.mark.parametrize("predicate", ["lives_in", "likes"])
@pytest.mark.parametrize("origin", OTHERS)
async def test_an_echo_of_what_the_user_said_changes_nothing(memory: Memory, predicate: str, origin: Origin) -> None:
    await tell(memory, 1, "Porto", predicate=predicate, source_episode_id="e")
    before = await memory.facts.history()
    for number in range(20):
        fields: dict[str, Any] = {"source_episode_id": f"e{number}", "quote": f"So it is Porto ({number})."}
        known = await tell(memory, 2 + number, "PORTO", predicate=predicate, origin=origin, **fields)
        assert [known] == before
    after = await memory.facts.history()
    assert after == before
    assert [tellers(fact) for fact in after] == [["e"]]


async def test_the_user_confirms_later_what_an_agent_said(memory: Memory) -> None:
    assumed = await tell(memory, 1, "Porto", origin="agent", source_episode_id="agent")
    confirmed = await tell(memory, 5, "Porto", source_episode_id="user")
    assert (assumed.origin, confirmed.origin) == ("agent", "user")
    assert await values(memory) == ["Porto"]
    assert await values(memory, valid_at=day(3)) == ["Porto"]
    await tell(memory, 9, "Braga", origin="agent")
    assert await values(memory) == ["Porto"]


async def test_what_an_agent_had_said_counts_again_when_the_user_takes_it_back(memory: Memory) -> None:
    await tell(memory, 1, "Braga", origin="agent")
    porto = await tell(memory, 5, "Porto")
    await on(memory, 9).facts.retract(porto)
    assert await values(memory) == ["Braga"]


async def test_what_an_agent_says_of_another_time_stands_beside_the_user(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -10)
    await tell(memory, 5, "Braga", -100, origin="tool")
    assert await believed(memory) == [("Braga", day(-100), day(-10)), ("Porto", day(-10), None)]


@pytest.mark.parametrize("origin", ["assistant", "USER", "", None, 1])
def test_an_unknown_origin_is_refused(origin: Any) -> None:
    with pytest.raises(ConfigError, match="origin"):
        Fact("Ana", "likes", "tea", origin=origin)


# Corrections

CORRECTIONS: Mapping[str, Any] = {
    "subject": "Bo", "predicate": "visited", "object": "Braga", "valid_from": day(-50), "valid_until": day(-20),
    "confidence": 0.25, "metadata": {"b": [1, None]}, "origin": "tool", "quote": "I meant that", "told_at": day(-3),
    "source_episode_id": "other",
}  # fmt: skip
CLEARED: Mapping[str, Any] = {
    "valid_from": None, "valid_until": None, "metadata": {}, "quote": None, "source_episode_id": None,
}  # fmt: skip


async def tell_in_full(memory: Memory) -> Fact:
    """A fact of which every field is set."""
    return await tell(
        memory, 1, "Porto", -100, until=50, confidence=0.75, metadata={"a": 1}, quote="I live in Porto",
        source_episode_id="e", told_at=day(-1),
    )  # fmt: skip


FIELDS = (*CORRECTIONS, "id")


def fields_of(fact: Fact) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in FIELDS}


@pytest.mark.parametrize(
    ("field", "value"), [*CORRECTIONS.items(), *CLEARED.items()], ids=lambda value: str(value)[:20]
)
async def test_a_corrected_field_changes_and_the_others_stay(memory: Memory, field: str, value: Any) -> None:
    old = await tell_in_full(memory)
    new = await on(memory, 5).facts.correct(old, **{field: value})
    assert fields_of(new) == fields_of(old) | {field: value}
    assert (new.recorded_at, new.retired_at) == (day(5), None)
    first, last = await memory.facts.history()
    assert (fields_of(first), first.retired_at) == (fields_of(old), day(5))
    assert last == new
    assert [(source.quote, source.episode_id, source.origin) for source in new.sources] == [
        (new.quote, new.source_episode_id, new.origin)
    ]


async def test_several_fields_are_corrected_at_once_by_id(memory: Memory) -> None:
    told = await memory.facts.append(Fact("Ana", "likes", "tee", user_id="ana"))
    assert told.id is not None
    new = await on(memory, 5).facts.correct(told.id, user_id="ana", object="tea", confidence=0.5)
    assert (new.id, new.object, new.confidence, new.user_id) == (told.id, "tea", 0.5, "ana")
    assert [fact.object for fact in await memory.facts.query(user_id="ana")] == ["tea"]


@pytest.mark.parametrize("field", ["id", "recorded_at", "retired_at", "sources", "text", "objekt", ""])
async def test_a_field_that_cannot_be_corrected_is_refused(memory: Memory, field: str) -> None:
    old = await tell_in_full(memory)
    wrong: dict[str, Any] = {field: "x"}
    with pytest.raises(ConfigError, match=f"no field '{field}'"):
        await memory.facts.correct(old, **wrong)
    assert await memory.facts.history() == [old]


@pytest.mark.parametrize(
    "fields",
    [
        {"object": " "}, {"object": None}, {"confidence": 2}, {"valid_from": "2020"}, {"origin": "nobody"},
        {"valid_from": day(60)}, {"valid_until": day(-101)}, {"metadata": {"x": object()}}, {"quote": 5},
    ],
    ids=str,
)  # fmt: skip
async def test_a_field_of_the_wrong_form_is_refused_and_nothing_is_written(
    memory: Memory, fields: Mapping[str, Any]
) -> None:
    old = await tell_in_full(memory)
    with pytest.raises(ConfigError):
        await memory.facts.correct(old, **fields)
    assert await memory.facts.history() == [old]


async def test_a_fact_that_is_not_believed_cannot_be_corrected(memory: Memory) -> None:
    tea = await tell(memory, 1, "tea", predicate="likes")
    assert tea.id is not None
    for fact_id, user in (("unknown", None), (tea.id, "bo")):
        with pytest.raises(ConfigError, match="believed"):
            await memory.facts.correct(fact_id, user_id=user, object="oats")
    await memory.facts.retract(tea)
    with pytest.raises(ConfigError, match="believed"):
        await memory.facts.correct(tea, object="oats")
    with pytest.raises(ConfigError, match="stored"):
        await memory.facts.correct(Fact("Ana", "likes", "tea"), object="oats")
    assert len(await memory.facts.history()) == 1


async def test_a_correction_that_changes_nothing_writes_nothing(memory: Memory) -> None:
    old = await tell_in_full(memory)
    assert await on(memory, 5).facts.correct(old) == old
    assert await on(memory, 6).facts.correct(old, object="Porto", confidence=0.75) == old
    assert await memory.facts.history() == [old]


async def test_a_corrected_value_is_meant_for_the_time_of_the_first(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 3, "Brga")
    await tell(memory, 9, "Faro")
    await on(memory, 12).facts.correct(braga, object="Braga")
    assert await believed(memory) == [
        ("Porto", day(-100), day(3)), ("Braga", day(3), day(9)), ("Faro", day(9), None),
    ]  # fmt: skip
    assert await values(memory, valid_at=day(5), known_at=day(11)) == ["Brga"]


@pytest.mark.parametrize("change", [{"subject": "Bo"}, {"predicate": "visited"}, {"predicate": "likes"}], ids=str)
async def test_a_fact_corrected_into_something_else_opens_what_it_had_ended(
    memory: Memory, change: Mapping[str, str]
) -> None:
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 3, "Braga", 2)
    new = await on(memory, 9).facts.correct(braga, **change)
    assert (new.object, new.valid_from, new.valid_until) == ("Braga", day(2), None)
    assert await values(memory, subject="Ana", predicate="lives_in") == ["Porto"]
    assert await believed(memory) == [("Porto", day(-100), None), ("Braga", day(2), None)]


async def test_a_fact_corrected_into_another_thing_takes_its_place_there(memory: Memory) -> None:
    await tell(memory, 1, "Faro", -100, subject="Bo")
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 3, "Braga", 2)
    await on(memory, 9).facts.correct(braga, subject="Bo")
    assert await values(memory, subject="Bo") == ["Braga"]
    assert await values(memory, subject="Bo", valid_at=day(1)) == ["Faro"]
    assert await values(memory, subject="Ana") == ["Porto"]
    back = await on(memory, 12).facts.correct(braga, subject="Ana")
    assert back.id == braga.id
    assert await values(memory, subject="Bo") == ["Faro"]
    assert await values(memory, subject="Ana") == ["Braga"]


async def test_a_fact_can_be_corrected_twice(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 3, "Brga", 2)
    once = await on(memory, 5).facts.correct(braga, object="Braga")
    twice = await on(memory, 7).facts.correct(once, valid_from=day(-30))
    assert (twice.id, twice.object, twice.valid_from) == (braga.id, "Braga", day(-30))
    assert await believed(memory) == [("Porto", day(-100), day(-30)), ("Braga", day(-30), None)]
    row = [await values(memory, valid_at=day(-10), known_at=day(known)) for known in (3, 5, 7)]
    assert row == [["Porto"], ["Porto"], ["Braga"]]
    assert [fact.object for fact in await memory.facts.history() if fact.id == braga.id] == ["Brga", "Braga", "Braga"]


@pytest.mark.parametrize("start", [-120, -50, -10])
async def test_the_start_of_a_past_value_is_corrected_without_touching_its_end(memory: Memory, start: int) -> None:
    porto = await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "Braga", 0)
    await on(memory, 5).facts.correct(porto, valid_from=day(start))
    assert await believed(memory) == [("Porto", day(start), day(0)), ("Braga", day(0), None)]


async def test_a_past_value_can_be_corrected_to_follow_the_one_that_had_ended_it(memory: Memory) -> None:
    porto = await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "Braga", -50)
    await on(memory, 5).facts.correct(porto, valid_from=day(-10))
    assert await believed(memory) == [("Braga", day(-50), day(-10)), ("Porto", day(-10), None)]


async def test_the_end_that_follows_from_another_value_is_no_part_of_a_correction(memory: Memory) -> None:
    porto = await tell(memory, 1, "Porto", -100)
    braga = await tell(memory, 2, "Braga", -50)
    await on(memory, 5).facts.correct(porto, object="Faro")
    await on(memory, 6).facts.retract(braga)
    assert await believed(memory) == [("Faro", day(-100), None)]


# Merging


async def test_merged_facts_become_facts_of_the_other_with_their_sources(memory: Memory) -> None:
    tea = await tell(memory, 1, "tea", -100, predicate="likes", source_episode_id="e", quote="I like tea")
    (given,) = await on(memory, 5).facts.merge("Ana", "ana@example.org")
    assert (given.subject, given.object, given.id) == ("ana@example.org", "tea", tea.id)
    assert (given.valid_from, given.recorded_at, given.quote) == (day(-100), day(5), "I like tea")
    assert given.sources == tea.sources
    assert [fact.text for fact in await memory.facts.query()] == [
        "ana@example.org likes tea", "Ana same_as ana@example.org",
    ]  # fmt: skip
    first, *_ = await memory.facts.history("Ana")
    assert (first.text, first.retired_at) == ("Ana likes tea", day(5))


async def test_a_name_leads_to_all_that_is_known_of_the_subject(memory: Memory) -> None:
    await tell(memory, 1, "tea", predicate="likes")
    await tell(memory, 1, "rye", predicate="likes", subject="Ana Lima")
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    for name in ("Ana", " ANA", "Ana Lima"):
        assert await values(memory, subject=name, predicate="likes") == ["rye", "tea"]
        assert await values(memory, subject=name, predicate="likes", object="tea") == ["tea"]


async def test_what_is_told_under_the_old_name_is_told_of_the_subject(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    braga = await tell(memory, 9, "Braga", 9, subject="ANA")
    assert braga.subject == "Ana Lima"
    assert await values(memory, subject="Ana Lima", predicate="lives_in") == ["Braga"]
    assert await values(memory, subject="Ana", predicate="lives_in", valid_at=day(8)) == ["Porto"]


async def test_conflicting_values_are_placed_on_one_time_line(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "Braga", -10)
    await tell(memory, 3, "Faro", -50, subject="Ana Lima")
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    cities = [span for span in await believed(memory) if span[0] != "Ana Lima"]
    assert cities == [("Porto", day(-100), day(-50)), ("Faro", day(-50), day(-10)), ("Braga", day(-10), None)]
    assert await values(memory, predicate="lives_in", known_at=day(4)) == ["Braga", "Faro"]


async def test_one_value_known_of_both_becomes_one_fact(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100, source_episode_id="a")
    await tell(memory, 2, "porto", -100, source_episode_id="b", subject="Ana Lima")
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    (porto,) = await memory.facts.query(predicate="lives_in")
    assert (porto.subject, tellers(porto)) == ("Ana Lima", ["a", "b"])


async def test_what_was_known_before_a_merge_is_known_apart(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "Faro", -50, subject="Ana Lima")
    before = {name: await memory.facts.query(subject=name) for name in ("Ana", "Ana Lima")}
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    for name, facts in before.items():
        found = await memory.facts.query(subject=name, known_at=day(4), valid_at=day(4))
        assert [(fact.text, fact.id, fact.valid_until) for fact in found] == [
            (fact.text, fact.id, None) for fact in facts
        ]


async def test_the_history_of_a_name_is_that_of_the_subject_too(memory: Memory) -> None:
    await tell(memory, 1, "Porto", -100)
    await tell(memory, 2, "tea", predicate="likes", subject="Ana Lima")
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    history = await memory.facts.history("Ana")
    assert [(fact.text, fact.recorded_at) for fact in history] == [
        ("Ana lives_in Porto", day(1)), ("Ana Lima likes tea", day(2)), ("Ana same_as Ana Lima", day(5)),
        ("Ana Lima lives_in Porto", day(5)),
    ]  # fmt: skip


async def test_merges_can_be_chained(memory: Memory) -> None:
    for number, name in enumerate(("A", "B", "C"), 1):
        await tell(memory, number, f"of {name}", predicate="likes", subject=name)
    await on(memory, 5).facts.merge("A", "B")
    await on(memory, 6).facts.merge("B", "C")
    await tell(memory, 7, "later", predicate="likes", subject="A")
    for name in ("A", "B", "C"):
        assert await values(memory, subject=name, predicate="likes") == ["later", "of A", "of B", "of C"]
    assert {fact.subject for fact in await memory.facts.query(predicate="likes")} == {"C"}
    assert await values(memory, subject="A", predicate="likes", known_at=day(5), valid_at=day(5)) == ["of A", "of B"]


@pytest.mark.parametrize(("subject", "into"), [("A", "C"), ("D", "A"), ("D", "B"), ("A", "D")])
async def test_a_merge_under_an_old_name_is_one_of_the_subject(memory: Memory, subject: str, into: str) -> None:
    for number, name in enumerate(("A", "B", "C", "D"), 1):
        await tell(memory, number, f"of {name}", predicate="likes", subject=name)
    await on(memory, 5).facts.merge("A", "B")
    await on(memory, 6).facts.merge(subject, into)
    joined = sorted(f"of {name}" for name in {"A", "B", subject, into})
    for name in {"A", "B", subject, into}:
        assert await values(memory, subject=name, predicate="likes") == joined
    assert len({fact.subject for fact in await memory.facts.query(predicate="likes", object=f"of {subject}")}) == 1


@pytest.mark.parametrize(
    ("subject", "into"), [("B", "A"), ("A", "B"), ("a ", " b"), ("A", "A"), ("C", "A"), ("C", "C")]
)
async def test_what_is_one_already_is_not_merged_again(memory: Memory, subject: str, into: str) -> None:
    for name in ("A", "B", "C"):
        await tell(memory, 1, f"of {name}", predicate="likes", subject=name)
    await on(memory, 5).facts.merge("A", "B")
    await on(memory, 6).facts.merge("B", "C")
    before = await memory.facts.history()
    with pytest.raises(ConfigError, match="the same as"):
        await on(memory, 9).facts.merge(subject, into)
    assert await memory.facts.history() == before


@pytest.mark.parametrize(("subject", "into"), [("", "B"), ("A", "  "), (None, "B"), ("A", 5)])
async def test_blank_names_are_not_merged(memory: Memory, subject: Any, into: Any) -> None:
    with pytest.raises(ConfigError):
        await memory.facts.merge(subject, into)
    assert await memory.facts.history() == []


async def test_a_ring_of_names_that_was_told_by_hand_ends_every_question(memory: Memory) -> None:
    for number, (one, other) in enumerate((("A", "B"), ("B", "C"), ("C", "A")), 1):
        await tell(memory, number, other, predicate="same_as", subject=one)
    await tell(memory, 5, "tea", predicate="likes", subject="A")
    for name in ("A", "B", "C"):
        assert await values(memory, subject=name, predicate="likes") == ["tea"]


async def test_retracting_the_merge_keeps_apart_what_is_told_later(memory: Memory) -> None:
    await tell(memory, 1, "tea", predicate="likes")
    await on(memory, 5).facts.merge("Ana", "Ana Lima")
    (same,) = await memory.facts.query(predicate="same_as")
    assert await on(memory, 9).facts.retract(same)
    later = await tell(memory, 12, "rye", predicate="likes")
    assert later.subject == "Ana"
    assert await values(memory, subject="Ana") == ["rye"]
    assert await values(memory, subject="Ana Lima") == ["tea"]
    assert await values(memory, subject="Ana", predicate="likes", known_at=day(8)) == ["tea"]


async def test_a_merge_within_one_memory_is_none_in_another(memory: Memory) -> None:
    await memory.facts.append([Fact("Ana", "likes", "tea", user_id=user) for user in ("ana", "bo", None)])
    await on(memory, 5).facts.merge("Ana", "Ana Lima", user_id="ana")
    for user in ("bo", None):
        assert [fact.text for fact in await memory.facts.query(user_id=user)] == ["Ana likes tea"]
        told = await memory.facts.append(Fact("Ana", "likes", "rye", user_id=user))
        assert told.subject == "Ana"


async def test_merging_a_name_that_nothing_is_known_of_serves_what_is_told_later(memory: Memory) -> None:
    assert await memory.facts.merge("Ana", "Ana Lima") == []
    await tell(memory, 5, "tea", predicate="likes")
    assert [fact.text for fact in await memory.facts.query(subject="Ana Lima")] == ["Ana Lima likes tea"]


# Vectors


def by_length(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


@pytest.fixture
def embedding(clock: ManualClock, memory: Memory) -> Memory:
    """A memory that embeds."""
    return Memory(memory.store, embedder=by_length)


async def test_every_change_leaves_every_fact_with_a_vector(embedding: Memory) -> None:
    await tell(embedding, 1, "Porto")
    braga = await tell(embedding, 2, "Braga")
    await tell(embedding, 3, "PORTO", subject="ana", source_episode_id="e")
    await on(embedding, 4).facts.correct(braga, object="Bragança", subject="Bo")
    await on(embedding, 5).facts.merge("Ana", "Ana Lima")
    await tell(embedding, 6, "Faro")
    await on(embedding, 7).facts.correct(braga, subject="ANA")
    await on(embedding, 8).facts.merge("Ana", "A. Lima")
    await on(embedding, 9).facts.merge("Cleo", "Ana")
    await on(embedding, 10).facts.retract(braga)
    assert (await embedding.stats()).unembedded == 0


async def test_a_fact_told_again_while_the_embedder_fails_keeps_its_vector(embedding: Memory) -> None:
    def failing(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError

    failing.__name__, failing.__qualname__ = by_length.__name__, by_length.__qualname__
    await tell(embedding, 1, "Porto")
    other = Memory(embedding.store, embedder=failing)
    await tell(other, 5, "Porto", source_episode_id="e")
    assert [tellers(fact) for fact in await embedding.facts.query()] == [[None, "e"]]
    assert (await embedding.stats()).unembedded == 0


# Export and import


async def copied(memory: Memory) -> Memory:
    """A fresh memory with all that this one exports, at the same moment."""
    copy = Memory(SQLiteStore(None, clock=memory.store.clock), embedder=None)
    exported = json.loads(json.dumps(await memory.export(None)))
    await copy.import_(exported)
    assert await copy.export(None) == exported
    return copy


async def everything(memory: Memory) -> list[tuple[Fact, tuple[Source, ...]]]:
    return [(fact, fact.sources) for fact in await memory.facts.history()]


async def tell_it_all(memory: Memory) -> list[Fact]:
    """Facts told again, corrected, merged, by several, with quotes."""
    await memory.remember(Episode("x", "y", session_id="s", id="e", occurred_at=day(0)))
    await tell(memory, 1, "Porto", -100, source_episode_id="e", quote="in Porto")
    await tell(memory, 2, "Porto", -100, source_episode_id="other", quote="still in Porto")
    await tell(memory, 3, "Braga", -10, origin="agent")
    await tell(memory, 4, "Faro", -50, source_episode_id="e", confidence=0.5)
    await tell(memory, 5, "tea", predicate="likes", told_at=day(-5), metadata={"k": [1]})
    await tell(memory, 6, "rye", predicate="likes", subject="Ana Lima")
    await on(memory, 7).facts.merge("Ana", "Ana Lima")
    on(memory, 9)
    return [fact for fact in await memory.facts.history() if fact.retired_at is None]


async def test_an_import_has_every_telling(memory: Memory) -> None:
    await tell_it_all(memory)
    copy = await copied(memory)
    assert await everything(copy) == await everything(memory)
    assert any(len(fact.sources) == 2 for fact in await copy.facts.history())


@pytest.mark.parametrize("place", range(6))
async def test_what_is_retracted_after_an_import_leaves_what_it_leaves_here(memory: Memory, place: int) -> None:
    facts = await tell_it_all(memory)
    assert len(facts) == 6
    copy = await copied(memory)
    for one in (memory, copy):
        assert await on(one, 12).facts.retract(facts[place])
    assert await everything(copy) == await everything(memory)


@pytest.mark.parametrize("place", range(6))
async def test_what_is_corrected_after_an_import_becomes_what_it_becomes_here(memory: Memory, place: int) -> None:
    facts = await tell_it_all(memory)
    copy = await copied(memory)
    for one in (memory, copy):
        await on(one, 12).facts.correct(facts[place], subject="Bo", valid_from=day(-70))
        await on(one, 13).facts.retract(facts[place])
    assert await everything(copy) == await everything(memory)


async def test_what_is_told_and_forgotten_after_an_import_leaves_what_it_leaves_here(memory: Memory) -> None:
    await tell_it_all(memory)
    copy = await copied(memory)
    for one in (memory, copy):
        await tell(one, 12, "Lagos", -30, id="lagos")
        assert (await on(one, 13).forget(user_id=None, session_id="s")).episodes == 1
    assert await everything(copy) == await everything(memory)
    assert all("e" not in tellers(fact) for fact in await memory.facts.history())


async def test_an_import_into_a_memory_that_went_its_own_way_leaves_one_value(still_memory: Memory) -> None:
    async with Memory(SQLiteStore(None), embedder=None) as other:
        await other.facts.append(Fact("Ana", "lives_in", "Porto", valid_from=datetime(2020, 1, 1, tzinfo=UTC)))
        await still_memory.import_(await other.export(None))
        await other.facts.append(Fact("Ana", "lives_in", "Braga", valid_from=datetime(2024, 1, 1, tzinfo=UTC)))
        await still_memory.facts.append(Fact("Ana", "lives_in", "Faro", valid_from=datetime(2022, 1, 1, tzinfo=UTC)))
        exported = await other.export(None)
    await still_memory.import_(exported)
    believed = [fact for fact in await still_memory.facts.history() if fact.retired_at is None]
    spans = sorted((fact.object, fact.valid_from and fact.valid_from.year, fact.valid_until and fact.valid_until.year)
                   for fact in believed)  # fmt: skip
    assert spans == [("Braga", 2024, None), ("Faro", 2022, 2024), ("Porto", 2020, 2022)]
    versions = len(await still_memory.facts.history())
    assert (await still_memory.import_(exported)).facts == 0
    assert len(await still_memory.facts.history()) == versions


async def test_of_a_forgotten_telling_nothing_stays_that_came_with_it(still_memory: Memory) -> None:
    for session in ("gone", "kept"):
        await still_memory.remember(Episode("x", "y", session_id=session, id=f"e-{session}"))
        metadata = {session: True}
        await still_memory.facts.append(
            Fact("Ana", "likes", "tea", source_episode_id=f"e-{session}", metadata=metadata, quote=f"quote {session}")
        )
    await still_memory.forget(user_id=None, session_id="gone")
    history = await still_memory.facts.history()
    assert all(fact.metadata == {"kept": True} and fact.quote == "quote kept" for fact in history)
    assert all(source.metadata == {"kept": True} for fact in history for source in fact.sources)


async def test_many_tellings_keep_the_first_and_the_last(still_memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomflow.bitemporal.MAX_SOURCES", 32)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(50):
        at = start + timedelta(days=number)
        await still_memory.facts.append(Fact("Ana", "likes", "tea", told_at=at, recorded_at=at, id=f"f{number}"))
    (tea,) = await still_memory.facts.query()
    ids = [source.id for source in tea.sources]
    assert 31 <= len(ids) <= 32
    assert ids == ["f0", *(f"f{number}" for number in range(51 - len(ids), 50))]


# What a newcomer found


def gym(**fields: Any) -> Fact:
    return Fact("user", "member_of", "gym", **fields)


@pytest.mark.parametrize("origin", ["agent", "tool", "user"])
async def test_words_of_a_conversation_rename_nobody(still_memory: Memory, origin: Origin) -> None:
    await still_memory.facts.append(Fact("user", "same_as", "Maria", origin=origin, quote="the user is Maria"))
    tea = await still_memory.facts.append(Fact("user", "likes", "tea"))
    assert tea.text == "user likes tea"
    assert [fact.object for fact in await still_memory.facts.query(subject="Maria")] == []
    assert (await still_memory.store.names(None)).same_as == {}


async def test_a_fact_told_in_many_sessions_stays_until_the_last_is_forgotten(still_memory: Memory) -> None:
    for number in range(40):
        await still_memory.remember(Episode("I live in Porto", "ok", session_id=f"s{number}", id=f"e{number}"))
        await still_memory.facts.append(Fact("user", "lives_in", "Porto", source_episode_id=f"e{number}"))
    for number in [0, *range(9, 40)]:
        await still_memory.forget(user_id=None, session_id=f"s{number}")
    (porto,) = await still_memory.facts.query()
    assert [source.episode_id for source in porto.sources] == [f"e{number}" for number in range(1, 9)]
    for number in range(1, 9):
        await still_memory.forget(user_id=None, session_id=f"s{number}")
    assert await still_memory.facts.history() == []


@pytest.mark.parametrize("end_first", [True, False])
async def test_many_tellings_do_not_make_order_matter(end_first: bool) -> None:
    start = datetime(2022, 1, 1, tzinfo=UTC)
    end = gym(valid_until=datetime(2021, 1, 1, tzinfo=UTC), told_at=datetime(2021, 6, 1, tzinfo=UTC))
    told = [gym(valid_from=datetime(2015, 1, 1, tzinfo=UTC), told_at=datetime(2016, 1, 1, tzinfo=UTC))]
    told += [gym(told_at=start + timedelta(days=30 * number)) for number in range(40)]
    async with Memory(SQLiteStore(None), embedder=None) as memory:
        await memory.facts.append([end, *told] if end_first else [*told, end])
        believed = [fact for fact in await memory.facts.history() if fact.retired_at is None]
    spans = [
        (fact.valid_from and fact.valid_from.year, fact.valid_until and fact.valid_until.year) for fact in believed
    ]
    assert sorted(spans, key=str) == [(2015, 2021), (2022, None)]
    assert start in {fact.valid_from for fact in believed}


async def test_a_fact_told_every_day_does_not_copy_all_its_tellings(still_memory: Memory) -> None:
    for number in range(200):
        await still_memory.facts.append(Fact("user", "lives_in", "Porto", quote=f"I live in Porto, {number}"))
    history = await still_memory.facts.history()
    assert sum(len(fact.sources) for fact in history) < 3 * 200


async def test_what_is_told_at_one_moment_counts_in_its_order(still_memory: Memory) -> None:
    await still_memory.facts.append(Fact("user", "lives_in", "Porto", valid_from=datetime(2020, 1, 1, tzinfo=UTC)))
    await still_memory.facts.append(Fact("user", "lives_in", "Braga"))
    assert [fact.object for fact in await still_memory.facts.query()] == ["Braga"]


async def test_a_fact_of_another_user_is_not_meant(still_memory: Memory) -> None:
    tea = await still_memory.facts.append(Fact("user", "likes", "tea", user_id="ana"))
    with pytest.raises(ConfigError, match="user_id must be that of the fact, 'ana', got 'bo'"):
        await still_memory.facts.retract(tea, user_id="bo")
    with pytest.raises(ConfigError, match="user_id"):
        await still_memory.facts.correct(tea, user_id="bo", object="mate")
    assert await still_memory.facts.query(user_id="ana") == [tea]
