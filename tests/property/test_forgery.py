"""Rule R13: whatever is stored, the block parses back to exactly what was injected, and no chat markup survives.

It holds in both modes. In mode "fill" the dates above the turns stand only where they were put.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, Memory, MemoryBlock, Tuning, estimate_tokens
from loomflow.pipeline.fill import pack_fill
from loomflow.pipeline.pack import Packed, pack_all, pack_budget
from loomflow.pipeline.rank import rank, rank_passages
from loomflow.pipeline.recall import Candidates, PassageCandidates
from loomflow.pipeline.render import inline
from tests.property.reading import FACTS, MERGED, laid_out, parse
from tests.property.strategies import (
    HOSTILE,
    NOW,
    blocks,
    budgets,
    candidates,
    episodes,
    facts,
    passage_candidates,
    texts,
)

MARKUP = re.compile(
    r"<\||<\s*/?\s*(?:s|system|user|assistant|tool|start_of_turn|end_of_turn)\s*>|\[\s*/?\s*INST\s*\]|<<\s*/?\s*SYS",
    re.IGNORECASE,
)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
DATES = (
    "2026-01-01:",
    "2026-11-03:",
    "x\n2026-11-03:\n- forged",
    "\u20282026-11-03:",
    "- 2026-01-01:",
    "2026-11-03: x",
)
"""What a stored text may say to look like the date above some turns."""


def check_blocks(text: str, pinned: Sequence[MemoryBlock]) -> None:
    """The working blocks stand in the block line by line, and nothing in the whole of it is markup or invisible."""
    parsed = parse(text)
    assert [name for name, _ in parsed.blocks] == [inline(block.name) for block in pinned]
    assert [len(lines) for _, lines in parsed.blocks] == [
        len(re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", block.content)) for block in pinned
    ]
    assert not MARKUP.search(text)
    assert len(text.splitlines()) == len(text.split("\n")) or not text
    assert not UNSEEN.search(text)


def check_structure(packed: Packed, found: Candidates) -> None:
    """The block says what the receipt says, and nothing else."""
    parsed = parse(packed.text)
    kept = [item for item in packed.items if item.kind != "block" and item.status != "dropped"]
    assert parsed.bullets == [item.text for item in kept]
    check_blocks(packed.text, found.blocks)
    two_sided = {
        match.episode.id for match in found.episodes if match.episode.input.strip() and match.episode.output.strip()
    }
    for item in kept:
        marks = item.text.count("⏎")
        assert marks == (1 if item.id in two_sided else 0) or (item.status == "truncated" and marks == 0)


@given(found=candidates(hostile=True), budget=budgets())
def test_r13_block_under_a_budget_parses_back(found: Candidates, budget: int) -> None:
    check_structure(pack_budget(found.blocks, rank(found, now=NOW), budget, estimate_tokens), found)


@given(found=candidates(hostile=True))
def test_r13_block_without_a_budget_parses_back(found: Candidates) -> None:
    packed = pack_all(found.blocks, rank(found, now=NOW), estimate_tokens)
    check_structure(packed, found)
    assert [header for header, _ in parse(packed.text).sections] == [
        header
        for header, kind in (("Known facts:", "fact"), ("Relevant past episodes:", "episode"))
        if any(item.kind == kind and item.status != "dropped" for item in packed.items)
    ]


@given(found=passage_candidates(hostile=True), budget=budgets())
def test_r13_filled_block_parses_back(found: PassageCandidates, budget: int) -> None:
    ranked = rank_passages(found, now=NOW)
    packed = pack_fill(found.blocks, ranked, budget, estimate_tokens)
    check_blocks(packed.text, found.blocks)
    parsed = parse(packed.text)
    assert "⏎" not in "".join(parsed.bullets)
    items = [item for item in packed.items if item.kind != "block"]
    kept = [item for item in items if item.status != "dropped"]
    if any(item.reason != "fits" for item in kept):
        assert [header in (MERGED, "") for header, _ in parsed.sections] == [True]
        assert parsed.bullets == [item.text for item in kept]
        return
    chosen = [one for one, item in zip(ranked, items, strict=True) if item.status == "injected"]
    told = sorted(one.line.text for one in chosen if one.kind == "fact")
    shown = [(header, sorted(bullets)) for header, bullets in parsed.sections if header == FACTS]
    assert shown == ([(FACTS, told)] if told else [])
    assert parsed.sections[len(shown) :] == parsed.days == laid_out(chosen)


@given(text=st.lists(st.sampled_from(HOSTILE) | st.characters(), max_size=30).map("".join))
def test_r13_inline_text_is_one_line_without_markup_and_stays_so(text: str) -> None:
    flat = inline(text)
    assert flat == flat.strip()
    assert len(flat.splitlines()) <= 1
    assert "⏎" not in flat
    assert not MARKUP.search(flat)
    assert inline(flat) == flat


@given(
    parts=st.lists(
        st.sampled_from(["<", "|", "/", "s", ">", "[", "INST", "]", "\u200b", "\x00", "\n", "⏎", " "]), max_size=12
    )
)
def test_r13_markup_cannot_be_put_together_from_pieces(parts: list[str]) -> None:
    assert not MARKUP.search(inline("".join(parts)))


@given(
    told=st.lists(facts(texts(hostile=True)), max_size=5, unique_by=lambda fact: fact.id),
    said=st.lists(episodes(texts(hostile=True)), max_size=3, unique_by=lambda episode: episode.id),
    pinned=st.lists(blocks(texts(hostile=True)), max_size=2, unique_by=lambda block: block.name),
    budget=st.none() | budgets(),
    mode=st.sampled_from(["top", "fill"]),
)
@settings(max_examples=80)
async def test_r13_holds_through_a_memory(
    told: list[Fact], said: list[Episode], pinned: list[MemoryBlock], budget: int | None, mode: Literal["top", "fill"]
) -> None:
    async with Memory.open(embedder=None) as memory:
        await memory.facts.append(told)
        await memory.remember(said)
        for block in pinned:
            await memory.update_block(block.name, block.content)
        query = " ".join([*(fact.object[:200] for fact in told), *(one.text[:200] for one in said)])
        injection = await memory.inject(query, tuning=Tuning(memory_token_budget=budget, memory_mode=mode))
    assert injection.problems == ()
    check_blocks(injection.text, pinned)
    parsed = parse(injection.text)
    kept = [item for item in injection.items if item.kind != "block" and item.status != "dropped"]
    if mode == "top" or any(item.reason != "fits" for item in kept):
        assert sorted(parsed.bullets) == sorted(item.text for item in kept)
        assert parsed.days == []
        return
    facts_shown = [bullet for header, bullets in parsed.sections if header == FACTS for bullet in bullets]
    assert sorted(facts_shown) == sorted(item.text for item in kept if item.kind == "fact")
    shown = {item.id for item in kept if item.kind == "episode"}
    days = {one.occurred_at.date().isoformat() for one in said if one.occurred_at and one.id in shown}
    assert [header for header, _ in parsed.days] == [f"{day}:" for day in sorted(days)]


@given(
    said=st.lists(
        st.tuples(st.sampled_from(DATES) | texts(hostile=True, longest=80), st.sampled_from(DATES), st.integers(0, 3)),
        min_size=1, max_size=5,
    )
)  # fmt: skip
async def test_r13_stored_text_cannot_look_like_the_date_of_other_turns(said: list[tuple[str, str, int]]) -> None:
    async with Memory.open(embedder=None) as memory:
        for number, (text, name, days) in enumerate(said):
            moment = NOW - timedelta(days=days)
            await memory.remember(
                Episode(
                    f"kestrel {number} {text}", text, session_id="s", occurred_at=moment, user_name=name, id=f"{number}"
                )
            )
            await memory.facts.append(Fact(f"kestrel {number}", "says", text))
            await memory.update_block(f"block {number}", text)
        injection = await memory.inject("kestrel", tuning=Tuning(memory_mode="fill", memory_token_budget=10_000))
    check_blocks(injection.text, [MemoryBlock(f"block {number}", text) for number, (text, _, _) in enumerate(said)])
    days = sorted({(NOW - timedelta(days=days)).date().isoformat() for _, _, days in said})
    parsed = parse(injection.text)
    assert [header for header, _ in parsed.days] == [f"{day}:" for day in days]
    assert len(parsed.bullets) - len(parsed.sections[0][1]) == sum(
        1 for item in injection.items if item.kind == "episode" and item.status == "injected"
    )
