"""The rules that hold for every store: checked users, ids, clock, one user at a time. A backend only moves rows.

A backend subclasses `BaseStore` and writes the methods whose names begin with an underscore. They are given checked
values: `user_id` belongs to every item, ids and times are set, and blank searches do not reach them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from typing import TypeVar

from loomflow.bitemporal import FactChanges, SingleValued
from loomflow.checks import check_id, check_limit, check_user_id, utc_or_none
from loomflow.errors import ConfigError
from loomflow.items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats, new_id
from loomflow.ports import Clock
from loomflow.predicates import is_single_valued
from loomflow.records import (
    BlockPlan,
    Embedded,
    FactFilter,
    FactPlan,
    FactScript,
    Found,
    Names,
    NewEpisode,
    OpenRun,
    Passage,
    Queue,
    Result,
    Search,
    Turn,
    Undistilled,
)
from loomflow.tracing import traced
from loomflow.transactions import Rules, about, settling

logger = logging.getLogger("loomflow")

Owned = TypeVar("Owned", Episode, Fact)


def system_clock() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


class BaseStore(ABC):
    """A store's rules over a backend's rows; see `loomflow.ports.Store` for what each method promises."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self.clock = clock

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def aclose(self) -> None: ...

    async def blocks(self, user_id: str | None, *, at: datetime | None = None) -> list[MemoryBlock]:
        return await self._blocks(check_user_id(user_id), utc_or_none("at", at))

    @traced
    async def change_block(self, user_id: str | None, name: str, plan: BlockPlan) -> MemoryBlock | None:
        user, name = check_user_id(user_id), check_id("block name", name)

        def numbered(old: MemoryBlock | None) -> MemoryBlock | None:
            new = plan(old)
            if new is None or (old is not None and new.content == old.content):
                return new if new is None else old
            version = max(old.version if old else 0, new.version - 1) + 1  # an imported block keeps its count
            written_at = new.updated_at if old is None and new.updated_at is not None else self.clock()
            return replace(new, name=name, user_id=user, version=version, updated_at=written_at)

        return await self._change_block(user, name, numbered, self.clock())

    async def add_facts(
        self, user_id: str | None, facts: Sequence[tuple[Fact, Embedded]], plan: FactPlan
    ) -> list[FactChanges]:
        user = check_user_id(user_id)
        now = self.clock()
        complete = [
            replace(_owned(user, fact), id=fact.id or new_id(), recorded_at=fact.recorded_at or now)
            for fact, _ in facts
        ]

        def script() -> FactScript[list[FactChanges]]:
            done: list[FactChanges] = []
            for fact in complete:
                done.append(plan((yield from about(fact, is_single_valued)), fact))
                yield done[-1]
            return done

        embedded = {fact.text: vectors for fact, vectors in facts}
        return await self.change_facts(user, script, embedded) if complete else []

    @traced
    async def change_facts(
        self,
        user_id: str | None,
        script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded] | None = None,
    ) -> Result:
        user = check_user_id(user_id)
        return await self._change_facts(user, lambda: _owning(user, script()), embedded or {})

    async def facts(self, user_id: str | None, which: FactFilter) -> list[Fact]:
        return await self._facts(check_user_id(user_id), which)

    @traced
    async def add_episodes(self, user_id: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]:
        user = check_user_id(user_id)
        complete = [self._complete(user, new) for new in episodes]
        return await self._add_episodes(user, complete) if complete else []

    async def episodes(
        self, user_id: str | None, *, session_id: str | None = None, limit: int | None = None
    ) -> list[Episode]:
        session = None if session_id is None else check_id("session_id", session_id)
        wanted = None if limit is None else check_limit("limit", limit)
        return await self._episodes(check_user_id(user_id), session, wanted)

    @traced
    async def search(self, user_id: str | None, search: Search) -> tuple[Found[Episode], Found[Fact]]:
        user = check_user_id(user_id)
        if not search.words and search.query.vector is None:
            return Found({}), Found({})
        return await self._search(user, search, self.clock())

    @traced
    async def passages(self, user_id: str | None, search: Search) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
        user = check_user_id(user_id)
        if not search.words and search.query.vector is None:
            return [], []
        return await self._passages(user, search, self.clock())

    async def names(self, user_id: str | None, *, at: datetime | None = None) -> Names:
        return await self._names(check_user_id(user_id), utc_or_none("at", at))

    @traced
    async def turns(self, user_id: str | None, session_id: str | None, *, newest: int | None = None) -> list[Turn]:
        session = None if session_id is None else check_id("session_id", session_id)
        wanted = None if newest is None else check_limit("newest", newest)
        return await self._turns(check_user_id(user_id), session, wanted)

    async def begin_run(self, user_id: str | None, run: OpenRun) -> None:
        check_id("run_id", run.run_id)
        check_id("session_id", run.session_id)
        await self._begin_run(check_user_id(user_id), run)

    @traced
    async def finish_run(self, user_id: str | None, run_id: str, new: NewEpisode) -> None:
        user = check_user_id(user_id)
        await self._finish_run(user, check_id("run_id", run_id), self._complete(user, new))

    async def interrupt_run(
        self, user_id: str | None, session_id: str, run_id: str, messages: str | None, error: str
    ) -> None:
        await self._interrupt_run(
            check_user_id(user_id), check_id("session_id", session_id), check_id("run_id", run_id), messages, error
        )

    async def unembedded(
        self, user_id: str | None, embedder: str, limit: int, *, dimensions: int | None = None
    ) -> tuple[list[Episode], list[Fact]]:
        return await self._unembedded(check_user_id(user_id), embedder, check_limit("limit", limit), dimensions)

    async def set_vectors(
        self, user_id: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None:
        await self._set_vectors(check_user_id(user_id), episodes, facts)

    async def drop_vectors(self, user_id: str | None, *, but: str) -> None:
        await self._drop_vectors(check_user_id(user_id), but)

    @traced
    async def forget(
        self,
        user_id: str | None,
        *,
        session_id: str | None = None,
        before: datetime | None = None,
        secure: bool = False,
        single_valued: SingleValued = is_single_valued,
    ) -> Forgotten:
        session = None if session_id is None else check_id("session_id", session_id)
        rules = Rules(self.clock(), single_valued)
        return await self._forget(
            check_user_id(user_id), session, utc_or_none("before", before), lambda facts: settling(facts, rules),
            secure=secure,
        )  # fmt: skip

    async def claim_undistilled(
        self, claim: str, seconds: float, limit: int, *, user_id: str | EllipsisType | None = ...
    ) -> list[Undistilled]:
        now = self.clock()
        until = now + timedelta(seconds=seconds)
        return await self._claim_undistilled(*_one_or_all(user_id), claim, now, until, check_limit("limit", limit))

    async def finish_undistilled(
        self,
        user_id: str | None,
        episode_id: str,
        claim: str,
        script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded] | None = None,
    ) -> Result | None:
        user = check_user_id(user_id)
        return await self._finish_undistilled(
            user, check_id("episode_id", episode_id), claim, lambda: _owning(user, script()), embedded or {}
        )

    async def postpone_undistilled(
        self, user_id: str | None, episode_id: str, claim: str, error: str, due_at: datetime | None
    ) -> None:
        user, episode = check_user_id(user_id), check_id("episode_id", episode_id)
        await self._postpone_undistilled(user, episode, claim, error, due_at)

    @abstractmethod
    async def release_undistilled(self, claim: str, *, was_tried: bool = False) -> None: ...

    @abstractmethod
    async def undistilled_claims(self) -> list[str]: ...

    async def unpark(self, *, user_id: str | EllipsisType | None = ...) -> int:
        return await self._unpark(*_one_or_all(user_id), self.clock())

    async def queue(self, *, user_id: str | EllipsisType | None = ...) -> Queue:
        return await self._queue(*_one_or_all(user_id), self.clock())

    @abstractmethod
    async def users(self) -> list[str | None]: ...

    async def stats(self, user_id: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats:
        return await self._stats(check_user_id(user_id), everyone=everyone, embedder=embedder)

    def _complete(self, user: str | None, new: NewEpisode) -> NewEpisode:
        episode = _owned(user, new.episode)
        occurred_at = episode.occurred_at or self.clock()
        return replace(new, episode=replace(episode, id=episode.id or new_id(), occurred_at=occurred_at))

    @abstractmethod
    async def _blocks(self, user: str | None, at: datetime | None) -> list[MemoryBlock]: ...

    @abstractmethod
    async def _change_block(
        self, user: str | None, name: str, plan: BlockPlan, now: datetime
    ) -> MemoryBlock | None: ...

    @abstractmethod
    async def _change_facts(
        self, user: str | None, script: Callable[[], FactScript[Result]], embedded: Mapping[str, Embedded]
    ) -> Result: ...

    @abstractmethod
    async def _facts(self, user: str | None, which: FactFilter) -> list[Fact]: ...

    @abstractmethod
    async def _add_episodes(self, user: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]: ...

    @abstractmethod
    async def _episodes(self, user: str | None, session: str | None, limit: int | None) -> list[Episode]: ...

    @abstractmethod
    async def _search(self, user: str | None, search: Search, now: datetime) -> tuple[Found[Episode], Found[Fact]]: ...

    @abstractmethod
    async def _passages(
        self, user: str | None, search: Search, now: datetime
    ) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]: ...

    @abstractmethod
    async def _names(self, user: str | None, at: datetime | None) -> Names: ...

    @abstractmethod
    async def _turns(self, user: str | None, session: str | None, newest: int | None) -> list[Turn]: ...

    @abstractmethod
    async def _begin_run(self, user: str | None, run: OpenRun) -> None: ...

    @abstractmethod
    async def _finish_run(self, user: str | None, run_id: str, new: NewEpisode) -> None: ...

    @abstractmethod
    async def _interrupt_run(
        self, user: str | None, session: str, run_id: str, messages: str | None, error: str
    ) -> None: ...

    @abstractmethod
    async def _unembedded(
        self, user: str | None, embedder: str, limit: int, dimensions: int | None
    ) -> tuple[list[Episode], list[Fact]]: ...

    @abstractmethod
    async def _set_vectors(
        self, user: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None: ...

    @abstractmethod
    async def _drop_vectors(self, user: str | None, but: str) -> None: ...

    @abstractmethod
    async def _forget(
        self,
        user: str | None,
        session: str | None,
        before: datetime | None,
        settle: Callable[[list[Fact]], FactScript[None]],
        *,
        secure: bool,
    ) -> Forgotten: ...

    @abstractmethod
    async def _claim_undistilled(
        self, user: str | None, everyone: bool, claim: str, now: datetime, until: datetime, limit: int
    ) -> list[Undistilled]: ...

    @abstractmethod
    async def _finish_undistilled(
        self,
        user: str | None,
        episode_id: str,
        claim: str,
        script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded],
    ) -> Result | None: ...

    @abstractmethod
    async def _postpone_undistilled(
        self, user: str | None, episode_id: str, claim: str, error: str, due_at: datetime | None
    ) -> None: ...

    @abstractmethod
    async def _unpark(self, user: str | None, everyone: bool, now: datetime) -> int: ...

    @abstractmethod
    async def _queue(self, user: str | None, everyone: bool, now: datetime) -> Queue: ...

    @abstractmethod
    async def _stats(self, user: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats: ...


def _one_or_all(user_id: str | EllipsisType | None) -> tuple[str | None, bool]:
    """A checked user, and whether everyone is meant."""
    if isinstance(user_id, EllipsisType):
        return None, True
    return check_user_id(user_id), False


def _owning(user: str | None, script: FactScript[Result]) -> FactScript[Result]:
    """A change of facts, of which everything that is written must belong to `user`."""
    answer = None
    while True:
        try:
            step = next(script) if answer is None else script.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(step, FactChanges):
            step = FactChanges(step.retire, tuple(_owned(user, fact) for fact in step.add))
        answer = yield step


def _owned(user: str | None, item: Owned) -> Owned:
    """The item, which must belong to `user`: a mismatch is a bug of the caller and must not move memory across."""
    if item.user_id is not None and item.user_id != user:
        raise ConfigError(f"an item of user_id {item.user_id!r} cannot be written to the memory of user_id {user!r}")
    return item if item.user_id == user else replace(item, user_id=user)
