"""The SQLite store: rows, keyword index and vectors in one file, or in memory.

Everything here runs in the threads of `Connections`, as functions of a connection. What is searched is the user's
partition, see `loomflow.index`: the database keeps its segments and the rows. See `sql/sqlite/queries.sql`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from loomflow.index import vectors
from loomflow.index.parts import texts_of
from loomflow.index.segments import VERSION
from loomflow.items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats
from loomflow.moments import to_micros
from loomflow.ports import (
    BlockPlan,
    Clock,
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

from . import segments, undistilled
from .base import BaseStore, system_clock
from .connections import Connections
from .fact_rows import carry_out, list_facts
from .forgetting import forget_tellings
from .queries import queries
from .rows import BuiltOnUse, Row, block_of, episode_columns, episode_of, fact_of, turn_of
from .searching import Searcher, passage_of
from .segments import EPISODE, FACT, KINDS, Indexed

SQL: Final = queries("sqlite")
ALL_ROWS = -1
BLOCK_VERSIONS = 100
"""So many earlier versions of a block are kept, to show a moment as it was."""

Connection = sqlite3.Connection


class SQLiteStore(BaseStore):
    """A memory in an SQLite file, or in process memory.

    Args:
        path: the file; created if missing, its folder is not. None keeps everything in memory.
        clock: source of the present moment.
    """

    def __init__(self, path: str | os.PathLike[str] | None, clock: Clock = system_clock) -> None:
        super().__init__(clock)
        self.path = None if path is None else Path(path).expanduser()
        self._connections = Connections(self.path)
        self._searcher = Searcher()

    @property
    def url(self) -> str:
        return "inmemory" if self.path is None else f"sqlite:{self.path}"

    async def open(self) -> None:
        await self._connections.open()

    async def aclose(self) -> None:
        await self._connections.aclose()
        self._searcher.clear()

    async def users(self) -> list[str | None]:
        return await self._connections.read(
            lambda db: [user_id or None for (user_id,) in db.execute(SQL["list_users"])]
        )

    # Working blocks

    async def _blocks(self, user: str | None, at: datetime | None) -> list[MemoryBlock]:
        def work(db: Connection) -> list[MemoryBlock]:
            values = {"user_no": _find_user(db, user)[0], "at": to_micros(at)}
            return [block_of(row, user) for row in db.execute(SQL["blocks" if at is None else "blocks_at"], values)]

        return await self._connections.read(work)

    async def _change_block(self, user: str | None, name: str, plan: BlockPlan, now: datetime) -> MemoryBlock | None:
        def work(db: Connection) -> MemoryBlock | None:
            user_no = _user_no(db, user)
            key = {"user_no": user_no, "name": name}
            row = db.execute(SQL["block"], key).fetchone()
            old = block_of(row, user) if row else None
            new = plan(old)
            if new is not old:
                ended_at = now if new is None else new.updated_at
                db.execute(SQL["keep_block_version"], key | {"ended_at": to_micros(ended_at)})
                db.execute(SQL["drop_old_block_versions"], key | {"keep": BLOCK_VERSIONS})
            if new is None:
                db.execute(SQL["delete_block"], key)
                db.execute(SQL["raise_block_floor"], key | {"version": old.version if old else 0})
                _drop_if_empty(db, user_no)
            elif new is not old:
                if old is None:
                    floor, was_there = db.execute(SQL["block_floor"], key).fetchone()
                    written_at = now if was_there else new.updated_at  # an import does not change what was there before
                    new = replace(new, version=max(new.version, floor + 1), updated_at=written_at)
                values = {"content": new.content, "version": new.version, "updated_at": to_micros(new.updated_at)}
                db.execute(SQL["put_block"], key | values)
            return new

        return await self._connections.write(work)

    # Facts

    async def _change_facts(
        self, user: str | None, script: Callable[[], FactScript[Result]], embedded: Mapping[str, Embedded]
    ) -> Result:
        def work(db: Connection) -> Result:
            user_no = _user_no(db, user)
            result, merge = carry_out(db, self._searcher, user_no, user, script(), embedded)
            _drop_if_empty(db, user_no)
            self._merge_later(user_no, due=merge)
            return result

        return await self._connections.write(work)

    async def _facts(self, user: str | None, which: FactFilter) -> list[Fact]:
        return await self._connections.read(lambda db: list_facts(db, _find_user(db, user)[0], user, which))

    # Episodes

    async def _add_episodes(self, user: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]:
        def work(db: Connection) -> list[Episode]:
            user_no = _user_no(db, user)
            added: list[Indexed] = []
            stored = [self._add_episode(db, user_no, user, new, _next_turn(db, user_no), added) for new in episodes]
            self._merge_later(user_no, due=segments.add(db, user_no, EPISODE, added))
            return stored

        return await self._connections.write(work)

    def _add_episode(
        self, db: Connection, user_no: int, user: str | None, new: NewEpisode, turn: int, added: list[Indexed]
    ) -> Episode:
        """Write an episode, if it is new; then it is put into `added`, to be indexed."""
        columns = episode_columns(new.episode, user_no, turn)
        row = db.execute(SQL["add_episode"], columns).fetchall()
        if not row:
            return episode_of(db.execute(SQL["episode_by_id"], columns).fetchone(), user)
        ((number,),) = row
        if new.messages is not None:
            db.execute(SQL["add_messages"], {"episode_no": number, "messages": new.messages})
        for is_agent, name in enumerate((new.episode.user_name, new.episode.agent_name)):
            if name is not None:
                db.execute(SQL["add_name"], {"user_no": user_no, "name": name, "is_agent": is_agent})
        if new.distill:
            undistilled.put(db, user_no, number, self.clock())
        added.append(Indexed(number, new.episode, [new.embedded]))
        return new.episode

    async def _episodes(self, user: str | None, session: str | None, limit: int | None) -> list[Episode]:
        def work(db: Connection) -> list[Episode]:
            values = {"user_no": _find_user(db, user)[0], "session_id": session, "limit": limit or ALL_ROWS}
            return [episode_of(row, user) for row in db.execute(SQL["list_episodes"], values)]

        return await self._connections.read(work)

    # Search

    async def _search(self, user: str | None, search: Search, now: datetime) -> tuple[Found[Episode], Found[Fact]]:
        def work(db: Connection, user_no: int) -> tuple[Found[Episode], Found[Fact]]:
            episodes: Found[Episode] = Found({})
            facts: Found[Fact] = Found({})
            if search.episodes:
                rows, lexical, vector = self._searcher.ranked(db, EPISODE, user_no, search, now)
                episodes = Found(BuiltOnUse(rows, episode_of, user), lexical, vector)
            if search.facts:
                rows, lexical, vector = self._searcher.ranked(db, FACT, user_no, search, now)
                facts = Found(BuiltOnUse(rows, fact_of, user), lexical, vector)
            return episodes, facts

        return await self._searching(user, work, (Found({}), Found({})))

    async def _passages(
        self, user: str | None, search: Search, now: datetime
    ) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
        def work(db: Connection, user_no: int) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
            kinds = ((EPISODE, search.episodes), (FACT, search.facts))
            episodes, facts = (
                self._searcher.best_passages(db, kind, user_no, search, now) if wanted else [] for kind, wanted in kinds
            )
            built = {row[0]: episode_of(row, user) for _, row in episodes}
            return (
                [passage_of(hit, built[hit.number]) for hit, _ in episodes],
                [passage_of(hit, fact_of(row, user)) for hit, row in facts],
            )

        return await self._searching(user, work, ([], []))

    async def _searching(self, user: str | None, work: Callable[[Connection, int], Result], nothing: Result) -> Result:
        """Search in a read transaction; where the index is of another version, build it anew first."""

        def reading(db: Connection) -> tuple[Result, bool]:
            user_no, _, version = _find_user(db, user)
            if user_no is None or version != VERSION:
                return nothing, user_no is not None
            return work(db, user_no), False

        found, is_outdated = await self._connections.read(reading)
        if is_outdated:
            await self._connections.write(lambda db: _user_no(db, user))
            found, _ = await self._connections.read(reading)
        return found

    async def _names(self, user: str | None, at: datetime | None) -> Names:
        def work(db: Connection) -> Names:
            values = {"user_no": _find_user(db, user)[0], "at": to_micros(at)}
            names = db.execute(SQL["names" if at is None else "names_at"], values).fetchall()
            same_as = db.execute(SQL["aliases" if at is None else "aliases_at"], values)
            users, agents = (tuple(name for name, is_agent in names if is_agent == kind) for kind in (0, 1))
            return Names(users, agents, dict(same_as))

        return await self._connections.read(work)

    # Sessions

    async def _turns(self, user: str | None, session: str | None, newest: int | None) -> list[Turn]:
        def work(db: Connection) -> list[Turn]:
            values = {"user_no": _find_user(db, user)[0], "session_id": session, "newest": newest or ALL_ROWS}
            query = "all_turns" if session is None else "session_turns"
            return [turn_of(row, user) for row in db.execute(SQL[query], values)]

        return await self._connections.read(work)

    async def _begin_run(self, user: str | None, run: OpenRun) -> None:
        def work(db: Connection) -> None:
            user_no = _user_no(db, user)
            values = {
                "user_no": user_no,
                "run_id": run.run_id,
                "session_id": run.session_id,
                "turn": _next_turn(db, user_no),
                "started_at": to_micros(run.started_at),
                "prompt": run.prompt,
                "is_text": run.is_text,
            }
            db.execute(SQL["open_run"], values)

        await self._connections.write(work)

    async def _finish_run(self, user: str | None, run_id: str, new: NewEpisode) -> None:
        def work(db: Connection) -> None:
            user_no = _user_no(db, user)
            key = {"user_no": user_no, "session_id": new.episode.session_id, "run_id": run_id}
            row = db.execute(SQL["run_turn"], key).fetchone()
            db.execute(SQL["close_run"], key)
            added: list[Indexed] = []
            self._add_episode(db, user_no, user, new, row[0] if row else _next_turn(db, user_no), added)
            self._merge_later(user_no, due=segments.add(db, user_no, EPISODE, added))

        await self._connections.write(work)

    async def _interrupt_run(
        self, user: str | None, session: str, run_id: str, messages: str | None, error: str
    ) -> None:
        def work(db: Connection) -> None:
            key = {"user_no": _find_user(db, user)[0], "session_id": session, "run_id": run_id}
            db.execute(SQL["interrupt_run"], key | {"messages": messages, "error": error})

        await self._connections.write(work)

    # Vectors

    async def _unembedded(
        self, user: str | None, embedder: str, limit: int, dimensions: int | None
    ) -> tuple[list[Episode], list[Fact]]:
        def work(db: Connection, user_no: int) -> tuple[list[Episode], list[Fact]]:
            number = segments.embedder_no(db, embedder)
            found: list[list[Row]] = []
            for kind in (EPISODE, FACT):
                missing = self._searcher.without_vectors(db, user_no, kind, number, dimensions)
                missing = missing[:limit] if kind == EPISODE else missing  # of facts, some are believed no more
                values = {"user_no": user_no, "numbers": json.dumps(missing), "limit": limit}
                found.append(db.execute(SQL[f"{KINDS[kind]}_of_numbers"], values).fetchall())
            episodes, facts = found
            return [episode_of(row, user) for row in episodes], [fact_of(row, user) for row in facts]

        return await self._searching(user, work, ([], []))

    async def _set_vectors(
        self, user: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None:
        def work(db: Connection) -> None:
            user_no = _find_user(db, user)[0]
            if user_no is None:
                return
            due = False
            for kind, query, build, embedded in (
                (EPISODE, "episode_by_id", episode_of, episodes), (FACT, "fact_by_id", fact_of, facts)
            ):  # fmt: skip
                rows = {id_: db.execute(SQL[query], {"user_no": user_no, "id": id_}).fetchone() for id_ in embedded}
                items = [
                    (row[0], len(texts_of(build(row, user))), embedded[id_])
                    for id_, row in rows.items()
                    if row is not None and vectors.is_usable(embedded[id_].vector)
                ]
                self._replace_vectors(db, user_no, kind, items)
                due |= segments.add_vectors(db, user_no, kind, items)
            self._merge_later(user_no, due=due)

        await self._connections.write(work)

    def _replace_vectors(
        self, db: Connection, user_no: int, kind: int, items: Sequence[tuple[int, int, Embedded]]
    ) -> None:
        """Take out the vectors that items have already from the embedders that they are given new ones of."""
        for name in {embedded.embedder for _, _, embedded in items}:
            embedder = segments.embedder_no(db, name)
            numbers = {number for number, _, embedded in items if embedded.embedder == name}
            numbers -= set(self._searcher.without_vectors(db, user_no, kind, embedder))
            if numbers:
                segments.remove_vectors(db, user_no, kind, embedder, numbers)

    async def _drop_vectors(self, user: str | None, but: str) -> None:
        def work(db: Connection) -> None:
            user_no, embedder = _find_user(db, user)[0], segments.embedder_no(db, but)
            if user_no is not None:
                segments.keep_only(db, user_no, embedder)

        await self._connections.write(work)

    def _merge_later(self, user_no: int, *, due: bool) -> None:
        """Merge a user's segments once this write is done: no caller waits for it."""
        if due:
            self._connections.write_later(lambda db: segments.merge_small(db, user_no))

    # Everything

    async def _forget(
        self, user: str | None, session: str | None, before: datetime | None,
        settle: Callable[[list[Fact]], FactScript[None]], *, secure: bool,
    ) -> Forgotten:  # fmt: skip
        everything = session is None and before is None

        def work(db: Connection) -> Forgotten:
            user_no = _find_user(db, user)[0]
            if user_no is None:
                return Forgotten()
            values = {"user_no": user_no, "session_id": session, "before": to_micros(before)}
            touched: list[Fact] = []
            if everything:
                facts = db.execute(SQL["delete_facts"], values).rowcount
            else:
                facts, touched = forget_tellings(db, user_no, session, before)
            episodes = db.execute(SQL["delete_episodes"], values).rowcount
            db.execute(SQL["delete_open_runs"], values)
            blocks = db.execute(SQL["delete_blocks"], values).rowcount if everything else 0
            if everything:
                db.execute(SQL["delete_block_versions"], values)
            if facts or episodes:
                segments.prune(db, user_no)
            if touched:
                carry_out(db, self._searcher, user_no, user, settle(touched), {})
            _drop_if_empty(db, user_no, everything=everything)
            return Forgotten(blocks=blocks, facts=facts, episodes=episodes)

        forgotten = await self._connections.write(work)
        if secure:
            await self._connections.erase_traces()
        return forgotten

    # The queue of what is still to be learned from

    async def _claim_undistilled(
        self, user: str | None, everyone: bool, claim: str, now: datetime, until: datetime, limit: int
    ) -> list[Undistilled]:
        return await self._connections.write(
            lambda db: undistilled.take(db, _one_or_all(db, user, everyone=everyone), claim, now, until, limit)
        )

    async def _finish_undistilled(
        self, user: str | None, episode_id: str, claim: str, script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded],
    ) -> Result | None:  # fmt: skip
        def work(db: Connection) -> Result | None:
            number = undistilled.claimed(db, _find_user(db, user)[0], episode_id, claim)
            if number is None:
                return None
            user_no = _user_no(db, user)
            result, merge = carry_out(db, self._searcher, user_no, user, script(), embedded)
            undistilled.strike(db, number)
            self._merge_later(user_no, due=merge)
            return result

        return await self._connections.write(work)

    async def _postpone_undistilled(
        self, user: str | None, episode_id: str, claim: str, error: str, due_at: datetime | None
    ) -> None:
        def work(db: Connection) -> None:
            number = undistilled.claimed(db, _find_user(db, user)[0], episode_id, claim)
            if number is not None:
                undistilled.postpone(db, number, error, due_at)

        await self._connections.write(work)

    async def release_undistilled(self, claim: str, *, was_tried: bool = False) -> None:
        values = {"claim": claim, "was_tried": was_tried}
        await self._connections.write(lambda db: db.execute(SQL["release"], values) and None)

    async def undistilled_claims(self) -> list[str]:
        return await self._connections.read(lambda db: [claim for (claim,) in db.execute(SQL["claims"])])

    async def _unpark(self, user: str | None, everyone: bool, now: datetime) -> int:
        def work(db: Connection) -> int:
            values = {"user_no": _one_or_all(db, user, everyone=everyone), "now": to_micros(now)}
            return db.execute(SQL["unpark"], values).rowcount

        return await self._connections.write(work)

    async def _queue(self, user: str | None, everyone: bool, now: datetime) -> Queue:
        return await self._connections.read(
            lambda db: undistilled.counts(db, _one_or_all(db, user, everyone=everyone), now)
        )

    async def _stats(self, user: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats:
        def work(db: Connection) -> MemoryStats:
            known = db.execute(SQL["embedder_no"], {"name": embedder}).fetchone()
            user_no = _one_or_all(db, user, everyone=everyone)
            values = {"user_no": user_no, "embedder_no": known[0] if known else -1}
            users, sessions, blocks, facts, versions, episodes = db.execute(SQL["counts"], values).fetchone()
            pages = db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
            missing = 0 if embedder is None else facts + episodes - segments.count_embedded(db, values)
            return MemoryStats(users, sessions, blocks, facts, versions, episodes, missing, pages, embedder, self.url)

        return await self._connections.read(work)


def _find_user(db: Connection, user: str | None) -> tuple[int | None, int, int]:
    """A user's number, epoch and index version; no number if nothing was ever written for them."""
    row = db.execute(SQL["user_no"], {"user_id": user or ""}).fetchone()
    return row or (None, 0, VERSION)


def _one_or_all(db: Connection, user: str | None, *, everyone: bool) -> int | None:
    """A user's number, 0 for one who has none; None for everyone."""
    return None if everyone else (_find_user(db, user)[0] or 0)


def _user_no(db: Connection, user: str | None) -> int:
    """A user's number, given out on the first write, with an index of the present version."""
    number, _, version = _find_user(db, user)
    if number is None:
        number = db.execute(SQL["add_user"], {"user_id": user or "", "version": VERSION}).lastrowid
        assert number is not None
    elif version != VERSION:
        segments.rebuild(db, number)
    return number


def _drop_if_empty(db: Connection, user_no: int, *, everything: bool = False) -> None:
    if db.execute(SQL["is_empty"], {"user_no": user_no, "everything": everything}).fetchone()[0]:
        db.execute(SQL["drop_user"], {"user_no": user_no})


def _next_turn(db: Connection, user_no: int) -> int:
    ((turn,),) = db.execute(SQL["next_turn"], {"user_no": user_no}).fetchall()
    return turn
