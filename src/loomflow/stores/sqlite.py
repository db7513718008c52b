"""The SQLite store: rows, keyword index and vectors in one file, or in memory.

Everything here runs in the threads of `Connections`, as functions of a connection. Keyword search is FTS5, narrowed to
the user inside the index; vector search is exact over the user's partition. See `sql/sqlite/queries.sql`.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from loomflow.bitemporal import FactChanges, is_single_valued, predicate_key
from loomflow.items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats
from loomflow.ports import BlockPlan, Clock, Embedded, FactFilter, FactPlan, Found, NewEpisode, OpenRun, Search, Turn
from loomflow.words import normal_form

from .base import BaseStore, system_clock
from .connections import Connections
from .keywords import keyword_search
from .queries import queries
from .rows import (
    BuiltOnUse,
    Row,
    block_of,
    episode_columns,
    episode_of,
    fact_columns,
    fact_of,
    to_micros,
    turn_of,
)
from .vectors import NO_COSINES, STORED, Cosines, VectorCache, best, normalised, pack

logger = logging.getLogger("loomflow")

SQL: Final = queries("sqlite")
EPISODE, FACT = 0, 1
KINDS: Final = ("episodes", "facts")
ALL_ROWS = -1
MAX_COMPARED = 10_000

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
        self._vectors = VectorCache()
        self._compared: set[tuple[int, ...]] = set()

    @property
    def url(self) -> str:
        return "inmemory" if self.path is None else f"sqlite:{self.path}"

    async def open(self) -> None:
        await self._connections.open()

    async def aclose(self) -> None:
        await self._connections.aclose()
        self._vectors.clear()

    async def users(self) -> list[str | None]:
        return await self._connections.read(
            lambda db: [user_id or None for (user_id,) in db.execute(SQL["list_users"])]
        )

    # Working blocks

    async def _blocks(self, user: str | None) -> list[MemoryBlock]:
        def work(db: Connection) -> list[MemoryBlock]:
            return [block_of(row, user) for row in db.execute(SQL["blocks"], {"user_no": _find_user(db, user)[0]})]

        return await self._connections.read(work)

    async def _change_block(self, user: str | None, name: str, plan: BlockPlan) -> MemoryBlock | None:
        def work(db: Connection) -> MemoryBlock | None:
            user_no = _user_no(db, user)
            key = {"user_no": user_no, "name": name}
            row = db.execute(SQL["block"], key).fetchone()
            old = block_of(row, user) if row else None
            new = plan(old)
            if new is None:
                db.execute(SQL["delete_block"], key)
                db.execute(SQL["raise_block_floor"], key | {"version": old.version if old else 0})
                _drop_if_empty(db, user_no)
            elif new is not old:
                if old is None:
                    (floor,) = db.execute(SQL["block_floor"], key).fetchone()
                    new = replace(new, version=max(new.version, floor + 1))
                values = {"content": new.content, "version": new.version, "updated_at": to_micros(new.updated_at)}
                db.execute(SQL["put_block"], key | values)
            return new

        return await self._connections.write(work)

    # Facts

    async def _add_facts(
        self, user: str | None, facts: Sequence[tuple[Fact, Embedded]], plan: FactPlan
    ) -> list[FactChanges]:
        def work(db: Connection) -> list[FactChanges]:
            user_no = _user_no(db, user)
            changes = [self._add_fact(db, user_no, user, fact, embedded, plan) for fact, embedded in facts]
            _drop_if_empty(db, user_no)
            return changes

        return await self._connections.write(work)

    def _add_fact(
        self, db: Connection, user_no: int, user: str | None, fact: Fact, embedded: Embedded, plan: FactPlan
    ) -> FactChanges:
        key = fact_columns(fact, user_no) | {"gathers": not is_single_valued(fact.predicate)}
        believed = {row[0]: fact_of(row, user) for row in db.execute(SQL["believed_facts"], key)}
        changes = plan(list(believed.values()), fact)
        numbers = {old.id: number for number, old in believed.items()}
        for old in changes.retire:
            db.execute(SQL["retire_fact"], fact_columns(old, user_no)).fetchall()
        for version in changes.add:
            (number,) = db.execute(SQL["add_fact"], fact_columns(version, user_no)).fetchone()
            before = numbers.get(version.id)
            if before is not None and believed[before].text == version.text:
                db.execute(SQL["copy_vectors"], {"user_no": user_no, "from_no": before, "to_no": number})
            elif version.text == fact.text:
                _write_vector(db, user_no, FACT, number, embedded)
        return changes

    async def _facts(self, user: str | None, which: FactFilter) -> list[Fact]:
        def work(db: Connection) -> list[Fact]:
            values = {
                "user_no": _find_user(db, user)[0],
                "subject_key": None if which.subject is None else normal_form(which.subject),
                "predicate_key": None if which.predicate is None else predicate_key(which.predicate),
                "object_key": None if which.object is None else normal_form(which.object),
                "valid_at": to_micros(which.valid_at),
                "known_at": to_micros(which.known_at),
                "history": which.history,
            }
            return [fact_of(row, user) for row in db.execute(SQL["list_facts"], values)]

        return await self._connections.read(work)

    async def _retract_fact(self, user: str | None, fact_id: str, moment: datetime) -> bool:
        def work(db: Connection) -> bool:
            values = {"user_no": _find_user(db, user)[0], "id": fact_id, "retired_at": to_micros(moment)}
            return bool(db.execute(SQL["retire_fact"], values).fetchall())

        return await self._connections.write(work)

    # Episodes

    async def _add_episodes(self, user: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]:
        def work(db: Connection) -> list[Episode]:
            user_no = _user_no(db, user)
            return [_add_episode(db, user_no, user, new, _next_turn(db, user_no)) for new in episodes]

        return await self._connections.write(work)

    async def _episodes(self, user: str | None, session: str | None, limit: int | None) -> list[Episode]:
        def work(db: Connection) -> list[Episode]:
            values = {"user_no": _find_user(db, user)[0], "session_id": session, "limit": limit or ALL_ROWS}
            return [episode_of(row, user) for row in db.execute(SQL["list_episodes"], values)]

        return await self._connections.read(work)

    # Search

    async def _search(self, user: str | None, search: Search, now: datetime) -> tuple[Found[Episode], Found[Fact]]:
        def work(db: Connection) -> tuple[Found[Episode], Found[Fact]]:
            user_no, epoch = _find_user(db, user)
            if user_no is None:
                return Found({}), Found({})
            episodes: Found[Episode] = Found({})
            facts: Found[Fact] = Found({})
            if search.episodes:
                lexical, vector, rows = self._search_kind(db, EPISODE, user_no, epoch, search, now)
                episodes = Found(BuiltOnUse(rows, episode_of, user), lexical, vector)
            if search.facts:
                lexical, vector, rows = self._search_kind(db, FACT, user_no, epoch, search, now)
                facts = Found(BuiltOnUse(rows, fact_of, user), lexical, vector)
            return episodes, facts

        return await self._connections.read(work)

    def _search_kind(
        self, db: Connection, kind: int, user_no: int, epoch: int, search: Search, now: datetime
    ) -> tuple[tuple[int, ...], tuple[tuple[int, float], ...], dict[int, Row]]:
        wanted = _Wanted(db, kind, user_no, search, now)

        def matches(depth: int) -> list[int]:
            return keyword_search(db, KINDS[kind], user_no, search.words, depth) if search.words else []

        numbers, cosines = self._cosines(db, kind, user_no, epoch, search.query)

        similarity: dict[int, float] = {}

        def neighbours(depth: int) -> list[int]:
            positions = best(cosines, depth)
            similarity.update((numbers[position], float(cosines[position])) for position in positions)
            return [numbers[position] for position in positions]

        found, near = matches(search.limit), neighbours(search.limit)
        wanted.check([*found, *near])  # both at once
        lexical = wanted.first(found, matches)
        nearest = wanted.first(near, neighbours)
        return tuple(lexical), tuple((number, similarity[number]) for number in nearest), wanted.rows

    def _cosines(self, db: Connection, kind: int, user_no: int, epoch: int, query: Embedded) -> Cosines:
        unit = None if query.vector is None else normalised(query.vector)
        if unit is None:
            return NO_COSINES
        row = db.execute(SQL["embedder_no"], {"name": query.embedder}).fetchone()
        key = (user_no, kind, row[0] if row else 0, len(unit))
        values: dict[str, Any] = {
            "user_no": user_no, "kind": kind, "embedder_no": key[2], "bytes": STORED.itemsize * len(unit),
        }  # fmt: skip

        def load(after: int) -> list[tuple[int, bytes]]:
            return db.execute(SQL["vectors_after"], values | {"after": after}).fetchall()

        numbers, cosines = self._vectors.cosines(key, epoch, unit, load) if row else NO_COSINES
        if key not in self._compared:
            if len(self._compared) >= MAX_COMPARED:
                self._compared.clear()
            self._compared.add(key)
            (count,) = db.execute(SQL[f"count_{KINDS[kind]}"], {"user_no": user_no}).fetchone()
            missing = count - len(numbers)
            if missing > 0:
                message = "%d %s have no vector of embedder %s and are found by keyword only; reembed() makes them"
                logger.warning(message, missing, KINDS[kind], query.embedder)
        return numbers, cosines

    # Sessions

    async def _turns(self, user: str | None, session: str | None) -> list[Turn]:
        def work(db: Connection) -> list[Turn]:
            values = {"user_no": _find_user(db, user)[0], "session_id": session}
            return [turn_of(row, user) for row in db.execute(SQL["session_turns"], values)]

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
            _add_episode(db, user_no, user, new, row[0] if row else _next_turn(db, user_no))

        await self._connections.write(work)

    async def _interrupt_run(
        self, user: str | None, session: str, run_id: str, messages: str | None, error: str
    ) -> None:
        def work(db: Connection) -> None:
            key = {"user_no": _find_user(db, user)[0], "session_id": session, "run_id": run_id}
            db.execute(SQL["interrupt_run"], key | {"messages": messages, "error": error})

        await self._connections.write(work)

    # Vectors

    async def _unembedded(self, user: str | None, embedder: str, limit: int) -> tuple[list[Episode], list[Fact]]:
        def work(db: Connection) -> tuple[list[Episode], list[Fact]]:
            row = db.execute(SQL["embedder_no"], {"name": embedder}).fetchone()
            values = {"user_no": _find_user(db, user)[0], "embedder_no": row[0] if row else 0, "limit": limit}
            episodes = [episode_of(row, user) for row in db.execute(SQL["unembedded_episodes"], values)]
            return episodes, [fact_of(row, user) for row in db.execute(SQL["unembedded_facts"], values)]

        return await self._connections.read(work)

    async def _set_vectors(
        self, user: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None:
        def work(db: Connection) -> None:
            user_no, _ = _find_user(db, user)
            if user_no is None:
                return
            for id_, embedded in episodes.items():
                row = db.execute(SQL["episode_by_id"], {"user_no": user_no, "id": id_}).fetchone()
                if row is not None:
                    _replace_vector(db, user_no, EPISODE, row[0], embedded)
            for id_, embedded in facts.items():
                row = db.execute(SQL["fact_by_id"], {"user_no": user_no, "id": id_}).fetchone()
                if row is not None:
                    _replace_vector(db, user_no, FACT, row[0], embedded)
            db.execute(SQL["touch_vectors"], {"user_no": user_no})

        await self._connections.write(work)

    # Everything

    async def _forget(
        self, user: str | None, session: str | None, before: datetime | None, *, secure: bool
    ) -> Forgotten:
        def work(db: Connection) -> Forgotten:
            user_no = _find_user(db, user)[0]
            if user_no is None:
                return Forgotten()
            values = {"user_no": user_no, "session_id": session, "before": to_micros(before)}
            everything = session is None and before is None
            facts = db.execute(SQL["delete_facts"], values).rowcount
            episodes = db.execute(SQL["delete_episodes"], values).rowcount
            db.execute(SQL["delete_open_runs"], values)
            blocks = db.execute(SQL["delete_blocks"], values).rowcount if everything else 0
            _drop_if_empty(db, user_no, everything=everything)
            return Forgotten(blocks=blocks, facts=facts, episodes=episodes)

        forgotten = await self._connections.write(work)
        if secure:
            await self._connections.erase_traces([SQL["compact_episode_index"], SQL["compact_fact_index"]])
        return forgotten

    async def _stats(self, user: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats:
        def work(db: Connection) -> MemoryStats:
            known = db.execute(SQL["embedder_no"], {"name": embedder}).fetchone()
            user_no = None if everyone else (_find_user(db, user)[0] or 0)
            values = {"user_no": user_no, "embedder_no": known[0] if known else 0}
            users, sessions, blocks, facts, versions, episodes, embedded = db.execute(SQL["counts"], values).fetchone()
            pages = db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
            missing = 0 if embedder is None else facts + episodes - embedded
            return MemoryStats(users, sessions, blocks, facts, versions, episodes, missing, pages, embedder, self.url)

        return await self._connections.read(work)


class _Wanted:
    """The rows that a search may return, looked up by number and kept."""

    def __init__(self, db: Connection, kind: int, user_no: int, search: Search, now: datetime) -> None:
        self.rows: dict[int, Row] = {}
        self._checked: set[int] = set()
        self._db = db
        self._limit = search.limit
        self._sql = SQL["episodes_by_no" if kind == EPISODE else "facts_by_no"]
        self._values: dict[str, Any] = {
            "user_no": user_no,
            "session_id": search.without_session,
            "ids": json.dumps(sorted(search.without_ids)) if search.without_ids else None,
            "at": to_micros(search.at),
            "now": to_micros(search.at or now),
        }

    def check(self, numbers: Sequence[int]) -> None:
        """Look up the rows among `numbers` that pass the filters."""
        new = [number for number in numbers if number not in self._checked]
        if new:
            self._checked.update(new)
            values = self._values | {"numbers": json.dumps(new)}
            self.rows.update((row[0], row) for row in self._db.execute(self._sql, values))

    def first(self, numbers: list[int], read_on: Callable[[int], list[int]]) -> list[int]:
        """The first of `numbers` that pass, up to the limit; where too few do, deeper ones are read.

        This is what makes the filters apply before the limit (rules R9, R11, R17).
        """
        depth = self._limit
        while True:
            self.check(numbers)
            passed = [number for number in numbers if number in self.rows][: self._limit]
            if len(passed) == self._limit or len(numbers) < depth:
                return passed
            depth *= 4
            numbers = read_on(depth)


def _find_user(db: Connection, user: str | None) -> tuple[int | None, int]:
    """A user's number and vector epoch; no number if nothing was ever written for them."""
    row = db.execute(SQL["user_no"], {"user_id": user or ""}).fetchone()
    return (row[0], row[1]) if row else (None, 0)


