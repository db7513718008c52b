"""A store in a relational database: rows, and the segments of the index.

Everything here runs in the threads of `Connections`, as functions of a connection. What is searched is the user's
partition, see `loomflow.index`: the database keeps its segments and the rows. The queries are named; each backend says
them in its dialect, see `sql/<dialect>/queries.sql`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from loomflow.index import vectors
from loomflow.index.parts import texts_of
from loomflow.index.segments import VERSION
from loomflow.items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats
from loomflow.moments import to_micros
from loomflow.ports import Clock
from loomflow.records import (
    BlockPlan,
    Embedded,
    FactFilter,
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

from . import owners, segments, undistilled
from .base import BaseStore, system_clock
from .connections import Connections
from .database import Database, Owner
from .fact_rows import carry_out, list_facts
from .forgetting import forget_tellings
from .rows import BuiltOnUse, Row, block_of, episode_columns, episode_of, fact_of, turn_of
from .searching import Searcher, passage_of
from .segments import EPISODE, FACT, KINDS, Indexed

ALL_ROWS = -1
BLOCK_VERSIONS = 100
"""So many earlier versions of a block are kept, to show a moment as it was."""


class RelationalStore(BaseStore):
    """A store's rows, whatever the database.

    Args:
        connections: of the database.
        clock: source of the present moment.
        searcher: how it is searched; None for partitions in memory.
    """

    def __init__(self, connections: Connections, clock: Clock = system_clock, searcher: Searcher | None = None) -> None:
        super().__init__(clock)
        self._connections = connections
        self._searcher = searcher or Searcher()

    @property
    def connections(self) -> Connections:
        """Of the database, for what works on rows and segments as such: checks and copies."""
        return self._connections

    @property
    def searcher(self) -> Searcher:
        """How it is searched."""
        return self._searcher

    async def tend(self, user_id: str | None) -> None:
        """Bring the index of a user into shape now, all of it: what else is done after writes."""

        def work(db: Database) -> bool:
            owner = owners.hold(db, user_id)
            return owner is not None and self._searcher.tend(db, owner)

        while await self._connections.write(user_id, work):
            pass

    async def open(self) -> None:
        await self._connections.open()

    async def aclose(self) -> None:
        await self._connections.aclose()
        self._searcher.clear()

    async def users(self) -> list[str | None]:
        return await self._connections.read(..., lambda db: [user_id or None for (user_id,) in db.run("list_users")])

    # Working blocks

    async def _blocks(self, user: str | None, at: datetime | None) -> list[MemoryBlock]:
        def work(db: Database) -> list[MemoryBlock]:
            values = {"owner": owners.found(db, user), "at": to_micros(at)}
            return [block_of(row, user) for row in db.run("blocks" if at is None else "blocks_at", values)]

        return await self._connections.read(user, work)

    async def _change_block(self, user: str | None, name: str, plan: BlockPlan, now: datetime) -> MemoryBlock | None:
        def work(db: Database) -> MemoryBlock | None:
            owner = owners.give(db, user)
            key = {"owner": owner, "name": name}
            row = db.run("block", key).fetchone()
            old = block_of(row, user) if row else None
            new = plan(old)
            if new is not old:
                ended_at = now if new is None else new.updated_at
                db.run("keep_block_version", key | {"ended_at": to_micros(ended_at)})
                db.run("drop_old_block_versions", key | {"keep": BLOCK_VERSIONS})
            if new is None:
                db.run("delete_block", key)
                db.run("raise_block_floor", key | {"version": old.version if old else 0})
                owners.drop_if_empty(db, owner)
            elif new is not old:
                if old is None:
                    floor, was_there = db.run("block_floor", key).fetchone()
                    written_at = now if was_there else new.updated_at  # an import does not change what was there before
                    new = replace(new, version=max(new.version, floor + 1), updated_at=written_at)
                values = {"content": new.content, "version": new.version, "updated_at": to_micros(new.updated_at)}
                db.run("put_block", key | values)
            return new

        return await self._connections.write(user, work)

    # Facts

    async def _change_facts(
        self, user: str | None, script: Callable[[], FactScript[Result]], embedded: Mapping[str, Embedded]
    ) -> Result:
        def work(db: Database) -> Result:
            owner = owners.give(db, user)
            result, merge = carry_out(db, self._searcher, owner, user, script(), embedded)
            owners.drop_if_empty(db, owner)
            self._merge_later(user, owner, due=merge)
            return result

        return await self._connections.write(user, work)

    async def _facts(self, user: str | None, which: FactFilter) -> list[Fact]:
        return await self._connections.read(user, lambda db: list_facts(db, owners.found(db, user), user, which))

    # Episodes

    async def _add_episodes(self, user: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]:
        def work(db: Database) -> list[Episode]:
            owner = owners.give(db, user)
            added: list[Indexed] = []
            stored = [self._add_episode(db, owner, user, new, owners.next_turn(db, owner), added) for new in episodes]
            self._merge_later(user, owner, due=segments.add(db, owner, EPISODE, added))
            return stored

        return await self._connections.write(user, work)

    def _add_episode(
        self, db: Database, owner: Owner, user: str | None, new: NewEpisode, turn: int, added: list[Indexed]
    ) -> Episode:
        """Write an episode, if it is new; then it is put into `added`, to be indexed."""
        columns = episode_columns(new.episode, owner, turn)
        row = db.run("add_episode", columns).fetchall()
        if not row:
            return episode_of(db.run("episode_by_id", columns).fetchone(), user)
        ((number,),) = row
        if new.messages is not None:
            db.run("add_messages", {"owner": owner, "no": number, "messages": new.messages})
        for is_agent, name in enumerate((new.episode.user_name, new.episode.agent_name)):
            if name is not None:
                db.run("add_name", {"owner": owner, "name": name, "is_agent": is_agent})
        if new.distill:
            undistilled.put(db, owner, number, self.clock())
        added.append(Indexed(number, new.episode, [new.embedded]))
        return new.episode

    async def _episodes(self, user: str | None, session: str | None, limit: int | None) -> list[Episode]:
        def work(db: Database) -> list[Episode]:
            values = {"owner": owners.found(db, user), "session_id": session, "limit": limit or ALL_ROWS}
            return [episode_of(row, user) for row in db.run("list_episodes", values)]

        return await self._connections.read(user, work)

    # Search

    async def _search(self, user: str | None, search: Search, now: datetime) -> tuple[Found[Episode], Found[Fact]]:
        def work(db: Database, owner: Owner) -> tuple[Found[Episode], Found[Fact]]:
            episodes: Found[Episode] = Found({})
            facts: Found[Fact] = Found({})
            if search.episodes:
                rows, lexical, vector = self._searcher.ranked(db, EPISODE, owner, search, now)
                episodes = Found(BuiltOnUse(rows, episode_of, user), lexical, vector)
            if search.facts:
                rows, lexical, vector = self._searcher.ranked(db, FACT, owner, search, now)
                facts = Found(BuiltOnUse(rows, fact_of, user), lexical, vector)
            return episodes, facts

        return await self._searching(user, work, (Found({}), Found({})))

    async def _passages(
        self, user: str | None, search: Search, now: datetime
    ) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
        def work(db: Database, owner: Owner) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
            kinds = ((EPISODE, search.episodes), (FACT, search.facts))
            episodes, facts = (
                self._searcher.best_passages(db, kind, owner, search, now) if wanted else [] for kind, wanted in kinds
            )
            built = {row[0]: episode_of(row, user) for _, row in episodes}
            return (
                [passage_of(hit, built[hit.number]) for hit, _ in episodes],
                [passage_of(hit, fact_of(row, user)) for hit, row in facts],
            )

        return await self._searching(user, work, ([], []))

    async def _searching(self, user: str | None, work: Callable[[Database, Owner], Result], nothing: Result) -> Result:
        """Search in a read transaction; where the index is of another version, build it anew first."""

        def reading(db: Database) -> tuple[Result, bool]:
            owner, version = owners.find(db, user)
            if owner is None or version != VERSION:
                return nothing, owner is not None
            return work(db, owner), False

        found, is_outdated = await self._connections.read(user, reading)
        if is_outdated:
            await self._connections.write(user, lambda db: owners.give(db, user))
            found, _ = await self._connections.read(user, reading)
        return found

    async def _names(self, user: str | None, at: datetime | None) -> Names:
        def work(db: Database) -> Names:
            values = {"owner": owners.found(db, user), "at": to_micros(at)}
            names = sorted(db.run("names" if at is None else "names_at", values))  # sealed ones come in another order
            same_as = db.run("aliases" if at is None else "aliases_at", values)
            users, agents = (tuple(name for name, is_agent in names if is_agent == kind) for kind in (0, 1))
            return Names(users, agents, dict(same_as))

        return await self._connections.read(user, work)

    # Sessions

    async def _turns(self, user: str | None, session: str | None, newest: int | None) -> list[Turn]:
        def work(db: Database) -> list[Turn]:
            values = {"owner": owners.found(db, user), "session_id": session, "newest": newest or ALL_ROWS}
            query = "all_turns" if session is None else "session_turns"
            return [turn_of(row, user) for row in db.run(query, values)]

        return await self._connections.read(user, work)

    async def _begin_run(self, user: str | None, run: OpenRun) -> None:
        def work(db: Database) -> None:
            owner = owners.give(db, user)
            values = {
                "owner": owner,
                "run_id": run.run_id,
                "session_id": run.session_id,
                "turn": owners.next_turn(db, owner),
                "started_at": to_micros(run.started_at),
                "prompt": run.prompt,
                "is_text": run.is_text,
            }
            db.run("open_run", values)

        await self._connections.write(user, work)

    async def _finish_run(self, user: str | None, run_id: str, new: NewEpisode) -> None:
        def work(db: Database) -> None:
            owner = owners.give(db, user)
            key = {"owner": owner, "session_id": new.episode.session_id, "run_id": run_id}
            row = db.run("run_turn", key).fetchone()
            db.run("close_run", key)
            added: list[Indexed] = []
            self._add_episode(db, owner, user, new, row[0] if row else owners.next_turn(db, owner), added)
            self._merge_later(user, owner, due=segments.add(db, owner, EPISODE, added))

        await self._connections.write(user, work)

    async def _interrupt_run(
        self, user: str | None, session: str, run_id: str, messages: str | None, error: str
    ) -> None:
        def work(db: Database) -> None:
            key = {"owner": owners.hold(db, user), "session_id": session, "run_id": run_id}
            db.run("interrupt_run", key | {"messages": messages, "error": error})

        await self._connections.write(user, work)

    # Vectors

    async def _unembedded(
        self, user: str | None, embedder: str, limit: int, dimensions: int | None
    ) -> tuple[list[Episode], list[Fact]]:
        def work(db: Database, owner: Owner) -> tuple[list[Episode], list[Fact]]:
            number = segments.embedder_no(db, embedder)
            found: list[list[Row]] = []
            for kind in (EPISODE, FACT):
                missing = self._searcher.without_vectors(db, owner, kind, number, dimensions)
                missing = missing[:limit] if kind == EPISODE else missing  # of facts, some are believed no more
                values = {"owner": owner, "numbers": json.dumps(missing), "limit": limit}
                found.append(db.run(f"{KINDS[kind]}_of_numbers", values).fetchall())
            episodes, facts = found
            return [episode_of(row, user) for row in episodes], [fact_of(row, user) for row in facts]

        return await self._searching(user, work, ([], []))

    async def _set_vectors(
        self, user: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None:
        def work(db: Database) -> None:
            owner = owners.hold(db, user)
            if owner is None:
                return
            due = False
            for kind, query, build, embedded in (
                (EPISODE, "episode_by_id", episode_of, episodes), (FACT, "fact_by_id", fact_of, facts)
            ):  # fmt: skip
                rows = {id_: db.run(query, {"owner": owner, "id": id_}).fetchone() for id_ in embedded}
                items = [
                    (row[0], len(texts_of(build(row, user))), embedded[id_])
                    for id_, row in rows.items()
                    if row is not None and vectors.is_usable(embedded[id_].vector)
                ]
                due |= self._searcher.replace_vectors(db, owner, kind, items)
            self._merge_later(user, owner, due=due)

        await self._connections.write(user, work)

    async def _drop_vectors(self, user: str | None, but: str) -> None:
        def work(db: Database) -> None:
            owner, embedder = owners.hold(db, user), segments.embedder_no(db, but)
            if owner is not None:
                self._searcher.keep_only(db, owner, embedder)

        await self._connections.write(user, work)

    def _merge_later(self, user: str | None, owner: Owner, *, due: bool) -> None:
        """Tend a user's index once this write is done: no caller waits for it."""
        if due:
            self._connections.write_later(user, lambda db: self._tend(db, user, owner))

    def _tend(self, db: Database, user: str | None, owner: Owner) -> None:
        self._merge_later(user, owner, due=self._searcher.tend(db, owner))

    # Everything

    async def _forget(
        self, user: str | None, session: str | None, before: datetime | None,
        settle: Callable[[list[Fact]], FactScript[None]], *, secure: bool,
    ) -> Forgotten:  # fmt: skip
        everything = session is None and before is None

        def work(db: Database) -> tuple[Forgotten, Owner]:
            owner = owners.hold(db, user)
            if owner is None:
                return Forgotten(), db.nobody
            values = {"owner": owner, "session_id": session, "before": to_micros(before)}
            touched: list[Fact] = []
            if everything:
                facts = db.run("delete_facts", values).rowcount
            else:
                facts, touched = forget_tellings(db, owner, session, before)
            episodes = db.run("delete_episodes", values).rowcount
            db.run("delete_open_runs", values)
            blocks = db.run("delete_blocks", values).rowcount if everything else 0
            if everything:
                db.run("delete_block_versions", values)
            if facts or episodes:
                segments.prune(db, owner)
            if touched:
                carry_out(db, self._searcher, owner, user, settle(touched), {})
            owners.drop_if_empty(db, owner, everything=everything)
            return Forgotten(blocks=blocks, facts=facts, episodes=episodes), owner

        forgotten, owner = await self._connections.write(user, work)
        self._searcher.forget(owner)  # else the words of what is gone stay in this process for long
        if secure:
            await self._connections.erase_traces()
        return forgotten

    # The queue of what is still to be learned from

    async def _claim_undistilled(
        self, user: str | None, everyone: bool, claim: str, now: datetime, until: datetime, limit: int
    ) -> list[Undistilled]:
        def work(db: Database) -> list[Undistilled]:
            return undistilled.take(db, owners.one_or_all(db, user, everyone=everyone), claim, now, until, limit)

        return await self._connections.write(... if everyone else user, work)

    async def _finish_undistilled(
        self, user: str | None, episode_id: str, claim: str, script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded],
    ) -> Result | None:  # fmt: skip
        def work(db: Database) -> Result | None:
            owner = owners.hold(db, user)
            number = None if owner is None else undistilled.claimed(db, owner, episode_id, claim)
            if owner is None or number is None:
                return None
            result, merge = carry_out(db, self._searcher, owner, user, script(), embedded)
            undistilled.strike(db, owner, number)
            self._merge_later(user, owner, due=merge)
            return result

        return await self._connections.write(user, work)

    async def _postpone_undistilled(
        self, user: str | None, episode_id: str, claim: str, error: str, due_at: datetime | None
    ) -> None:
        def work(db: Database) -> None:
            owner = owners.hold(db, user)
            number = None if owner is None else undistilled.claimed(db, owner, episode_id, claim)
            if owner is not None and number is not None:
                undistilled.postpone(db, owner, number, error, due_at)

        await self._connections.write(user, work)

    async def release_undistilled(self, claim: str, *, was_tried: bool = False) -> None:
        values = {"claim": claim, "was_tried": was_tried}
        await self._connections.write(..., lambda db: db.run("release", values) and None)

    async def undistilled_claims(self) -> list[str]:
        return await self._connections.read(..., lambda db: [claim for (claim,) in db.run("claims")])

    async def _unpark(self, user: str | None, everyone: bool, now: datetime) -> int:
        def work(db: Database) -> int:
            values = {"owner": owners.one_or_all(db, user, everyone=everyone), "now": to_micros(now)}
            return db.run("unpark", values).rowcount

        return await self._connections.write(... if everyone else user, work)

    async def _queue(self, user: str | None, everyone: bool, now: datetime) -> Queue:
        def work(db: Database) -> Queue:
            return undistilled.counts(db, owners.one_or_all(db, user, everyone=everyone), now)

        return await self._connections.read(... if everyone else user, work)

    async def _stats(self, user: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats:
        def work(db: Database) -> MemoryStats:
            known = -1 if embedder is None else segments.embedder_no(db, embedder)
            values = {"owner": owners.one_or_all(db, user, everyone=everyone), "embedder_no": known}
            users, sessions, blocks, facts, versions, episodes = db.run("counts", values).fetchone()
            (size,) = db.run("size").fetchone()
            missing = 0 if embedder is None else facts + episodes - segments.count_embedded(db, values)
            return MemoryStats(users, sessions, blocks, facts, versions, episodes, missing, size, embedder, self.url)

        return await self._connections.read(... if everyone else user, work)
