"""Pack: what fits under the ceiling, measured on the final text with the caller's own counter.

Nothing here adds token counts up: every decision counts the block as it would be sent. That is what makes the ceiling
hold for any counter (rule R4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loomflow.items import MemoryBlock
from loomflow.passages import grapheme_start
from loomflow.receipt import InjectedItem, Status
from loomflow.tokens import TokenCounter

from .rank import Ranked
from .render import (
    BULLET,
    EPISODES_HEADER,
    FACTS_HEADER,
    MARKER,
    MERGED_HEADER,
    block_text,
    pinned_text,
)

EXCERPT_TOKENS = 16
"""The least of an item's text that a cut leaves."""

EXCERPT_ALLOWANCE = 32
"""What the minimal excerpt of the top item may add to the pinned part: header, bullet, text and marker."""

NOTE_FROM_BUDGET = 128
"""Below this budget the note on what the block is is left out (rule R13)."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed.

    Attributes:
        text: the block; `tokens` by the counter.
        items: every candidate with its fate, in the order of packing.
        pinned_tokens: of the part that is never cut.
        over_budget: why the ceiling is passed; empty if it is not.
        pinned: the working blocks in `text`, without the note above them.
    """

    text: str
    tokens: int
    items: tuple[InjectedItem, ...]
    pinned_tokens: int
    over_budget: tuple[str, ...] = ()
    pinned: str = ""


def pack_all(blocks: Sequence[MemoryBlock], ranked: Sequence[Ranked], count: TokenCounter) -> Packed:
    """Pack everything that is not excluded: item limits only, facts and episodes under headers of their own (R3)."""
    chosen = [item for item in ranked if not item.excluded]
    lines = {kind: [item.line.text for item in chosen if item.kind == kind] for kind in ("fact", "episode")}
    pinned = pinned_text(blocks, note=bool(blocks or chosen))
    sections = [(FACTS_HEADER, lines["fact"]), (EPISODES_HEADER, lines["episode"])]
    text = block_text(pinned, sections)
    by_kind = sorted(ranked, key=lambda item: item.kind != "fact")
    items = [
        receipt(
            item, item.line.text, "dropped" if item.excluded else "injected", item.excluded or "within limits", count
        )
        for item in by_kind
    ]
    bare = pinned_text(blocks, note=False)
    return Packed(text, count(text), (*pinned_items(blocks, count), *items), count(bare), pinned=bare)


def pack_budget(blocks: Sequence[MemoryBlock], ranked: Sequence[Ranked], budget: int, count: TokenCounter) -> Packed:
    """Pack greedily, best score first, under `budget` tokens (rules R4, R5, R6, R8).

    Blocks come first and whole. The first item that does not fully fit is cut to what is left, and packing stops there.
    The top item is always in, with at least `EXCERPT_TOKENS` of its text, even if that passes the budget.
    """
    packing = _Packing(blocks, budget, count, has_items=any(not item.excluded for item in ranked))
    for item in ranked:
        packing.place(item)
    return packing.result()


def pinned_parts(
    blocks: Sequence[MemoryBlock], budget: int, count: TokenCounter, *, has_items: bool
) -> tuple[str, str]:
    """The pinned part of a block, with the note above it if there is room and need for it, and without (rule R13)."""
    bare, noted = pinned_text(blocks, note=False), pinned_text(blocks, note=True)
    wants_note = budget >= NOTE_FROM_BUDGET and bool(blocks or has_items) and count(noted) <= budget
    return (noted if wants_note else bare), bare


