"""Facts over time: what was answered at a moment is answered for that moment ever after, whatever is told since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, Memory
from loomflow.errors import ConfigError
from loomflow.items import ORIGINS
from loomflow.stores.sqlite import SQLiteStore
from tests.property.strategies import NOW

TICK = timedelta(minutes=1)
SUBJECTS = ("Ana", "Bo", "Ana Lima")
PREDICATES = ("lives_in", "moved_to", "likes")
OBJECTS = ("Porto", "Braga", "porto ")

Step = Callable[["Story"], Awaitable[None]]


@dataclass
class Story:
    """A memory with a clock that ticks, and what it answered at every tick."""

    moment: datetime = NOW
    answers: dict[datetime, list[Fact]] = field(default_factory=dict[datetime, list[Fact]])

    def __post_init__(self) -> None:
        self.memory = Memory(SQLiteStore(None, clock=lambda: self.moment), embedder=None)

    async def do(self, step: Step) -> None:
        """Take a step, and remember what is true after it."""
        await step(self)
        self.moment += TICK
        self.answers[self.moment] = await self.memory.facts.query()
        self.moment += TICK

    async def believed(self) -> list[Fact]:
        return [fact for fact in await self.memory.facts.history() if fact.retired_at is None]

    async def picked(self, place: int) -> Fact | None:
        """One of the facts believed now; none if there are none."""
        facts = await self.believed()
        return facts[place % len(facts)] if facts else None


async def refused(change: Awaitable[object]) -> str:
    """Make a change; why it was refused, or nothing."""
    try:
        await change
    except ConfigError as error:
        return str(error)
    return ""


def minutes() -> st.SearchStrategy[timedelta | None]:
    """Moments of the story, as so long after its beginning; some before it, and some unknown."""
    return st.none() | st.integers(-20, 40).map(lambda number: timedelta(minutes=number))


@st.composite
def times(draw: st.DrawFn) -> dict[str, Any]:
    """A start and an end, in order, either or both unknown."""
    start, end = draw(minutes()), draw(minutes())
    if start is not None and end is not None and end < start:
        start, end = end, start
    moments = {"valid_from": start, "valid_until": end}
    return {name: None if after is None else NOW + after for name, after in moments.items()}


@st.composite
def appending(draw: st.DrawFn) -> Step:
    """Tell one or two facts at once."""
    facts = [
        Fact(
            draw(st.sampled_from(SUBJECTS)), draw(st.sampled_from(PREDICATES)), draw(st.sampled_from(OBJECTS)),
            origin=draw(st.sampled_from(ORIGINS)), confidence=draw(st.sampled_from([1.0, 0.25])),
            source_episode_id=draw(st.sampled_from([None, "e"])), **plan,
        )
        for plan in draw(st.lists(times(), min_size=1, max_size=2))
    ]  # fmt: skip

    async def step(story: Story) -> None:
        await story.memory.facts.append(facts)

    return step


@st.composite
def retracting(draw: st.DrawFn) -> Step:
    """Take one of the facts back."""
    place = draw(st.integers(0, 9))

    async def step(story: Story) -> None:
        fact = await story.picked(place)
        assert fact is None or await story.memory.facts.retract(fact)

    return step


@st.composite
def correcting(draw: st.DrawFn) -> Step:
    """Tell one of the facts otherwise; what contradicts itself is refused, and changes nothing."""
    place = draw(st.integers(0, 9))
    changes: dict[str, Any] = {
        "subject": draw(st.sampled_from(SUBJECTS)), "predicate": draw(st.sampled_from(PREDICATES)),
        "object": draw(st.sampled_from(OBJECTS)), **draw(times()),
    }  # fmt: skip
    fields = {name: changes[name] for name in draw(st.lists(st.sampled_from(sorted(changes)), unique=True))}

    async def step(story: Story) -> None:
        fact = await story.picked(place)
        if fact is None:
            return
        before = await story.memory.facts.history()
        refusal = await refused(story.memory.facts.correct(fact, **fields))
        assert not refusal or ("valid_until" in refusal and await story.memory.facts.history() == before)

    return step


@st.composite
def merging(draw: st.DrawFn) -> Step:
    """Say that two subjects are one, if they are not yet."""
    subject, into = draw(st.permutations(SUBJECTS))[:2]

    async def step(story: Story) -> None:
        refusal = await refused(story.memory.facts.merge(subject, into))
        assert not refusal or "the same as" in refusal

    return step


def steps(*kinds: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.one_of(appending(), appending(), *kinds), min_size=1, max_size=9)


def plain(facts: list[Fact]) -> list[Fact]:
    """Facts without what is only known later: when they were believed no more."""
    return [replace(fact, retired_at=None) for fact in facts]


def sources(facts: list[Fact]) -> list[object]:
    return [fact.sources for fact in facts]


async def lived(taken: list[Step]) -> Story:
    story = Story()
    for step in taken:
        await story.do(step)
    return story


@given(taken=steps(retracting(), correcting(), merging()))
@settings(max_examples=150)
def test_every_answer_can_be_had_again(taken: list[Step]) -> None:
    async def check() -> None:
        story = await lived(taken)
        for moment, facts in story.answers.items():
            again = await story.memory.facts.query(known_at=moment, valid_at=moment)
            assert plain(again) == facts
            for now, then in zip(again, facts, strict=True):
                assert now.sources, "a version that is believed no more keeps what it was written for"
                assert set(map(str, now.sources)) <= set(map(str, then.sources))
        await story.memory.aclose()

    asyncio.run(check())


@given(taken=steps(retracting(), correcting()))
@settings(max_examples=100)
def test_one_value_at_a_time_is_true_and_known(taken: list[Step]) -> None:
    async def check() -> None:
        story = await lived(taken)
        moments = list(story.answers)
        for known in moments:
            for valid in moments:
                found = await story.memory.facts.query(known_at=known, valid_at=valid, predicate="lives_in")
                assert len({fact.subject for fact in found}) == len(found)
        await story.memory.aclose()

    asyncio.run(check())


@given(taken=steps(retracting(), correcting(), merging()))
@settings(max_examples=100)
def test_versions_of_a_fact_follow_one_another(taken: list[Step]) -> None:
    async def check() -> None:
        story = await lived(taken)
        history = await story.memory.facts.history()
        for one in {fact.id for fact in history}:
            versions = [fact for fact in history if fact.id == one]
            for earlier, later in pairwise(versions):
                assert earlier.retired_at is not None
                assert later.recorded_at is not None
                assert earlier.retired_at <= later.recorded_at
        assert all(fact.recorded_at is not None and fact.recorded_at <= story.moment for fact in history)
        await story.memory.aclose()

    asyncio.run(check())


@given(taken=steps(retracting(), correcting(), merging()))
@settings(max_examples=100)
def test_an_import_answers_every_question_alike(taken: list[Step]) -> None:
    async def check() -> None:
        story = await lived(taken)
        copy = Memory(SQLiteStore(None, clock=lambda: story.moment), embedder=None)
        await copy.import_(await story.memory.export(None))
        for moment in story.answers:
            one, other, both = {"known_at": moment}, {"valid_at": moment}, {"known_at": moment, "valid_at": moment}
            questions: list[dict[str, Any]] = [one, other, both]
            for which in questions:
                assert await copy.facts.query(**which) == await story.memory.facts.query(**which)
        assert sources(await copy.facts.history()) == sources(await story.memory.facts.history())
        await copy.aclose()
        await story.memory.aclose()

    asyncio.run(check())


@given(before=steps(retracting(), correcting()), after=steps(retracting(), correcting()))
@settings(max_examples=60)
def test_what_is_forgotten_is_in_no_version(before: list[Step], after: list[Step]) -> None:
    async def check() -> None:
        story = await lived(before)
        await story.memory.remember(Episode("x", "", session_id="s", id="e"))
        for step in after:
            await story.do(step)
        await story.memory.forget(user_id=None, session_id="s")
        for fact in await story.memory.facts.history():
            assert fact.sources
            assert fact.source_episode_id != "e"
            assert all(source.episode_id != "e" for source in fact.sources)
        believed = [fact for fact in await story.believed() if fact.predicate != "likes"]
        for valid in story.answers:
            there = [fact.subject for fact in believed if fact.is_valid_at(valid)]
            assert len(set(there)) == len(there)
        await story.memory.aclose()

    asyncio.run(check())
