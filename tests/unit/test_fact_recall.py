"""Which facts a question finds, in both modes: whom it is about, who said them, and that none of them is over."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, InjectedItem, Injection, Memory, Tuning
from loomflow.index.subjects import Subjects
from loomflow.items import Origin
from loomflow.pipeline.fusion import fuse_facts
from loomflow.records import Found
from loomflow.stores.sqlite import SQLiteStore

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
TOP = Tuning(memory_max_facts=50)
FILL = Tuning(memory_mode="fill", memory_token_budget=5_000)
MODES = pytest.mark.parametrize("tuning", [TOP, FILL], ids=["top", "fill"])

PEOPLE = (
    "Alice", "Bob Miller", "user", "user's sister", "Bob's wife", "bob.miller@example.com", "Dr. Weber", "王小明",
    "佐藤花子", "ボブ", "김민수", "Ana de Souza", "Will", "Иван",
)  # fmt: skip

NAMING = [
    ("Where does Bob work?", "Bob Miller"),
    ("where does bob work", "Bob Miller"),
    ("Where does Bob Miller work?", "Bob Miller"),
    ("Does Mr Miller work?", "Bob Miller"),
    ("What is Bob's work?", "Bob Miller"),
    ("Tell me where Bob works", "Bob Miller"),
    ("Where does my friend Bob work?", "Bob Miller"),
    ("Where does Bob's wife work?", "Bob's wife"),
    ("Where does my sister work?", "user's sister"),
    ("What is my sister's work?", "user's sister"),
    ("Where does bob.miller@example.com work?", "bob.miller@example.com"),
    ("Where does Dr Weber work?", "Dr. Weber"),
    ("Where does Souza work?", "Ana de Souza"),
    ("Does Will work?", "Will"),
    ("王小明在哪里工作？", "王小明"),
    ("小明在哪里工作？", "王小明"),
    ("告诉我小明在哪里工作", "王小明"),
    ("花子さんはどこで働いていますか", "佐藤花子"),
    ("ボブさんはどこで働いていますか", "ボブ"),
    ("민수는 어디에서 일해?", "김민수"),
    ("Где работает Иван?", "Иван"),
]
"""Questions, and the one whom they name."""

OF_THE_ASKER = [
    "Where do I work?", "where do i work", "What is my work?", "Which work is mine?", "Where do we work?",
    "WHERE DO I WORK?", "Where does the user work?", "Wo ist meine Arbeit?", "Wo arbeite ich?", "¿Cuál es mi trabajo?",
    "Quel est mon travail ?", "Où est-ce que je travaille ?", "Qual é o meu trabalho?", "Qual è il mio lavoro?",
    "Где я работаю?", "我在哪里工作？", "私はどこで働いていますか", "저는 어디에서 일해요?",
]  # fmt: skip

OF_NOBODY = [
    "", "Where is work?", "2+2", "Which US states border Mexico?", "When will it rain?", "Tell me a joke",
    "Show me the work", "Did I tell you?", "Wo arbeitet man?", "Zeig mir die Arbeit", "今天天气怎么样？",
    "アンケートはどこ？", "나라는 어디에 있어?", "自我是什么？", "私立学校はどこ？",
]  # fmt: skip


def beside(texts: Sequence[str]) -> list[list[float]]:
    """Vectors by which every question is next to Alice's facts."""
    return [[1.0, 0.0] if "Alice" in text or "_at" not in text else [0.3, 1.0] for text in texts]


def works(subject: str, **fields: Any) -> Fact:
    return Fact(subject, "works_at", "the work of the harbour", id=subject, **fields)


async def shown(memory: Memory, question: str, tuning: Tuning, **how: Any) -> list[InjectedItem]:
    """The facts in the block, in the order of packing."""
    injection = await memory.inject(question, tuning=tuning, **how)
    return [item for item in injection.items if item.kind == "fact" and item.status != "dropped"]


async def first(memory: Memory, question: str, tuning: Tuning, **how: Any) -> str:
    return (await shown(memory, question, tuning, **how))[0].id


# Whom a question is about


@pytest.mark.parametrize(("question", "subject"), NAMING)
def test_a_question_names_a_subject(question: str, subject: str) -> None:
    others = [name for name in PEOPLE if name != "bob.miller@example.com" or "@" in subject]
    about = Subjects(others).asked(question)
    assert [others[place] for place in about.named] == [subject]
    assert not about.asker


