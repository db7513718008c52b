"""Rule R4, the ceiling, for every text, every budget, every counter and both modes; R2, R3, R5, R8 and R14 with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, InjectedItem, Memory, MemoryBlock, Tuning, estimate_tokens
from loomflow.index.questions import names_time
from loomflow.items import FactMatch
from loomflow.pipeline.fill import pack_fill
from loomflow.pipeline.pack import Packed, longest_cut, pack_all, pack_budget
from loomflow.pipeline.rank import Ranked, rank, rank_passages
from loomflow.pipeline.recall import Candidates, PassageCandidates
from loomflow.pipeline.render import pinned_text
from loomflow.tokens import TokenCounter
from loomflow.words import saying
from tests.property.reading import FACTS, MERGED, laid_out, parse, pinned_lines
from tests.property.strategies import (
    COUNTERS,
    NOW,
    budgets,
    candidates,
    counters,
    episodes,
    facts,
    half_lives,
    passage_candidates,
    texts,
)

MARKER = "…[truncated]"
ALLOWANCE = 32
EXCERPT = 16

Counter = tuple[str, TokenCounter]
Found = Candidates | PassageCandidates

EITHER = candidates(hostile=True) | passage_candidates(hostile=True)
"""What is found in mode "top", and in mode "fill"."""


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """A logger that does not write a line for each text that a counter refuses."""
    logger = logging.getLogger("loomflow")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


def packed_with(
    found: Found, budget: int, count: TokenCounter, half_life: float | None = None
) -> tuple[Packed, tuple[Ranked, ...]]:
    """What is found, packed as the mode does that it was found for."""
    if isinstance(found, PassageCandidates):
        ranked = rank_passages(found, now=NOW, half_life_days=half_life)
        return pack_fill(found.blocks, ranked, budget, count), ranked
    ranked = rank(found, now=NOW, half_life_days=half_life)
    return pack_budget(found.blocks, ranked, budget, count), ranked


def recalled(packed: Packed) -> list[InjectedItem]:
    return [item for item in packed.items if item.kind != "block" and item.status != "dropped"]


@given(found=EITHER, budget=budgets(), near=st.none() | st.integers(-4, 80), counter=counters())
def test_r4_block_never_passes_the_ceiling(found: Found, budget: int, near: int | None, counter: Counter) -> None:
    _, count = counter
    if near is not None:
        budget = max(1, count(pinned_text(found.blocks, note=False)) + near)
    packed, _ = packed_with(found, budget, count)
    pinned = count("\n".join(pinned_lines(packed.text)))
    assert count(packed.text) == packed.tokens
    assert packed.tokens <= max(budget, pinned + ALLOWANCE)
    assert bool(packed.over_budget) == (packed.tokens > budget)


@given(found=EITHER, counter=counters())
def test_r4_block_never_passes_a_budget_with_room_for_an_excerpt(found: Found, counter: Counter) -> None:
    _, count = counter
    everything, _ = packed_with(found, 10**9, count)
    least = everything.pinned_tokens + ALLOWANCE
    for budget in range(least, max(everything.tokens, least + 1), max((everything.tokens - least) // 12, 1)):
        packed, _ = packed_with(found, budget, count)
        assert count(packed.text) == packed.tokens <= budget
        assert packed.over_budget == ()


@given(found=EITHER, budget=budgets(), counter=counters())
def test_r5_pinned_blocks_are_never_cut(found: Found, budget: int, counter: Counter) -> None:
    _, count = counter
    packed, _ = packed_with(found, budget, count)
    assert "\n".join(pinned_lines(packed.text)) == pinned_text(found.blocks, note=False)
    kept = [item for item in packed.items if item.kind == "block"]
    assert [(item.id, item.text, item.status) for item in kept] == [
        (block.name, block.content, "injected") for block in found.blocks
    ]
    alone = "the working blocks alone are larger than the budget"
    is_alone = count(pinned_text(found.blocks, note=False)) > budget and packed.tokens > budget
    assert (alone in packed.over_budget) == is_alone


@given(found=candidates(hostile=True), budget=budgets(), counter=counters(), half_life=half_lives())
def test_r14_receipt_agrees_with_the_block(
    found: Candidates, budget: int, counter: Counter, half_life: float | None
) -> None:
    _, count = counter
    packed, ranked = packed_with(found, budget, count, half_life)
    kept = recalled(packed)
    bullets = [line for line in packed.text.split("\n") if line.startswith("- ")]
    assert bullets == [f"- {item.text}" for item in kept]
    assert sum(item.kind == "fact" for item in kept) <= 5
    assert sum(item.kind == "episode" for item in kept) <= 3
    assert [(item.kind, item.id) for item in packed.items if item.kind != "block"] == [
        (one.kind, one.id) for one in ranked
    ]
    assert all(item.reason for item in packed.items)
    assert all(item.tokens == count(f"- {item.text}") for item in packed.items if item.kind != "block")


@given(found=passage_candidates(hostile=True), budget=budgets(), counter=counters(), half_life=half_lives())
def test_r14_receipt_agrees_with_the_filled_block(
    found: PassageCandidates, budget: int, counter: Counter, half_life: float | None
) -> None:
    _, count = counter
    packed, ranked = packed_with(found, budget, count, half_life)
    items = _not_blocks(packed)
    assert [(item.kind, item.id, item.rank, item.score) for item in items] == [
        (one.kind, one.id, one.rank, one.score) for one in ranked
    ]
    assert all(item.reason for item in items)
    assert all(item.tokens == count(f"- {item.text}") for item in items)
    parsed = parse(packed.text)
    if any(header in (MERGED, "") for header, _ in parsed.sections):  # the top item alone, as in mode "top"
        assert parsed.bullets == [item.text for item in recalled(packed)]
        assert len(parsed.bullets) == 1
        return
    chosen = [one for one, item in zip(ranked, items, strict=True) if item.status == "injected"]
    assert all(item.text == one.line.text for one, item in zip(ranked, items, strict=True))
    told = [bullets for header, bullets in parsed.sections if header == FACTS]
    facts = sorted(one.line.text for one in chosen if one.kind == "fact")
    assert [sorted(bullets) for bullets in told] == ([facts] if facts else [])
    assert parsed.days == laid_out(chosen)
    assert len(parsed.sections) == len(told) + len(parsed.days)


@given(found=passage_candidates(hostile=True), budget=budgets(), counter=counters())
def test_r8_filling_cuts_nothing_but_the_top_item(found: PassageCandidates, budget: int, counter: Counter) -> None:
    _, count = counter
    packed, ranked = packed_with(found, budget, count)
    allowed = [item for item, one in zip(_not_blocks(packed), ranked, strict=True) if not one.excluded]
    assert all(item.status != "truncated" for item in allowed[1:])
    if allowed and allowed[0].reason != "fits":
        assert {item.status for item in allowed[1:]} <= {"dropped"}
        assert count(packed.text) <= max(budget, packed.pinned_tokens + ALLOWANCE)


@given(found=passage_candidates(), budget=st.integers(20, 400))
def test_filling_leaves_no_room_for_what_it_skips(found: PassageCandidates, budget: int) -> None:
    once = {(one.item.id, one.is_agent): one for one in reversed(found.episodes)}  # of each turn its best passage
    found = replace(found, episodes=tuple(one for one in found.episodes if one in once.values()))
    packed, ranked = packed_with(found, budget, estimate_tokens)
    left = budget - packed.tokens
    for one, item in zip(ranked, _not_blocks(packed), strict=True):
        if item.reason == "does not fit into what is left of the budget":
            line = f"- {one.line.qualifier}{one.line.body}"
            assert estimate_tokens(f"{packed.text}\n{line}\n2026-01-01:\n{FACTS}") > budget or left < 4


@given(found=passage_candidates(hostile=True), budget=budgets())
def test_r12_a_filled_block_says_nothing_twice(found: PassageCandidates, budget: int) -> None:
    packed, ranked = packed_with(found, budget, estimate_tokens)
    chosen = [
        one for one, item in zip(ranked, _not_blocks(packed), strict=True) if item.status in ("injected", "truncated")
    ]
    said = [saying(one.line.body) for one in chosen if one.kind == "fact"]
    said += [said for said in (saying(one.line.body) for one in chosen if one.kind == "episode") if tells_alone(said)]
    assert len(said) == len(set(said))
    whole_budget, _ = packed_with(found, 10**9, estimate_tokens)
    kept = {saying(one.line.body) for one, item in zip(ranked, _not_blocks(whole_budget), strict=True)
            if item.status == "injected"}  # fmt: skip
    assert kept == {saying(one.line.body) for one in ranked}


@given(found=candidates(hostile=True), budget=budgets(), counter=counters())
def test_r8_packing_stops_at_the_first_cut(found: Candidates, budget: int, counter: Counter) -> None:
    _, count = counter
    packed, ranked = packed_with(found, budget, count)
    allowed = [item for item, one in zip(_not_blocks(packed), ranked, strict=True) if not one.excluded]
    statuses = [item.status for item in allowed]
    whole = list(takewhile(lambda status: status == "injected", statuses))
    rest = statuses[len(whole) :]
    assert rest in ([], ["truncated", *["dropped"] * (len(rest) - 1)], ["dropped"] * len(rest))


@given(found=EITHER, budget=budgets(), counter=counters())
def test_r8_cut_is_between_grapheme_clusters_and_keeps_something(found: Found, budget: int, counter: Counter) -> None:
    _, count = counter
    packed, ranked = packed_with(found, budget, count)
    for item, one in zip(_not_blocks(packed), ranked, strict=True):
        if item.status != "truncated":
            continue
        lead = next(
            lead for lead in (f"{one.line.optional}{one.line.qualifier}", one.line.qualifier) if lead in item.text
        )
        assert item.text.startswith(lead)
        assert item.text.endswith(MARKER)
        kept = item.text[len(lead) : -len(MARKER)]
        assert kept
        assert one.line.body.startswith(kept)
        assert len(kept) < len(one.line.body)
        assert len(kept) in _boundaries(one.line.body)
        if count(kept) < min(EXCERPT, count(one.line.body)):  # only where the next cluster passes the ceiling
            longer = min(end for end in _boundaries(one.line.body) if end > len(kept))
            text = packed.text.replace(item.text, f"{lead}{one.line.body[:longer]}{MARKER}")
            assert count(text) > max(budget, packed.pinned_tokens + 32)


@given(found=candidates() | passage_candidates(), budget=budgets())
def test_r8_top_item_is_always_in_by_the_estimate(found: Found, budget: int) -> None:
    packed, ranked = packed_with(found, budget, estimate_tokens)
    allowed = [item for item, one in zip(_not_blocks(packed), ranked, strict=True) if not one.excluded]
    assert not allowed or allowed[0].status != "dropped", allowed[0].reason


@given(text=texts(), budget=st.integers(1, 60), block=st.none() | texts(longest=200))
def test_r8_top_item_is_always_in_where_every_character_is_a_token(text: str, budget: int, block: str | None) -> None:
    found = Candidates(
        blocks=(MemoryBlock("b", block),) if block else (),
        facts=_matches([Fact("A", "is", text, id="f", recorded_at=NOW)]),
    )
    packed, _ = packed_with(found, budget, len)
    (item,) = _not_blocks(packed)
    longest = max(map(len, regex.findall(r"\X", text)))
    assert item.status != "dropped" or longest > 2
    assert packed.tokens <= max(budget, len("\n".join(pinned_lines(packed.text))) + ALLOWANCE)


@given(text=texts(hostile=True, longest=400), room=st.integers(0, 120))
def test_r8_longest_cut_is_the_longest_that_fits(text: str, room: int) -> None:
    cut = longest_cut(text, lambda part: estimate_tokens(part) <= room)
    boundaries = [end for end in _boundaries(text) if end < len(text)]
    fitting = [text[:end] for end in boundaries if estimate_tokens(text[:end]) <= room]
    assert cut == (fitting[-1] if fitting else "")


@given(found=candidates(hostile=True))
def test_r3_without_a_budget_the_item_limits_alone_apply(found: Candidates) -> None:
    ranked = rank(found, now=NOW)
    packed = pack_all(found.blocks, ranked, estimate_tokens)
    kept = [one for one in ranked if not one.excluded]
    assert packed.over_budget == ()
    assert sorted(item.id for item in recalled(packed)) == sorted(one.id for one in kept)
    assert all(item.status != "truncated" for item in packed.items)
    assert ("Known facts:" in packed.text.split("\n")) == any(one.kind == "fact" for one in kept)
    assert ("Relevant past episodes:" in packed.text.split("\n")) == any(one.kind == "episode" for one in kept)


@given(
    told=st.lists(facts(texts(hostile=True)), max_size=6, unique_by=lambda fact: fact.id),
    said=st.lists(episodes(texts(hostile=True)), max_size=4, unique_by=lambda episode: episode.id),
    block=st.none() | texts(hostile=True, longest=300),
    budget=budgets(),
    name=st.sampled_from(sorted(COUNTERS)),
    mode=st.sampled_from(["top", "fill"]),
)
@settings(max_examples=80)
async def test_r4_holds_through_a_memory(
    told: list[Fact], said: list[Episode], block: str | None, budget: int, name: str, mode: Literal["top", "fill"]
) -> None:
    async with Memory.open(embedder=None) as memory:
        await memory.facts.append(told)
        await memory.remember(said)
        if block:
            await memory.update_block("profile", block)
        query = " ".join([*(fact.object[:200] for fact in told), *(one.text[:200] for one in said)])
        injection = await memory.inject(
            query,
            tuning=Tuning(
                memory_token_budget=budget,
                memory_decay_half_life_days=30,
                token_counter=COUNTERS[name],
                memory_mode=mode,
            ),
        )
    count = COUNTERS[name] or estimate_tokens
    assert all(name == "refusing" and "token_counter" in problem for problem in injection.problems)
    assert bool(injection.over_budget) == (injection.tokens > budget)
    if name != "refusing":
        assert injection.tokens == count(injection.text)
        assert injection.tokens <= max(budget, count("\n".join(pinned_lines(injection.text))) + ALLOWANCE)
    bullets = parse(injection.text).bullets
    kept = [item for item in injection.items if item.kind != "block" and item.status != "dropped"]
    if mode == "top":
        assert bullets == [item.text for item in kept]
    else:
        assert bool(bullets) == bool(kept)
        assert len(bullets) <= len(kept)
    assert {item.id for item in injection.items if item.kind == "fact"} <= {fact.id for fact in told}


def tells_alone(said: str) -> bool:
    """Whether it says the same whatever it answers, and on whichever day."""
    return len(said.split()) > 6 and not names_time(said)


def _not_blocks(packed: Packed) -> list[InjectedItem]:
    return [item for item in packed.items if item.kind != "block"]


def _boundaries(text: str) -> list[int]:
    return [match.end() for match in regex.finditer(r"\X", text)]


def _matches(told: Sequence[Fact]) -> tuple[FactMatch, ...]:
    return tuple(FactMatch(fact, 0.1) for fact in told)
