"""Moments: any zone in, UTC out; what is true now and what is not; late news; ages that odd clocks cannot break."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from loomflow import Episode, Fact, Memory, Tuning

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DECAYING = Tuning(memory_token_budget=2000, memory_decay_half_life_days=30)
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder=None) as memory:
        memory.store.clock = lambda: NOW
        yield memory


def hours(offset: float) -> timezone:
    return timezone(timedelta(hours=offset))


# Naive, aware, any offset


@pytest.mark.parametrize("first", [None, UTC, hours(5.75), hours(-11)])
@pytest.mark.parametrize("second", [None, UTC, hours(14)])
@pytest.mark.parametrize("late", [False, True])
async def test_naive_and_aware_moments_mix(
    memory: Memory, first: timezone | None, second: timezone | None, late: bool
) -> None:
    facts = [
        Fact("Ana", "lives_in", "Porto", valid_from=datetime(2024, 1, 10, tzinfo=first)),
        Fact("Ana", "lives_in", "Braga", valid_from=datetime(2025, 6, 1, 12, tzinfo=second)),
    ]
    for fact in reversed(facts) if late else facts:
        await memory.facts.append(fact)
    change = datetime(2025, 6, 1, 12, tzinfo=second or UTC)
    (porto,) = await memory.facts.query(valid_at=change - timedelta(microseconds=1))
    (braga,) = await memory.facts.query()
    assert (porto.object, porto.valid_until) == ("Porto", change)
    assert (braga.object, braga.valid_from, braga.valid_until) == ("Braga", change, None)
    for fact in await memory.facts.history():
        for moment in (fact.valid_from, fact.valid_until, fact.recorded_at, fact.retired_at):
            assert moment is None or moment.tzinfo is UTC


@pytest.mark.parametrize("bound", [datetime(2026, 4, 2, 18, 30), datetime(2026, 4, 3, 0, 30, tzinfo=hours(6))])
async def test_moments_are_compared_as_moments_and_not_as_text(memory: Memory, bound: datetime) -> None:
    await memory.remember(
        [
            Episode("ferry early", "", session_id="s", occurred_at=datetime(2026, 4, 2, 21, 10, tzinfo=hours(3))),
            Episode("ferry late", "", session_id="s", occurred_at=datetime(2026, 4, 2, 18, 45, tzinfo=UTC)),
            Episode("ferry latest", "", session_id="s", occurred_at=datetime(2026, 4, 2, 9, 0, tzinfo=hours(-11))),
        ]
    )
    assert "ferry early" in (await memory.inject("ferry", at=bound)).text
    assert "late" not in (await memory.inject("ferry", at=bound)).text
    assert (await memory.forget(user_id=None, before=bound)).episodes == 1
    assert {episode.input for episode in await memory.recall("ferry")} == {"ferry late", "ferry latest"}


async def test_age_counts_the_same_in_every_offset(memory: Memory) -> None:
    moment = datetime(2026, 4, 1, 3, tzinfo=UTC)
    for offset in (0, 5.5, -8, 14):
        told = moment.astimezone(hours(offset))
        await memory.remember(Episode(f"ferry {offset}", "", session_id="s", occurred_at=told))
    decays = {item.decay for item in (await memory.inject("ferry", tuning=DECAYING)).items}
    assert len(decays) == 1


ROUND_TRIP = """
import asyncio, sys
from datetime import datetime, timedelta
from loomflow import Episode, Fact, Memory, Tuning

async def main():
    texts = sys.argv[2].split()
    moments = [datetime.fromisoformat(text) for text in texts]
    for _ in range(2):
        async with Memory.open(sys.argv[1], embedder=None) as memory:
            stored = await memory.store.episodes(None)
            facts = await memory.facts.history()
            if not stored:
                for number, moment in enumerate(moments):
                    await memory.remember(Episode("ferry", "", session_id="s", id=str(number), occurred_at=moment))
                    await memory.facts.append(
                        Fact("ferry", f"sails {number}", "x", valid_from=moment, recorded_at=moment))
    print([episode.occurred_at.isoformat() for episode in stored])
    print([(fact.valid_from.isoformat(), fact.recorded_at.isoformat()) for fact in facts])
    async with Memory.open(sys.argv[1], embedder=None) as memory:
        tuning = Tuning(memory_token_budget=4000, memory_decay_half_life_days=30)
        injection = await memory.inject("ferry", at=datetime(2026, 12, 1, 12), tuning=tuning)
        print([(item.id, item.kind, item.decay) for item in injection.items if item.kind == "episode"])