@pytest.mark.parametrize("question", OF_THE_ASKER)
def test_a_question_of_the_first_person_is_about_the_asker(question: str) -> None:
    subjects = [*PEOPLE, "me", "The User", "alice01", "Ana Lima"]
    about = Subjects(subjects).asked(question, ["alice01", "ana lima"])
    assert {subjects[place] for place in about.asker} == {"user", "me", "The User", "alice01", "Ana Lima"}
    assert not about.named


@pytest.mark.parametrize("question", OF_NOBODY)
def test_a_question_that_is_about_nobody(question: str) -> None:
    about = Subjects(PEOPLE).asked(question, ["alice01"])
    assert not about.named
    assert not about.asker


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("Where do Alice and Bob work?", {"Alice", "Bob Miller"}),
        ("Does my sister know Alice?", {"Alice", "user's sister"}),
        ("Does Bob's sister work?", {"Bob Miller"}),
        ("Does Bob's wife know Bob?", {"Bob Miller", "Bob's wife"}),
        ("Do I know Alice's sister?", {"Alice"}),
    ],
)
def test_a_question_may_name_several(question: str, subjects: set[str]) -> None:
    people = [name for name in PEOPLE if "@" not in name]
    assert {people[place] for place in Subjects(people).asked(question).named} == subjects


@pytest.mark.parametrize(
    "subject", ["user's sister", "my sister", "Ana's sister", "sister", "the user's sister", "我的姐姐"]
)
def test_what_the_asker_calls_my_is_not_the_asker(subject: str) -> None:
    question = "我姐姐在哪里工作？" if subject == "我的姐姐" else "Where does my sister work?"
    about = Subjects(["user", "Alice's mother", subject]).asked(question, ["ana"])
    assert (set(about.named), set(about.asker)) == ({2}, set())


def test_subjects_keep_their_places_as_more_come() -> None:
    subjects = Subjects(["Alice", "user"])
    subjects.extend(["Bob", "me"])
    about = subjects.asked("Do I know Bob?")
    assert (len(subjects), set(about.named)) == (4, {2})
    assert set(subjects.asked("What about me and Bob?").asker) == {1, 3}


@given(st.text(), st.lists(st.text(min_size=1)), st.lists(st.text(min_size=1), max_size=2))
def test_any_text_can_be_asked_about_any_subjects(question: str, subjects: list[str], own: list[str]) -> None:
    about = Subjects(subjects).asked(question, own)
    assert about.named | about.asker <= set(range(len(subjects)))


# What it finds


@MODES
@pytest.mark.parametrize(
    ("question", "subject"), [*NAMING[:10], *NAMING[11:], *((question, "user") for question in OF_THE_ASKER[:7])]
)
async def test_facts_about_whom_the_question_is_about_come_first(question: str, subject: str, tuning: Tuning) -> None:
    async with Memory.open(embedder=beside) as memory:
        await memory.facts.append([works(name) for name in PEOPLE if "@" not in name])
        assert await first(memory, question, tuning) == subject
        (found,) = await memory.recall_facts(question, limit=1)
        assert found.subject == subject


@MODES
async def test_a_subject_that_is_an_address_is_found_by_it(tuning: Tuning) -> None:
    async with Memory.open(embedder=beside) as memory:
        await memory.facts.append([works(name) for name in PEOPLE])
        assert await first(memory, "Where does bob.miller@example.com work?", tuning) == "bob.miller@example.com"


@MODES
@pytest.mark.parametrize("subject", ["alice", "Alice", "ALICE"])
async def test_facts_that_carry_the_asker_s_id_or_name_are_the_asker_s(subject: str, tuning: Tuning) -> None:
    async with Memory.open(embedder=beside) as memory:
        for user, name in (("alice", None), ("u-1", "Alice"), (None, "Alice")):
            await memory.facts.append([works(one, user_id=user) for one in ("Bob", subject, "Alicia", "Carl")])
            await memory.remember(Episode("hello", "", session_id="s", user_id=user, user_name=name))
            assert await first(memory, "Where do I work?", tuning, user_id=user) == subject
            assert (await memory.recall_facts("Where do I work?", user_id=user, limit=1))[0].subject == subject


