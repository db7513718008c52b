"""What was injected at a moment can be asked for later: to the byte the same, whatever has happened since."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from loomflow import Agent, EchoModel, Episode, Fact, Injection, Memory, Tuning
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import ManualClock

T1 = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
QUESTIONS = (
    "Where does Ana live?", "What about the kayak trip to Porto?", "When did we paddle in March?", "tea or coffee?",
    "Who am I?", "Is Ana Lima tired?", "ok", "",
)  # fmt: skip
MODES: tuple[Literal["top", "fill"], ...] = ("top", "fill")
TUNINGS = {
    f"{mode}, budget {budget}, half-life {half_life}": Tuning(
        memory_mode=mode, memory_token_budget=budget, memory_decay_half_life_days=half_life
    )
    for mode in MODES
    for budget in (None, 60, 2000)
    for half_life in (None, 30.0)
}


def ago(days: float) -> datetime:
    return T1 - timedelta(days=days)


def digests(texts: Sequence[str]) -> list[list[float]]:
    """Vectors by the words of a text: near for texts that share some."""
    rows: list[list[float]] = []
    for text in texts:
        row = [0.01] * 24
        for word in text.lower().split():
            row[zlib.crc32(word.strip("?.,!").encode()) % 24] += 1.0
        rows.append(row)
    return rows


@pytest.fixture(params=[None, digests], ids=["keywords", "vectors"])
def memory(request: pytest.FixtureRequest) -> Memory:
    return Memory(SQLiteStore(None, clock=ManualClock(ago(400))), embedder=request.param)


def on(memory: Memory, moment: datetime) -> Memory:
    """The memory at a moment."""
    memory.store.clock = ManualClock(moment)
    return memory


async def tell(memory: Memory, days_ago: float, predicate: str, object_: str, **fields: Any) -> Fact:
    return await on(memory, ago(days_ago)).facts.append(Fact("Ana", predicate, object_, **fields))


async def believed(memory: Memory) -> list[Fact]:
    return [fact for fact in await memory.facts.history() if fact.retired_at is None]


async def say(memory: Memory, days_ago: float, said: str, answered: str = "", session: str = "old") -> None:
    await on(memory, ago(days_ago)).remember(Episode(said, answered, session_id=session))


async def live_until_then(memory: Memory) -> None:
    """All that happened before T1."""
    await on(memory, ago(300)).update_block("profile", "Ana paddles.")
    await on(memory, ago(200)).update_block("log", "one")
    await on(memory, ago(3)).append_block("log", "two")
    await tell(memory, 250, "lives_in", "Porto")
    await tell(memory, 240, "works_at", "Acme", confidence=0.3)
    await tell(memory, 90, "lives_in", "Braga", valid_from=ago(120))
    await tell(memory, 80, "likes", "tea")
    await tell(memory, 70, "likes", "kayak trips", valid_from=ago(2000), valid_until=T1 + timedelta(days=30))
    await tell(memory, 60, "plans", "a kayak trip to Porto", valid_from=ago(-10))
    await tell(memory, 5, "likes", "oolong tea", origin="agent")
    for number in range(12):
        await say(
            memory, 210 - 17 * number, f"Kayak trip number {number} to Porto.", "We paddle in March!", f"s{number % 3}"
        )
    await say(memory, 2, "I drink tea, never coffee.", "Noted: tea. " + "And more of it. " * 40)
    await say(memory, 1, "Was the kayak dry?", "Yes.", "now")
    on(memory, T1)


# What happens afterwards


async def episodes_are_added(memory: Memory) -> None:
    for number in range(20):
        await say(
            memory,
            -1 - number,
            "Where does Ana live? Kayak trip to Porto, tea.",
            "In March we paddle.",
            f"s{number % 5}",
        )
    await say(memory, -30, "Was the kayak dry?", "Yes.", "now")


async def facts_are_superseded(memory: Memory) -> None:
    await tell(memory, -1, "lives_in", "Faro")
    await tell(memory, -2, "lives_in", "Lagos", valid_from=ago(60))
    await tell(memory, -3, "employer", "Orbis", valid_from=ago(-1))
    await tell(memory, -4, "likes", "kayak trips", valid_from=ago(2000), valid_until=ago(10))


async def facts_are_told_again(memory: Memory) -> None:
    for number in range(5):
        await tell(memory, -1 - number, "likes", "tea", source_episode_id=f"e{number}", confidence=0.1)
        await tell(memory, -2 - number, "lives_in", "Braga", valid_from=ago(300))


async def facts_are_retracted(memory: Memory) -> None:
    on(memory, ago(-1))
    while facts := await believed(memory):
        assert await memory.facts.retract(facts[0])


async def facts_are_corrected(memory: Memory) -> None:
    for number, fact in enumerate(await believed(on(memory, ago(-1)))):
        if fact.id in {one.id for one in await believed(memory)}:  # else another correction has made it one with others
            await memory.facts.correct(fact, object=f"kayak {number}", confidence=0.9, valid_from=ago(50))


async def subjects_are_merged(memory: Memory) -> None:
    await on(memory, ago(-1)).facts.merge("Ana", "Ana Lima")
    await tell(memory, -2, "lives_in", "Faro")


async def others_are_spoken_of(memory: Memory) -> None:
    on(memory, ago(-1))
    subjects = ("Bo", "Ana Lima", "Ana Souza", "Kayak", "Porto", "The kayak trip", "coffee", "user", "Who am I")
    await memory.facts.append([Fact(subject, "lives_in", "Porto") for subject in subjects])
    await memory.facts.append([Fact(subject, "likes", "tea") for subject in subjects])


async def others_speak(memory: Memory) -> None:
    on(memory, ago(-1))
    for user, agent in (("Kayak", "Tea"), ("Ana", "Porto"), ("Ana Lima", "coffee"), ("March", "Trip")):
        await memory.remember(Episode("Good morning.", "Hello!", session_id=user, user_name=user, agent_name=agent))


async def blocks_are_changed(memory: Memory) -> None:
    await on(memory, ago(-1)).update_block("profile", "Ana runs.")
    await on(memory, ago(-2)).append_block("log", "three")
    await on(memory, ago(-3)).delete_block("log")
    await on(memory, ago(-4)).update_block("new", "Kayak.")
    await on(memory, ago(-5)).update_block("log", "once more")
    await on(memory, ago(-6)).delete_block("profile")


async def everything_is_brought_back(memory: Memory) -> None:
    exported = await on(memory, ago(-1)).export(None)
    await blocks_are_changed(memory)
    await on(memory, ago(-9)).import_(exported)


async def all_of_it(memory: Memory) -> None:
    for happening in HAPPENINGS[:-1]:
        await happening(memory)


Happening = Callable[[Memory], Awaitable[None]]
HAPPENINGS: Sequence[Happening] = (
    episodes_are_added, facts_are_superseded, facts_are_told_again, facts_are_corrected, subjects_are_merged,
    others_are_spoken_of, others_speak, blocks_are_changed, everything_is_brought_back, facts_are_retracted, all_of_it,
)  # fmt: skip
AFTERWARDS = pytest.mark.parametrize("afterwards", HAPPENINGS, ids=lambda happening: happening.__name__)


async def injections(memory: Memory, at: datetime | None = None) -> dict[tuple[str, str, str | None], Injection]:
    """What is injected for every question and setting, in a running session and in none."""
    return {
        (name, question, session): await memory.inject(question, session_id=session, tuning=tuning, at=at)
        for name, tuning in TUNINGS.items()
        for question in QUESTIONS
        for session in (None, "now")
    }


def differing(one: dict[Any, Injection], other: dict[Any, Injection]) -> list[tuple[Any, str, str]]:
    """Where the texts differ, or what the receipt says of their lines."""
    return [
        (key, one[key].text, other[key].text)
        for key in one
        if (one[key].text, shown(one[key])) != (other[key].text, shown(other[key]))
    ]


def shown(injection: Injection) -> list[tuple[object, ...]]:
    """What the receipt says of what is injected."""
    return [(item.id, item.status, item.tokens, item.decay) for item in injection.items if item.status != "dropped"]


async def test_asking_at_the_present_moment_is_asking_now(memory: Memory) -> None:
    await live_until_then(memory)
    assert differing(await injections(memory), await injections(memory, T1)) == []


@AFTERWARDS
async def test_what_was_injected_then_is_what_is_asked_for_later(memory: Memory, afterwards: Happening) -> None:
    await live_until_then(memory)
    then = await injections(memory)
    await afterwards(memory)
    assert differing(then, await injections(on(memory, ago(-100)), T1)) == []
    assert any(then[key].text != one.text for key, one in (await injections(memory)).items())


async def test_it_is_the_same_however_often_it_is_asked_for(memory: Memory) -> None:
    await live_until_then(memory)
    moments = [ago(days) for days in (299, 100, 60.5, 2.5)]
    first = [await injections(memory, moment) for moment in moments]
    await all_of_it(memory)
    for _ in range(2):
        for moment, then in zip(moments, first, strict=True):
            assert differing(then, await injections(memory, moment)) == []


async def test_ages_count_to_the_moment_that_is_asked_for(memory: Memory) -> None:
    await live_until_then(memory)
    tuning = Tuning(memory_token_budget=2000, memory_decay_half_life_days=30)
    then = await memory.inject("tea", tuning=tuning)
    later = await on(memory, ago(-1000)).inject("tea", tuning=tuning, at=T1)
    assert {item.id: item.decay for item in later.items} == {item.id: item.decay for item in then.items}
    assert any(0 < item.decay < 1 for item in later.items)
    assert later.at == T1


async def test_a_line_says_since_when_it_was_known_to_be_true_then(memory: Memory) -> None:
    await tell(memory, 9, "lives_in", "Porto")
    on(memory, T1)
    assert (await memory.inject("Where does Ana live?")).text.endswith("- Ana lives_in Porto")
    await tell(memory, -3, "lives_in", "Braga", valid_from=ago(-3))
    now = await memory.inject("Where does Ana live?")
    assert now.text.endswith("- (since 2026-11-06) Ana lives_in Braga")
    then = await memory.inject("Where does Ana live?", at=T1)
    assert then.text.endswith("- Ana lives_in Porto")


async def test_before_anything_was_known_nothing_is_injected(memory: Memory) -> None:
    await live_until_then(memory)
    assert {injection.text for injection in (await injections(memory, ago(399))).values()} == {""}


@pytest.mark.parametrize("mode", MODES)
async def test_many_items_of_a_later_time_change_no_ranking(memory: Memory, mode: Literal["top", "fill"]) -> None:
    words = "kayak porto river tea paddle march boat rain sun wind dry wet".split()

    def line(number: int) -> str:
        return " ".join(words[(number * step) % len(words)] for step in (1, 3, 5, 7))

    async def live(first: int, count: int, days_ago: float) -> None:
        on(memory, ago(days_ago))
        await memory.facts.append([Fact(f"Ana {n}", "notes", line(n)) for n in range(first, first + count)])
        await memory.remember(
            [Episode(line(n), line(n + 1), session_id=f"s{n % 7}") for n in range(first, first + count)]
        )

    await live(0, 150, days_ago=20)
    on(memory, T1)
    tunings = [
        Tuning(memory_mode=mode, memory_token_budget=budget, memory_decay_half_life_days=30, memory_max_facts=40)
        for budget in (300, 2000)
    ]
    questions = [line(number) for number in range(12)]
    then = [(await memory.inject(one, tuning=tuning)).text for one in questions for tuning in tunings]
    await live(1000, 300, days_ago=-5)
    later = [(await memory.inject(one, tuning=tuning, at=T1)).text for one in questions for tuning in tunings]
    assert [one == other for one, other in zip(then, later, strict=True)] == [True] * len(then)


# An agent's preview


@pytest.mark.parametrize("name", list(TUNINGS))
async def test_a_preview_of_a_moment_is_what_a_run_was_given_then(memory: Memory, name: str) -> None:
    await live_until_then(memory)
    agent = Agent(model=EchoModel(), memory=memory, tuning=TUNINGS[name])
    question = "What about the kayak trip to Porto?"
    previews = {session: await agent.preview(question, session_id=session) for session in ("now", "s1", "fresh", None)}
    result = await agent.run(question, session_id="fresh")
    assert result.injection.text == previews["fresh"].text
    on(memory, ago(-1))
    for session in ("now", "s1", "other"):
        await agent.run(question, session_id=session)
    await all_of_it(memory)
    on(memory, ago(-200))
    for session, then in previews.items():
        if session != "fresh":  # a run of that moment is in its history
            assert (
                await agent.preview(question, session_id=session, at=T1 - timedelta(microseconds=1))
            ).text == then.text


async def test_a_preview_reads_only(memory: Memory) -> None:
    await live_until_then(memory)
    before = await memory.export(None)
    agent = Agent(model=EchoModel(), memory=memory)
    await agent.preview("kayak", session_id="now", at=ago(50))
    assert await memory.export(None) == before
