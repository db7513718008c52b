"""Fill: the packing of mode "fill", which uses the budget to the full with whole passages, laid out in time order.

As in `pack`, every decision counts the block as it would be sent (rule R4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loomflow.items import Episode, Fact, MemoryBlock
from loomflow.receipt import InjectedItem
from loomflow.tokens import TokenCounter

from .pack import Packed, pack_budget, pinned_items, pinned_parts, receipt
from .rank import Ranked
from .render import BULLET, filled_text

DATE_TOKENS = 4
"""What a line with a date may cost: a first guess, before the block is counted."""

ROOM_FOR_ANYTHING = 4
"""With less room than this, in tokens, no further line is tried."""


def pack_fill(blocks: Sequence[MemoryBlock], ranked: Sequence[Ranked], budget: int, count: TokenCounter) -> Packed:
    """Pack whole items, best score first, under `budget` tokens; what does not fit is skipped.

    A fact and the episode that it came from are packed together only if there is room when all else has been tried. If
    the top item does not fit whole, it is cut, as in mode "top" (rule R8), and nothing else is packed.
    """
    candidates = [item for item in ranked if not item.excluded]
    filling = _Filling(blocks, budget, count, has_items=bool(candidates))
    if candidates and not filling.try_first(candidates[0]):
        return _only_top(blocks, ranked, candidates[0], budget, count)
    filling.fill(candidates[1:])
    return filling.result(ranked)


def _only_top(
    blocks: Sequence[MemoryBlock], ranked: Sequence[Ranked], top: Ranked, budget: int, count: TokenCounter
) -> Packed:
    packed = pack_budget(blocks, [replace(top, lexical_rank=None)], budget, count)
    others = [
        receipt(item, item.line.text, "dropped", item.excluded or "packing stopped: the top item left no room", count)
        for item in ranked
        if item is not top
    ]
    return replace(packed, items=(*packed.items, *others))


class _Filling:
    """One packing: what is in, and the fate of every item so far."""

    def __init__(self, blocks: Sequence[MemoryBlock], budget: int, count: TokenCounter, *, has_items: bool) -> None:
        self._blocks = blocks
        self._budget = budget
        self._count = count
        self._pinned, self._bare = pinned_parts(blocks, budget, count, has_items=has_items)
        self._pinned_tokens = count(self._bare)
        self._in: list[Ranked] = []
        self._tokens = 0
        self._costs: dict[int, int] = {}
        self._reasons: dict[int, str] = {}

    def try_first(self, top: Ranked) -> bool:
        """Put the top item in, if it fits whole, with or without the note."""
        for pinned in dict.fromkeys((self._pinned, self._bare)):
            self._pinned = pinned
            if self._add_if_fits([top]):
                return True
        return False

    def fill(self, items: Sequence[Ranked]) -> None:
        """Put in what fits, in order; last what repeats something that is in."""
        deferred: list[Ranked] = []
        pending = list(items)
        while pending:
            batch, twins, pending = self._next(pending)
            deferred += twins
            self._add_all(batch)
        for item in deferred:
            if self._cost(item) > self._room() + 1 or not self._add_if_fits([item]):
                self._reasons[id(item)] = TWIN

    def result(self, ranked: Sequence[Ranked]) -> Packed:
        """The packing as it stands."""
        text = self._text(self._in)
        tokens = self._count(text)
        chosen = {id(item) for item in self._in}
        items = [self._receipt(item, is_in=id(item) in chosen) for item in ranked]
        over = ("the working blocks alone are larger than the budget",) if tokens > self._budget else ()
        pinned = pinned_items(self._blocks, self._count)
        return Packed(text, tokens, (*pinned, *items), self._pinned_tokens, over, self._bare)

    def _next(self, pending: Sequence[Ranked]) -> tuple[list[Ranked], list[Ranked], list[Ranked]]:
        """The next items that should fit together, those put off on the way, and what remains."""
        room = self._room()
        sources = _Sources(self._in)
        batch: list[Ranked] = []
        twins: list[Ranked] = []
        for place, item in enumerate(pending):
            cost = self._cost(item)
            if cost > room + 1 or room < ROOM_FOR_ANYTHING:
                if batch:
                    return batch, twins, list(pending[place:])
                self._reasons[id(item)] = NO_ROOM
            elif sources.has_twin(item):
                twins.append(item)
            else:
                batch.append(item)
                sources.add(item)
                room -= cost + DATE_TOKENS
        return batch, twins, []

    def _add_all(self, batch: Sequence[Ranked]) -> None:
        """Add the items that fit, in order, halving the batch until it does."""
        if not batch or self._add_if_fits(batch):
            return
        if len(batch) == 1:
            self._reasons[id(batch[0])] = NO_ROOM
            return
        self._add_all(batch[: len(batch) // 2])
        self._add_all(batch[len(batch) // 2 :])

    def _add_if_fits(self, items: Sequence[Ranked]) -> bool:
        wanted = [*self._in, *items]
        tokens = self._count(self._text(wanted))
        if tokens > self._budget:
            return False
        self._in, self._tokens = wanted, tokens
        return True

    def _room(self) -> int:
        return self._budget - self._tokens

    def _cost(self, item: Ranked) -> int:
        if id(item) not in self._costs:
            self._costs[id(item)] = self._count(f"{BULLET}{item.line.qualifier}{item.line.body}")
        return self._costs[id(item)]

    def _text(self, items: Sequence[Ranked]) -> str:
        facts = [item.line.text for item in items if item.kind == "fact"]
        passages = [(item.passage, item.line) for item in items if item.kind == "episode" and item.passage is not None]
        return filled_text(self._pinned, facts, passages)

    def _receipt(self, item: Ranked, *, is_in: bool) -> InjectedItem:
        if is_in:
            return receipt(item, item.line.text, "injected", "fits", self._count)
        return receipt(
            item, item.line.text, "dropped", item.excluded or self._reasons.get(id(item), NO_ROOM), self._count
        )


NO_ROOM = "does not fit into what is left of the budget"
TWIN = "what it came from, or what came from it, is in already"


class _Sources:
    """Which episodes are in, and which episodes the facts that are in came from."""

    def __init__(self, items: Iterable[Ranked]) -> None:
        self._episodes: set[str] = set()
        self._of_facts: set[str] = set()
        for item in items:
            self.add(item)

    def add(self, item: Ranked) -> None:
        found = None if item.passage is None else item.passage.item
        if isinstance(found, Fact) and found.source_episode_id:
            self._of_facts.add(found.source_episode_id)
        elif isinstance(found, Episode) and found.id:
            self._episodes.add(found.id)

    def has_twin(self, item: Ranked) -> bool:
        found = None if item.passage is None else item.passage.item
        if isinstance(found, Fact):
            return found.source_episode_id in self._episodes
        return isinstance(found, Episode) and found.id in self._of_facts
