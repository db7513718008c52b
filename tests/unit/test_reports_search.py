"""What a question finds: any text may be asked, some words suffice, filters apply first, blanks find nothing."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loomflow import Agent, ConfigError, EchoModel, Episode, Fact, Memory, Tuning

IDENTIFIERS = [
    "4be1-77AA-90c2-ee01", "0b9c1f1e-4d2a-4b53-8a55-3f7d2a61c9d4", "ida@example.org", "v2.14.0-rc1", "/etc/app/conf.d",
    "C++17", "#launch", "+351 912-555-010", "https://x.example/?q=1&r=2", "O'Neill", "rock'n'roll", "snake_case_name",
    "{{slot}}", "100%", "col:umn", "x^2", '"quoted"', "(parens", "star*", "a AND b OR NOT c", "NEAR(tea, 2)",
    "tea; DROP TABLE",
]  # fmt: skip


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder=None) as memory:
        yield memory


async def found(memory: Memory, question: str, user: str | None = None) -> list[str]:
    """The objects of the facts recalled, best first; recall must have met no problem."""
    injection = await memory.inject(question, user_id=user)
    assert injection.problems == ()
    return [fact.object for fact in await memory.recall_facts(question, user_id=user)]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
async def test_an_identifier_is_found_alone_and_in_a_sentence(memory: Memory, identifier: str) -> None:
    await memory.facts.append([Fact("Nadia", "avoids", "shellfish"), Fact("record", "carries", identifier)])
    assert (await found(memory, identifier))[0] == identifier
    assert (await found(memory, f"what do we know about {identifier}?"))[0] == identifier


@pytest.mark.parametrize("identifier", IDENTIFIERS)
async def test_a_run_can_ask_for_an_identifier(memory: Memory, identifier: str) -> None:
    await memory.facts.append(Fact("record", "carries", identifier))
    echo = EchoModel()
    result = await Agent(model=echo, memory=memory).run(identifier)
    assert result.output == f"Echo: {identifier}"
    assert result.injection.problems == ()
    assert f"record carries {identifier}" in echo.requests[0].system


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("where is Petra living these days", "moved from Ghent to Leon in spring"),
        ("when will the kitchen team talk about the rota", "the kitchen team plans it on Tuesdays"),
        ("did anybody from the garden club call back yesterday", "the garden club called"),
        ("Tuesdays?", "the kitchen team plans it on Tuesdays"),
    ],
)
async def test_a_question_in_a_sentence_needs_only_some_of_its_words(
    memory: Memory, question: str, expected: str
) -> None:
    await memory.facts.append(
        [
            Fact("Petra", "did", "moved from Ghent to Leon in spring"),
            Fact("rota", "note", "the kitchen team plans it on Tuesdays"),
            Fact("Sunday", "note", "the garden club called"),
        ]
    )
    assert (await found(memory, question))[0] == expected


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("周五之前要重构登录页面", ["重构", "登录", "页", "周五", "登录页面怎么样了"]),
        ("来週の会議は京都であります", ["会議", "京都", "京", "来週の予定"]),
        ("カフェで待ち合わせ", ["カフェ", "待ち合わせ", "待"]),
        ("다음 주에 부산에서 만나요", ["부산", "만나요", "산"]),
        ("用Rust写的解析器", ["Rust", "解析器", "析"]),
    ],
)
async def test_scripts_without_spaces_are_found_by_keyword_alone(
    memory: Memory, text: str, questions: Sequence[str]
) -> None:
    await memory.facts.append([Fact("note", "says", "nothing of the kind"), Fact("note", "says", text)])
    await memory.remember(Episode(text, "", session_id="s"))
    for question in questions:
        assert await found(memory, question) == [text]
        assert [episode.input for episode in await memory.recall(question)] == [text]


@pytest.mark.parametrize("backwards", [False, True])
async def test_the_strength_of_a_keyword_match_decides_the_order(memory: Memory, backwards: bool) -> None:
    ranked = [
        "ferry timetable island",
        "the timetable for the ferry",
        "one day somebody should frame that old timetable",
    ]
    for text in reversed(ranked) if backwards else ranked:
        await memory.remember(Episode(text, "", session_id="s"))
    for _ in range(2):
        matches = await memory.recall_scored("ferry timetable island")
        assert [match.episode.input for match in matches] == ranked
        assert [match.lexical_rank for match in matches] == [0, 1, 2]
        assert matches[0].score > matches[1].score > matches[2].score


@pytest.mark.parametrize("embedder", [None, "default"])
async def test_a_replaced_wording_is_no_longer_found(tmp_path: Path, embedder: str | None) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder=embedder) as memory:
        await memory.facts.append(Fact("Ana", "drinks", "oolong", id="drink"))
        await memory.facts.append(Fact("Ana", "drinks", "espresso", id="drink"))
        assert "oolong" not in (await memory.inject("oolong")).text
        assert await found(memory, "espresso") == ["espresso"]
        assert await memory.facts.retract("drink")
        assert await found(memory, "espresso") == []
        assert (await memory.inject("espresso")).text == ""


async def test_a_forgotten_episode_and_a_rewritten_block_are_no_longer_found(memory: Memory) -> None:
    await memory.remember(Episode("we talked about oolong", "yes", session_id="s"))
    await memory.update_block("profile", "drinks oolong")
    await memory.update_block("profile", "drinks espresso")
    await memory.forget(user_id=None, session_id="s")
    injection = await memory.inject("oolong")
    assert "oolong" not in injection.text
    assert "espresso" in injection.text


class TableEmbedder:
    """Looks vectors up by text; everything else points into a direction of its own."""

    name = "table"

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        self.asked += texts
        return np.array([self.vectors.get(text, (0.0, 0.0, 1.0)) for text in texts], dtype=np.float32)


@pytest.mark.parametrize("useless", [(0, 0, 0), (math.nan, 0, 1), (math.inf, 0, 0), (1e-45, 0, 0), (1, 0)])
@pytest.mark.parametrize("half_life", [None, 30.0])
async def test_a_question_that_embeds_to_nothing_useful_is_answered_by_keyword(
    tmp_path: Path, useless: Sequence[float], half_life: float | None
) -> None:
    question = "cello, kayak ???"
    table = TableEmbedder({question: useless, "Ana plays cello": (1, 0, 0), "Ana owns a kayak": (0, 1, 0)})
    tuning = Tuning(memory_token_budget=400, memory_decay_half_life_days=half_life)
    async with Memory.open(tmp_path / "memory.db", embedder=table) as memory:
        await memory.facts.append([Fact("Ana", "plays", "cello"), Fact("Ana", "owns", "a kayak")])
        moment = datetime(2099, 1, 1, tzinfo=UTC)
        first, second = [await memory.inject(question, tuning=tuning, at=moment) for _ in range(2)]
    assert first == second
    assert first.problems == ()
    assert {item.text for item in first.items} == {"Ana plays cello", "Ana owns a kayak"}
    assert all(item.score is not None and math.isfinite(item.score) for item in first.items)


async def test_stored_text_that_embeds_to_nothing_is_found_by_keyword(tmp_path: Path) -> None:
    table = TableEmbedder({"Ana plays cello": (0, 0, 0), "the cello": (1, 0, 0)})
    async with Memory.open(tmp_path / "memory.db", embedder=table) as memory:
        await memory.facts.append([Fact("Ana", "plays", "cello"), Fact("Ana", "owns", "a kayak")])
        assert (await found(memory, "the cello"))[0] == "cello"
        matches = await memory.recall_scored("the cello")
        assert all(match.similarity is None or math.isfinite(match.similarity) for match in matches)


@pytest.mark.parametrize(("me", "other"), [("me", "other"), (None, "other"), ("me", None)])
@pytest.mark.parametrize("embedder", [None, "default"])
async def test_a_small_limit_still_reaches_ones_own_memories(
    tmp_path: Path, me: str | None, other: str | None, embedder: str | None
) -> None:
    async with Memory.open(tmp_path / "memory.db", embedder=embedder) as memory:
        await memory.facts.append([Fact(f"copy {n}", "tells", "the ferry leaves", user_id=other) for n in range(200)])
        await memory.remember(
            [Episode("the ferry leaves", "", session_id="s", user_id=other, id=f"{n}") for n in range(200)]
        )
        texts = {"a note on some ferry to the island", "she missed a ferry once", "there is also the night ferry"}
        await memory.facts.append([Fact("Ana", "said", text, user_id=me) for text in sorted(texts)])
        await memory.remember([Episode(text, "", session_id="s", user_id=me) for text in sorted(texts)])
        assert set(await found(memory, "the ferry leaves", me)) == texts
        facts = await memory.recall_facts("the ferry leaves", user_id=me, limit=3)
        episodes = await memory.recall("the ferry leaves", user_id=me, limit=3)
        assert {fact.object for fact in facts} == {episode.input for episode in episodes} == texts


@pytest.mark.parametrize("question", ["", "   ", "\n\t", "\u3000", "\u00a0", "\u2028"])
async def test_a_blank_question_recalls_only_blocks_and_embeds_nothing(tmp_path: Path, question: str) -> None:
    table = TableEmbedder({})
    async with Memory.open(tmp_path / "memory.db", embedder=table) as memory:
        await memory.update_block("profile", "likes tea")
        await memory.facts.append(Fact("Ana", "likes", "tea"))
        await memory.remember(Episode("tea?", "yes", session_id="s"))
        table.asked.clear()
        assert await memory.recall(question) == []
        assert await memory.recall_facts(question) == []
        injection = await memory.inject(question)
        assert [item.kind for item in injection.items] == ["block"]
        assert injection.problems == ()
        result = await Agent(model=EchoModel(), memory=memory).run(question)
        assert result.output.startswith("Echo:")
        assert table.asked == [result.output.strip()]


@pytest.mark.parametrize("question", ["?!", "…", "😀", "---", "\u200b", "\0"])
async def test_a_question_without_words_is_no_error(memory: Memory, question: str) -> None:
    await memory.facts.append(Fact("Ana", "likes", "tea"))
    assert await found(memory, question) == []


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u3000"])
async def test_blank_facts_and_episodes_are_refused(memory: Memory, blank: str) -> None:
    for parts in ((blank, "likes", "tea"), ("Ana", blank, "tea"), ("Ana", "likes", blank)):
        with pytest.raises(ConfigError):
            Fact(*parts)
    with pytest.raises(ConfigError):
        Episode(blank, blank, session_id="s")
    assert await memory.users() == []