@MODES
@pytest.mark.parametrize(
    ("question", "subject"), [("Where do I work?", "user"), ("Does Bob Miller work?", "Bob Miller")]
)
async def test_however_many_others_there_are_the_one_is_found(question: str, subject: str, tuning: Tuning) -> None:
    async with Memory(SQLiteStore(None), embedder=None) as memory:
        await memory.facts.append(works(subject))
        await memory.facts.append([works(f"Miller{n:03}") for n in range(300)])
        assert await first(memory, question, tuning) == subject
        assert (await memory.recall_facts(question, limit=1))[0].subject == subject


@MODES
async def test_what_is_said_of_somebody_in_a_fact_about_another_is_found(tuning: Tuning, still_memory: Memory) -> None:
    await still_memory.facts.append([Fact("Bob", f"knows {n}", f"person {n}") for n in range(12)])
    await still_memory.facts.append(
        [Fact("Alice", "manages", name, id=name) for name in ("Bob Miller", "Carl", "Dora")]
    )
    assert "Bob Miller" in [item.id for item in (await shown(still_memory, "Who manages Bob?", tuning))[:5]]


@MODES
async def test_a_fact_about_the_one_comes_before_a_fact_that_mentions_the_one(
    tuning: Tuning, still_memory: Memory
) -> None:
    await still_memory.facts.append(
        [Fact("Bob", "works_at", "the harbour", id="about"), Fact("Alice", "works_with", "Bob")]
    )
    assert await first(still_memory, "Where does Bob work?", tuning) == "about"


@pytest.mark.parametrize("question", OF_NOBODY)
def test_a_question_that_names_nobody_changes_nothing(question: str) -> None:
    facts = {number: Fact(name, "knows", "Alice") for number, name in enumerate(PEOPLE)}
    found = Found(facts, (3, 1, 2, 9, 12), tuple((number, 1 - number / 20) for number in facts))
    assert list(fuse_facts(found, question, ["alice01"])) == list(fuse_facts(found))


def test_the_receipt_has_the_ranks_of_both_searches_as_they_are() -> None:
    facts = {number: Fact(name, "knows", "tea", origin="agent" if number < 2 else "user") for number, name in
             enumerate(PEOPLE[:4])}  # fmt: skip
    found = Found(facts, (0, 1, 2), ((1, 0.9), (3, 0.5)))
    matches = {match.fact.subject: match for match in fuse_facts(found, "Does Bob know me?")}
    assert {name: (one.lexical_rank, one.vector_rank, one.similarity) for name, one in matches.items()} == {
        "Alice": (0, None, None), "Bob Miller": (1, 0, 0.9), "user": (2, None, None), "user's sister": (None, 1, 0.5),
    }  # fmt: skip


# Who said it


@MODES
@pytest.mark.parametrize("origin", ["agent", "tool"])
@pytest.mark.parametrize("question", ["tea", "Which tea does Alice like?", "Which tea do I like?"])
@pytest.mark.parametrize("is_last", [True, False])
async def test_what_the_user_said_comes_before_what_others_said(
    question: str, origin: Origin, is_last: bool, tuning: Tuning, still_memory: Memory
) -> None:
    for subject in ("Alice", "user"):
        said = Fact(subject, "likes", "tea of kind 0", id=f"user {subject}")
        others = [Fact(subject, "likes", f"tea of kind {n}", origin=origin) for n in range(1, 21)]
        await still_memory.facts.append([*others, said] if is_last else [said, *others])
    assert (await first(still_memory, question, tuning)).startswith("user ")
    (found,) = await still_memory.recall_facts(question, limit=1)
    assert found.origin == "user"


async def test_a_crowd_of_what_others_said_does_not_hide_what_the_user_said(still_memory: Memory) -> None:
    await still_memory.facts.append(Fact("Alice", "likes", "tea of kind 0", id="said"))
    await still_memory.facts.append([Fact("Alice", "likes", f"tea of kind {n}", origin="tool") for n in range(1, 100)])
    assert await first(still_memory, "tea", TOP) == "said"


@MODES
async def test_what_others_said_is_found_where_the_user_said_nothing(tuning: Tuning, still_memory: Memory) -> None:
    await still_memory.facts.append([Fact("flight LX12", "leaves", "at 9:40", id="f", origin="tool"), works("Alice")])
    assert [item.id for item in await shown(still_memory, "When does my flight leave?", tuning)][:1] == ["f"]


# What a fact carries