class _Packing:
    """One packing under a budget: the lines that are in, and the fate of every item so far."""

    def __init__(self, blocks: Sequence[MemoryBlock], budget: int, count: TokenCounter, *, has_items: bool) -> None:
        self._budget = budget
        self._count = count
        self._pinned, self._bare = pinned_parts(blocks, budget, count, has_items=has_items)
        self._pinned_tokens = count(self._bare)
        self._header = MERGED_HEADER
        self._lines: list[str] = []
        self._items = list(pinned_items(blocks, count))
        self._stopped = ""
        self._over = ["the working blocks alone are larger than the budget"] if self._pinned_tokens > budget else []

    def place(self, item: Ranked) -> None:
        """Decide the fate of the next item in order."""
        text = item.line.text
        if item.excluded or self._stopped:
            self._add(item, text, "dropped", item.excluded or self._stopped)
        elif self._fits(text, self._budget):
            self._add(item, text, "injected", "fits")
        elif (cut := self._cut(item, self._budget)) is not None:
            self._add(item, cut, "truncated", "cut to what was left of the budget")
            self._stopped = "packing stopped at the item cut above it"
        elif not self._lines and self._pinned != self._bare:
            self._pinned = self._bare  # the top item needs the room of the note
            self.place(item)
        elif not self._lines:
            self._place_excerpt(item)
        else:
            self._add(item, text, "dropped", f"less than {EXCERPT_TOKENS} tokens of it would fit")
            self._stopped = "packing stopped: an item ranked above it did not fit"

    def result(self) -> Packed:
        """The packing as it stands."""
        text = self._text(self._lines)
        tokens = self._count(text)
        over = tuple(self._over) if tokens > self._budget else ()
        return Packed(text, tokens, tuple(self._items), self._pinned_tokens, over, self._bare)

    def _place_excerpt(self, item: Ranked) -> None:
        """The top item does not fit: put in its minimal excerpt, within the allowance of rule R4."""
        ceiling = max(self._budget, self._pinned_tokens + EXCERPT_ALLOWANCE)
        self._stopped = "packing stopped: the top item left no room"
        short = replace(item.line, optional="")
        layouts = list(product((MERGED_HEADER, ""), (item.line, short)))
        for least, attempts in ((EXCERPT_TOKENS, layouts), (1, layouts[::-1])):
            for self._header, line in attempts:
                if self._fits(line.text, ceiling):
                    self._add_over(item, line.text, "injected")
                    return
                cut = self._cut(replace(item, line=line), ceiling, least)
                if cut is not None:
                    self._add_over(item, cut, "truncated")
                    return
        self._header = MERGED_HEADER
        self._add(item, item.line.text, "dropped", "this token counter leaves no room even for a minimal excerpt")

    def _add_over(self, item: Ranked, text: str, status: Status) -> None:
        self._add(item, text, status, "the top item is always in: minimal excerpt")
        if self._count(self._text(self._lines)) > self._budget:
            self._over.append("the minimal excerpt of the top item")

    def _cut(self, item: Ranked, ceiling: int, least: int = EXCERPT_TOKENS) -> str | None:
        """The item cut to `ceiling`, or None if less than `least` tokens of its text would be left."""
        line = item.line
        lead = f"{line.optional}{line.qualifier}"
        kept = longest_cut(line.body, lambda body: self._fits(f"{lead}{body}{MARKER}", ceiling))
        if not kept or self._count(kept) < min(least, self._count(line.body)):
            return None
        return f"{lead}{kept}{MARKER}"

    def _fits(self, line: str, ceiling: int) -> bool:
        return self._count(self._text([*self._lines, line])) <= ceiling

    def _text(self, lines: Sequence[str]) -> str:
        return block_text(self._pinned, [(self._header, lines)])

    def _add(self, item: Ranked, text: str, status: Status, reason: str) -> None:
        if status != "dropped":
            self._lines.append(text)
        self._items.append(receipt(item, text, status, reason, self._count))


def longest_cut(text: str, fits: Callable[[str], bool]) -> str:
    """The longest proper beginning of `text` that fits, cut between grapheme clusters (UAX 29).

    Found by doubling and bisection, so a long text is never measured whole; `fits` should hold for every shorter
    beginning too, and where it does not, the result is still one that fits.
    """
    low, high = 0, 16
    while high < len(text) and fits(text[:high]):
        low, high = high, high * 2
    high = min(high, len(text))
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text[:middle]) else (low, middle)
    end = low
    while end > 0:
        end = grapheme_start(text, end)
        cut = text[:end]
        if not cut or fits(cut):
            return cut
        end -= 1
    return ""


def pinned_items(blocks: Sequence[MemoryBlock], count: TokenCounter) -> list[InjectedItem]:
    """The lines of the receipt on working blocks."""
    return [
        InjectedItem(
            "block", block.name, block.content, count(pinned_text([block], note=False)),
            None, None, 1.0, None, "injected", "pinned: always in, in full",
        )
        for block in blocks
    ]  # fmt: skip


def receipt(item: Ranked, text: str, status: Status, reason: str, count: TokenCounter) -> InjectedItem:
    """The line of the receipt on an item."""
    return InjectedItem(
        item.kind, item.id, text, count(f"{BULLET}{text}"), item.rank, item.relevance, item.decay, item.score, status,
        reason, item.lexical_rank, item.vector_rank, item.signals,
    )  # fmt: skip