def _user_no(db: Connection, user: str | None) -> int:
    """A user's number, given out on the first write."""
    number, _ = _find_user(db, user)
    if number is None:
        number = db.execute(SQL["add_user"], {"user_id": user or ""}).lastrowid
        assert number is not None
    return number


def _drop_if_empty(db: Connection, user_no: int, *, everything: bool = False) -> None:
    if db.execute(SQL["is_empty"], {"user_no": user_no, "everything": everything}).fetchone()[0]:
        db.execute(SQL["drop_user"], {"user_no": user_no})


def _next_turn(db: Connection, user_no: int) -> int:
    ((turn,),) = db.execute(SQL["next_turn"], {"user_no": user_no}).fetchall()
    return turn


def _add_episode(db: Connection, user_no: int, user: str | None, new: NewEpisode, turn: int) -> Episode:
    columns = episode_columns(new.episode, user_no, turn)
    added = db.execute(SQL["add_episode"], columns).fetchall()
    if not added:
        return episode_of(db.execute(SQL["episode_by_id"], columns).fetchone(), user)
    ((number,),) = added
    if new.messages is not None:
        db.execute(SQL["add_messages"], {"episode_no": number, "messages": new.messages})
    _write_vector(db, user_no, EPISODE, number, new.embedded)
    return new.episode


def _write_vector(db: Connection, user_no: int, kind: int, number: int, embedded: Embedded) -> int:
    """Write a vector, if there is one with a direction; the number of its embedder, 0 if not written."""
    packed = None if embedded.vector is None else pack(embedded.vector)
    if packed is None:
        return 0
    db.execute(SQL["add_embedder"], {"name": embedded.embedder})
    (embedder_no,) = db.execute(SQL["embedder_no"], {"name": embedded.embedder}).fetchone()
    values = {"user_no": user_no, "kind": kind, "embedder_no": embedder_no, "item_no": number, "vector": packed}
    db.execute(SQL["add_vector"], values)
    return embedder_no


def _replace_vector(db: Connection, user_no: int, kind: int, number: int, embedded: Embedded) -> None:
    embedder_no = _write_vector(db, user_no, kind, number, embedded)
    if embedder_no:
        values = {"user_no": user_no, "kind": kind, "item_no": number, "embedder_no": embedder_no}
        db.execute(SQL["drop_other_vectors"], values)