asyncio.run(main())
"""


def run_in_zone(zone: str, path: Path, moments: Sequence[str]) -> str:
    environment = os.environ | {"TZ": zone}
    command = [sys.executable, "-c", ROUND_TRIP, str(path), " ".join(moments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_zone_of_the_machine_changes_nothing(tmp_path: Path) -> None:
    # Among them the hours that a clock change skips or repeats in New York, Lord Howe and Berlin.
    moments = [
        "2026-07-14T09:20:00", "2026-03-08T02:30:00", "2026-03-08T07:30:00+00:00", "2026-11-01T01:30:00",
        "2026-11-01T06:30:00+00:00", "2026-03-29T02:30:00", "2026-04-05T01:45:00+10:30", "1969-12-31T23:59:59.999999",
    ]  # fmt: skip
    as_utc = [
        datetime.fromisoformat(moment).replace(tzinfo=UTC) if "+" not in moment else datetime.fromisoformat(moment)
        for moment in moments
    ]
    zones = ("UTC", "America/New_York", "Australia/Lord_Howe")
    outputs = [run_in_zone(zone, tmp_path / f"{number}.db", moments) for number, zone in enumerate(zones)]
    assert outputs[0].splitlines()[0] == str([moment.astimezone(UTC).isoformat() for moment in as_utc])
    assert len(set(outputs)) == 1


# Now true


async def test_of_a_chain_of_values_only_the_last_is_injected(memory: Memory) -> None:
    names = ["Acorn", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo"]
    for number, name in enumerate(names):
        await memory.facts.append(Fact("user", "works_at", name, valid_from=datetime(2019 + number, 1, 1)))
    for tuning in (None, Tuning(memory_token_budget=60), DECAYING):
        text = (await memory.inject("where does the user work", tuning=tuning)).text
        assert [name for name in names if name in text] == ["Ginkgo"]
    assert [fact.object for fact in await memory.facts.query(valid_at=datetime(2021, 6, 1))] == ["Cedar"]
    assert {fact.object for fact in await memory.facts.history("user", "works at")} == set(names)


async def test_ended_values_take_no_place_from_true_ones(memory: Memory) -> None:
    for number in range(60):
        start = datetime(2020, 1, 1) + timedelta(days=number)
        await memory.facts.append(
            Fact(
                "user",
                "works at the harbour",
                f"pier {number}",
                valid_from=start,
                valid_until=start + timedelta(days=1),
            )
        )
    await memory.facts.append(Fact("user", "once saw", "a harbour from afar on a long trip through the north"))
    assert [fact.object[:9] for fact in await memory.recall_facts("user works at the harbour")] == ["a harbour"]


@pytest.mark.parametrize(
    ("start", "end", "is_true"),
    [
        (None, None, True),
        (-120, None, True),
        (-120, 245, True),
        (0, None, True),
        (0, 1, True),
        (123, None, False),
        (1, 2, False),
        (-30, 0, False),
        (-30, -1, False),
        (None, 245, True),
        (None, 0, False),
    ],
)
async def test_a_fact_is_true_from_its_start_until_before_its_end(
    memory: Memory, start: int | None, end: int | None, is_true: bool
) -> None:
    await memory.facts.append(
        Fact(
            "Ana", "attends", "gym",
            valid_from=None if start is None else NOW + timedelta(days=start),
            valid_until=None if end is None else NOW + timedelta(days=end),
        )
    )  # fmt: skip
    assert bool(await memory.facts.query()) is is_true
    assert bool(await memory.recall_facts("gym")) is is_true
    assert ("gym" in (await memory.inject("gym")).text) is is_true
    assert ("gym" in (await memory.inject("gym", at=NOW)).text) is is_true


async def test_the_end_that_is_planned_is_shown_with_a_true_fact(memory: Memory) -> None:
    await memory.facts.append(Fact("Ana", "attends", "gym", valid_until=datetime(2027, 1, 1)))
    assert "until 2027-01-01" in (await memory.inject("gym")).text


# News about something else, and late news


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("Ines", "manages", "night shift"), ("Ines", "administers", "the web server")),
        (("Ines", "works_at", "Aldgate"), ("Ines", "administers", "Aldgate web server")),
        (("Ines", "likes", "tea"), ("Ines", "likes", "coffee")),
        (("Ines", "speaks", "Czech"), ("Ines", "speaks", "Welsh")),
        (("Ines", "allergic_to", "nuts"), ("Ines", "allergic to", "shellfish")),
        (("Ines", "lives_in", "Leon"), ("Ines's sister", "lives_in", "Ghent")),
        (("Ines", "lives_in", "Leon"), ("Ines", "lived_in", "Ghent")),
        (("Ines", "email", "t@a.example"), ("Ines", "phone", "555")),
    ],
)
async def test_a_new_fact_ends_no_fact_about_something_else(
    memory: Memory, old: tuple[str, str, str], new: tuple[str, str, str]
) -> None:
    await memory.facts.append([Fact(*old), Fact(*new)])
    open_facts = await memory.facts.query()
    assert {(fact.subject, fact.predicate, fact.object) for fact in open_facts} == {old, new}
    assert all(fact.valid_until is None for fact in open_facts)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2)])
async def test_late_news_of_the_past_takes_its_place_in_the_past(memory: Memory, order: Sequence[int]) -> None:
    values = [("Quay Street", 2022), ("High Street", 2024), ("Mill Road", 2026)]
    for day, index in enumerate(order):
        name, year = values[index]
        memory.store.clock = lambda day=day: NOW + timedelta(days=day)
        await memory.facts.append(Fact("user", "works at", name, valid_from=datetime(year, 2, 1)))
    (current,) = await memory.facts.query()
    assert current.object == "Mill Road"
    spans = {
        fact.object: (fact.valid_from and fact.valid_from.year, fact.valid_until and fact.valid_until.year)
        for fact in await memory.facts.history()
        if fact.retired_at is None
    }
    assert spans == {"Quay Street": (2022, 2024), "High Street": (2024, 2026), "Mill Road": (2026, None)}
    told = {fact.object: fact.recorded_at for fact in reversed(await memory.facts.history())}
    assert told == {values[index][0]: NOW + timedelta(days=day) for day, index in enumerate(order)}


# Ages


@pytest.mark.parametrize(
    "moment", [NOW, NOW + timedelta(microseconds=1), NOW + timedelta(days=100), NOW + timedelta(days=365_000), LAST]
)
async def test_what_is_dated_now_or_later_counts_in_full_and_no_more(memory: Memory, moment: datetime) -> None:
    await memory.facts.append(Fact("ferry", "sails", "north", recorded_at=moment))
    await memory.remember(Episode("ferry", "", session_id="s", occurred_at=moment))
    items = (await memory.inject("ferry", tuning=DECAYING)).items
    assert [item.decay for item in items] == [1.0, 1.0]


@pytest.mark.parametrize("half_life", [1e-9, 0.5, 30.0, 1e300])
async def test_what_is_as_old_as_can_be_is_no_error(memory: Memory, half_life: float) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    await memory.facts.append(Fact("ferry", "sails", "north", recorded_at=first))
    await memory.remember(Episode("ferry", "", session_id="s", occurred_at=first))
    tuning = Tuning(memory_token_budget=400, memory_decay_half_life_days=half_life)
    injection = await memory.inject("ferry", tuning=tuning)
    assert injection.problems == ()
    assert all(0.0 <= item.decay <= 1.0 for item in injection.items)
    assert injection.text.count("ferry") == 2


async def test_a_clock_that_ran_ahead_does_not_change_the_order(memory: Memory) -> None:
    texts = ["ferry ferry ferry", "ferry ferry and more", "ferry and many other words that make this one long"]
    for text, moment in zip(texts, (NOW, LAST, NOW + timedelta(days=99)), strict=True):
        await memory.remember(Episode(text, "", session_id="s", occurred_at=moment))
    by_relevance = [match.episode.id for match in await memory.recall_scored("ferry")]
    items = (await memory.inject("ferry", tuning=DECAYING)).items
    assert [item.id for item in items] == by_relevance


async def test_a_fresh_memory_passes_an_old_one_that_fits_as_well(memory: Memory) -> None:
    for text, days in (("ferry one", 300), ("ferry two", 1), ("ferry six", 90)):
        await memory.remember(Episode(text, "", session_id="s", occurred_at=NOW - timedelta(days=days)))
    items = (await memory.inject("ferry", tuning=DECAYING)).items
    assert [item.text[-9:] for item in items] == ["ferry two", "ferry six", "ferry one"]