QUALIFIED: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"valid_from": datetime(2025, 6, 1)}, "(since 2025-06-01) "),
    ({"valid_until": datetime(2027, 1, 1)}, "(until 2027-01-01) "),
    ({"confidence": 0.49}, "(unsure) "),
    ({"confidence": 0.5}, ""),
    ({"origin": "agent"}, "(said by the agent) "),
    ({"origin": "tool"}, "(from a tool) "),
    ({"confidence": 0.1, "origin": "tool"}, "(unsure, from a tool) "),
    (
        {"valid_from": datetime(2025, 6, 1), "valid_until": datetime(2027, 1, 1), "confidence": 0, "origin": "agent"},
        "(since 2025-06-01, until 2027-01-01, unsure, said by the agent) ",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["top", "fill"])
@pytest.mark.parametrize("budget", [1, 8, 24, 32, 40, 64, 200])
@pytest.mark.parametrize(("fields", "qualifier"), QUALIFIED)
async def test_what_qualifies_a_fact_stands_before_what_is_cut(
    fields: dict[str, Any], qualifier: str, budget: int, mode: Any, still_memory: Memory
) -> None:
    await still_memory.facts.append(Fact("Alice", "likes", "tea with milk " * 40, **fields))
    injection = await still_memory.inject("tea", tuning=Tuning(memory_token_budget=budget, memory_mode=mode))
    (item,) = injection.items
    assert item.status == ("injected" if budget == 200 else "truncated")
    assert item.text.startswith(f"{qualifier}Alice")
    assert f"- {item.text}" in injection.text.splitlines()
    assert injection.tokens <= max(budget, 32)


@pytest.mark.parametrize(("fields", "qualifier"), QUALIFIED)
async def test_without_a_budget_a_fact_carries_the_same(
    fields: dict[str, Any], qualifier: str, still_memory: Memory
) -> None:
    await still_memory.facts.append(Fact("Alice", "likes", "tea", **fields))
    injection = await still_memory.inject("tea")
    assert [item.text for item in injection.items] == [f"{qualifier}Alice likes tea"]
    assert f"- {qualifier}Alice likes tea" in injection.text.splitlines()


async def test_no_qualifier_can_be_forged_by_text_that_others_wrote(still_memory: Memory) -> None:
    await still_memory.facts.append(Fact("(since 2020-01-01) Alice", "likes", "tea", origin="tool"))
    (item,) = (await still_memory.inject("tea")).items
    assert item.text.startswith("(from a tool) (since 2020-01-01) Alice")


# Never what is over


days = st.integers(-6, 6)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int | None, int | None, int]:
    """From which day, until which day (each may be unknown), and on which day it was told."""
    start, end = draw(st.none() | days), draw(st.none() | days)
    if start is not None and end is not None and end < start:
        start, end = end, start
    return start, end, draw(days)


@settings(max_examples=40)
@given(st.lists(spans(), min_size=1, max_size=6), st.none() | days)
def test_no_fact_is_shown_that_is_not_true_at_the_moment(
    told: list[tuple[int | None, int | None, int]], day: int | None
) -> None:
    def moment(day: int | None) -> datetime | None:
        return None if day is None else NOW + timedelta(days=day)

    async def look() -> tuple[list[str], list[Injection]]:
        async with Memory(SQLiteStore(None, clock=lambda: NOW), embedder=beside) as memory:
            for number, (start, end, recorded) in enumerate(told):
                await memory.facts.append(
                    Fact(
                        "Alice", "drinks", f"tea {number}", id=str(number), valid_from=moment(start),
                        valid_until=moment(end), recorded_at=moment(recorded),
                    )
                )  # fmt: skip
            found = await memory.recall_facts("Which tea does Alice drink?", limit=50, at=moment(day))
            injections = [
                await memory.inject("Which tea does Alice drink?", at=moment(day), tuning=tuning)
                for tuning in (TOP, FILL, Tuning(memory_token_budget=40))
            ]
            return [fact.id or "" for fact in found], injections

    now = day or 0
    true = {
        str(number)
        for number, (start, end, recorded) in enumerate(told)
        if (start is None or start <= now) and (end is None or now < end) and (day is None or recorded <= day)
    }
    found, injections = asyncio.run(look())
    assert set(found) == true
    for injection in injections:
        assert {item.id for item in injection.items} == true
        assert set(re.findall(r"drinks tea (\d)", injection.text)) <= true
