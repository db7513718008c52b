"""What the tests of the suite stand on: capabilities, the store fixtures, a clock, and makers of items and searches."""

from __future__ import annotations

import enum
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from loomflow.bitemporal import FactChanges
from loomflow.items import Episode, Fact, MemoryBlock
from loomflow.ports import Store
from loomflow.records import NOT_EMBEDDED, BlockPlan, Embedded, FactFilter, FactPlan, Found, Item, NewEpisode, Search
from loomflow.testing.clock import ManualClock
from loomflow.transactions import Rules, retraction
from loomflow.words import query_terms

SPACE = "conformance:2d"
"""The name of the embedder that the suite's vectors belong to."""

Test = TypeVar("Test", bound=Callable[..., Any])


class Capability(enum.Enum):
    """What a store may have or lack.

    Attributes:
        PERSISTENT: what is acknowledged outlives the store object, and several stores can share a database.
        KEYWORDS: `Search.words` finds text.
        VECTORS: `Search.query` finds the nearest vectors.
    """

    PERSISTENT = "persistent"
    KEYWORDS = "keywords"
    VECTORS = "vectors"


def requires(*capabilities: Capability) -> Callable[[Test], Test]:
    """Skip the test where the store lacks one of `capabilities`."""

    def mark(test: Test) -> Test:
        vars(test)["required_capabilities"] = frozenset(capabilities)
        return test

    return mark


class ConformanceBase:
    """Fixtures and hooks; see `StoreConformance` for what a subclass may say."""

    pytestmark = pytest.mark.asyncio
    capabilities: ClassVar[Collection[Capability]] = frozenset(Capability)

    async def make_store(self, place: Path) -> Store:
        """Make a store on the database at `place`."""
        raise NotImplementedError("a conformance test must say how to make its store")

    async def reopen(self, store: Store, place: Path) -> Store:
        """The store as a new process finds it, after the end of the old one."""
        await store.aclose()
        return await self.make_store(place)

    async def drop(self, place: Path) -> None:
        """Remove what the test left outside of `place`."""

    @pytest.fixture(autouse=True)
    def skip_what_the_store_lacks(self, request: pytest.FixtureRequest) -> None:
        """Skip a test that needs more than `capabilities`."""
        needed: frozenset[Capability] = getattr(request.function, "required_capabilities", frozenset())
        missing = sorted(capability.value for capability in needed.difference(self.capabilities))
        if missing:
            pytest.skip(f"the store is not: {', '.join(missing)}")

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        """An empty store."""
        store = await self.make_store(tmp_path)
        yield store
        await store.aclose()
        await self.drop(tmp_path)

    @pytest.fixture
    def clock(self, store: Store) -> ManualClock:
        """The clock of `store`, to be moved by the test."""
        clock = ManualClock()
        store.clock = clock
        return clock


# Makers of items. Each says only what the test is about.


def at(day: int, hour: int = 0) -> datetime:
    """A moment, so many days after 2026-01-01."""
    return datetime(2026, 1, 1, hour, tzinfo=UTC) + timedelta(days=day)


def told(text: str, *, session: str = "s", **fields: Any) -> Episode:
    """An episode in which the user said `text`."""
    return Episode(text, fields.pop("output", ""), session_id=session, **fields)


def gather(_: Sequence[Fact], new: Fact) -> FactChanges:
    """The plan that adds every fact and retires none."""
    return FactChanges(add=(new,))


def direction(degrees: float, length: float = 1.0) -> NDArray[np.float32]:
    """A vector of two dimensions; the cosine of two of them is that of the angle between."""
    angle = math.radians(degrees)
    return np.array([math.cos(angle) * length, math.sin(angle) * length], dtype=np.float32)


def embedded(degrees: float, space: str = SPACE) -> Embedded:
    """What an embedder would hand over."""
    return Embedded(space, direction(degrees))


# Writing and reading, in one line each.


async def add_episodes(store: Store, user: str | None, *episodes: Episode) -> list[Episode]:
    """Add episodes without vectors."""
    return await store.add_episodes(user, [NewEpisode(episode) for episode in episodes])


async def add_facts(store: Store, user: str | None, *facts: Fact, plan: FactPlan = gather) -> list[FactChanges]:
    """Add facts without vectors."""
    return await store.add_facts(user, [(fact, NOT_EMBEDDED) for fact in facts], plan)


async def retract(store: Store, user: str | None, fact_id: str) -> bool:
    """Retract a fact; whether it was believed."""
    return await store.change_facts(user, lambda: retraction(fact_id, Rules(store.clock()))) is not None


def writing(content: str) -> BlockPlan:
    """The plan that writes a block whatever it was."""
    return lambda _: MemoryBlock("block", content)


def appending(text: str) -> BlockPlan:
    """The plan that adds `text` at the end of a block."""
    return lambda old: MemoryBlock("block", f"{old.content if old else ''}{text}")


async def contents(store: Store, user: str | None) -> dict[str, str]:
    """The working blocks: name and text, in order."""
    return {block.name: block.content for block in await store.blocks(user)}


async def inputs(store: Store, user: str | None, **which: Any) -> list[str]:
    """What was said, in the order of `episodes`."""
    return [episode.input for episode in await store.episodes(user, **which)]


async def objects(store: Store, user: str | None, **which: Any) -> list[str]:
    """The objects of the facts that pass a filter, in order."""
    return [fact.object for fact in await store.facts(user, FactFilter(**which))]


def asking(question: str, **fields: Any) -> Search:
    """A search by the words of a question."""
    return Search(words=tuple(query_terms(question)), **fields)


def towards(degrees: float, **fields: Any) -> Search:
    """A search by vector."""
    return Search(query=embedded(degrees), **fields)


def by_keyword(found: Found[Item]) -> list[Item]:
    """The items of the keyword ranking, best first."""
    return [found.items[key] for key in found.lexical]


def by_vector(found: Found[Item]) -> list[Item]:
    """The items of the vector ranking, best first."""
    return [found.items[key] for key, _ in found.vector]


async def said(store: Store, user: str | None, search: Search) -> list[str]:
    """What was said in the episodes that a search finds by keyword, best first."""
    episodes, _ = await store.search(user, search)
    return [episode.input for episode in by_keyword(episodes)]


async def stated(store: Store, user: str | None, search: Search) -> list[str]:
    """The objects of the facts that a search finds by keyword, best first."""
    _, facts = await store.search(user, search)
    return [fact.object for fact in by_keyword(facts)]


def ids(items: Iterable[Episode | Fact]) -> list[str | None]:
    """Their ids."""
    return [item.id for item in items]
