"""Writers are killed at any moment: what was acknowledged is there, nothing is there by half, nothing needs repair."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import pytest

from loomflow import Memory

from .agreement import agreement
from .ledger import Ledger, Scale
from .writer import COUNTER, Acknowledged, Writers

LONGEST = 0.25
"""Seconds that a writer lives at most; it opens the memory in some hundredths of that."""

BATCH = 3


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    with Writers() as server:
        yield server


@dataclass(slots=True)
class Known:
    """What must be there, of all writers so far."""

    episodes: set[str] = field(default_factory=set[str])
    counted: int = 0

    async def check(self, memory: Memory, mark: str, said: Acknowledged) -> None:
        """All that writer `mark` was told is stored is there, at most one change more, and all from before too."""
        stored = {episode.id or "" for episode in await memory.store.episodes(None)}
        versions = await memory.facts.history(subject=mark)  # two of each fact that was ended
        facts = list(dict.fromkeys(fact.object for fact in versions))
        current = [fact.object for fact in await memory.facts.query(subject=mark)]
        blocks = {block.name: block.content.splitlines() for block in await memory.working()}
        counted = sum([int(block.content) for block in await memory.working(user_id="counter")])
        assert stored >= self.episodes | said.episodes
        more = stored - self.episodes - said.episodes
        assert facts[: len(said.facts)] == said.facts
        assert current == facts[-1:]
        lines = blocks.get(mark, [])
        assert lines[: len(said.lines)] == said.lines
        least = max(self.counted, said.counted)
        assert len(more) in {0, 1, BATCH}
        extra = [bool(more), len(facts) - len(said.facts), len(lines) - len(said.lines), counted - least]
        assert sum(extra) <= 1
        assert min(extra) >= 0
        for name in said.episodes | more:
            assert await found(memory, name), f"{name} is stored, and not found by its words"
        self.episodes, self.counted = stored, counted


async def found(memory: Memory, name: str) -> bool:
    """Whether an episode is the first that its own words find."""
    matches = await memory.recall_scored(f"word{name}", limit=1)
    return [(match.episode.id, match.lexical_rank) for match in matches] == [(name, 0)]


async def test_writers_are_killed_at_any_moment(
    store_url: str, writers: Writers, tmp_path: Path, scale: Scale, ledger: Ledger
) -> None:
    entry = ledger.entry(
        f"kill -9 of a writer, {store_url.split(':', maxsplit=1)[0]}", "time to open, check and write again"
    )
    dice = random.Random(20261)
    known = Known()
    acknowledged = 0
    for number in range(scale.kills):
        entry.tried += 1
        mark, out = f"r{number}", tmp_path / f"r{number}"
        pid = writers.start(store_url, mark, dice.randrange(1 << 30), out)
        await asyncio.sleep(dice.uniform(0, LONGEST))
        writers.kill(pid)
        said = Acknowledged.read(out) if out.exists() else Acknowledged()
        start = perf_counter()
        async with Memory.open(store_url) as memory:
            await known.check(memory, mark, said)
            assert await agreement(memory) == []
            await memory.append_block("survivor", mark)
            entry.count((perf_counter() - start) * 1000)
        acknowledged += len(said.episodes) + len(said.facts) + len(said.lines)
    assert acknowledged > scale.kills
    async with Memory.open(store_url) as memory:
        missing = [name for name in sorted(known.episodes) if not await found(memory, name)]
        (counter,) = await memory.working(user_id="counter")
    assert missing == []
    assert (counter.name, counter.content) == (COUNTER, str(counter.version))
