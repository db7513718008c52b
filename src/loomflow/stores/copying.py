"""Copying a whole memory into an empty store of any kind, row by row: nothing is embedded or learned again.

Rows keep their numbers, so that the segments of the index are copied as they are. What follows from rows and segments
(names, the tables of large users in PostgreSQL) is made anew. A table in the destination says that a copy is
unfinished, and of what; rows that are there already are not copied again. At the end both sides are read and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from loomflow.errors import ConfigError, StoreError
from loomflow.ports import Store

from . import owners
from .database import Database, Owner
from .relational import RelationalStore
from .rows import Row
from .sqlite import SQLiteStore

COLUMNS: Final = {
    "episodes": (
        "no", "id", "session_id", "turn", "occurred_at", "input", "output", "user_name", "agent_name", "metadata",
    ),
    "episode_messages": ("episode_no", "messages"),
    "undistilled": ("episode_no", "attempts", "due_at", "claim", "claimed_until", "error", "is_parked"),
    "facts": (
        "no", "id", "subject", "predicate", "object", "subject_key", "predicate_key", "object_key", "valid_from",
        "valid_until", "recorded_at", "retired_at", "confidence", "source_episode_id", "metadata", "origin", "quote",
        "told_at", "sources",
    ),
    "segments": ("kind", "embedder_no", "no", "items", "data"),
    "blocks": ("name", "content", "updated_at", "version", "position"),
    "block_versions": ("name", "version", "content", "updated_at", "ended_at", "position"),
    "open_runs": ("run_id", "session_id", "turn", "started_at", "prompt", "is_text", "messages", "error"),
    "users": ("next_turn", "block_floor", "index_version"),
}  # fmt: skip
"""Of each table that is copied, the columns beside the user, as its queries read them."""

PARTS: Final = (
    ("episodes", ("episodes", "episode_messages", "undistilled"), 256), ("facts", ("facts",), 512),
    ("segments", ("segments",), 16),
)  # fmt: skip
"""What is copied a page at a time: whose keys, the tables, and keys on a page, which is one transaction."""

REST: Final = ("blocks", "block_versions", "open_runs", "users")
"""Small tables, copied as a whole at the end of a user; `users` comes last."""

Page = dict[str, list[Row]]
"""Rows by table."""

Sums = dict[str, tuple[int, int]]
"""Of each table, how many rows there are, and their checksum, which the order of rows does not change."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy has brought over.

    Attributes:
        users: how many.
        rows: how many of each table.
        resumed: whether an earlier copy had been stopped.
    """

    users: int
    rows: dict[str, int] = field(default_factory=dict[str, int])
    resumed: bool = False


async def copy_memory(
    source: Store, destination: Store, *, progress: Callable[[int, int], None] | None = None
) -> Copied:
    """Copy everything: episodes, facts, blocks, all of them with their history, sessions, vectors, the queue.

    A copy that was stopped goes on where it was when it is asked for again. Nothing may write to either store
    meanwhile; in the source that is noticed.

    Args:
        source: SQLite or PostgreSQL.
        destination: of either kind; empty, or with an unfinished copy of the same source.
        progress: called with how many rows have been copied, of how many.

    Raises:
        ConfigError: both are the same, or one is of another kind.
        StoreError: the destination has something else in it, or both sides differ in the end.
    """
    for name, store in (("source", source), ("destination", destination)):
        if not isinstance(store, RelationalStore):
            raise ConfigError.of(name, "an SQLite or PostgreSQL store", store)
    assert isinstance(source, RelationalStore)
    assert isinstance(destination, RelationalStore)
    if _identity(source) == _identity(destination):
        raise ConfigError.of("destination", "another store than the source", destination.url)
    await source.open()
    await destination.open()
    return await _Copy(source, destination, progress or (lambda _done, _total: None)).run()


def _identity(store: RelationalStore) -> str:
    if isinstance(store, SQLiteStore):
        return f"sqlite:{store.path.resolve()}" if store.path else f"inmemory, object {id(store)}"
    return store.url


@dataclass(slots=True)
class _Copy:
    source: RelationalStore
    destination: RelationalStore
    progress: Callable[[int, int], None]
    done: int = 0
    total: int = 0

    async def run(self) -> Copied:
        resumed = await self._begin()
        users = await _users(self.source)
        self.total = await self.source.connections.read(..., _count)
        self.done = min(await self.destination.connections.read(..., _count), self.total)
        self.progress(self.done, self.total)
        for user in users:
            await self._copy_user(user)
        rows = await self._compare()
        await self.destination.connections.write(..., _end)
        for user in users:
            await self.destination.tend(user)
        return Copied(len(users), rows, resumed)

    async def _begin(self) -> bool:
        """Note of what the destination is a copy; whether it was one already."""
        source = _identity(self.source)
        embedders = await self.source.connections.read(..., _embedders)

        def work(db: Database) -> bool:
            where = self.destination.url
            is_copying = bool(db.run("is_copying").fetchone()[0])
            if is_copying and (copied := db.run("copied_source").fetchone()[0]) != source:
                raise StoreError(
                    f"{where} has an unfinished copy of {copied}; finish that, or name an empty destination"
                )
            users = len(db.run("every_user").fetchall())
            if not is_copying and users:
                raise StoreError(f"{where} has the memory of {users} users already; name an empty destination")
            if not is_copying:
                db.run("begin_copy")
                db.run("note_source", {"source": source})
                db.run("clear_embedders")
            known = _embedders(db)
            db.run_many(
                "write_embedders", [{"no": no, "name": name} for no, name in embedders if (no, name) not in known]
            )
            return is_copying

        return await self.destination.connections.write(..., work)

    async def _copy_user(self, user: str | None) -> None:
        def prepare(db: Database) -> dict[str, set[Row]]:
            owner = owners.give(db, user)
            return {keys: set(_keys(db, keys, owner)) for keys, _, _ in PARTS}

        there = await self.destination.connections.write(user, prepare)
        for keys, tables, size in PARTS:
            wanted = [key for key in await _keys_of(self.source, user, keys) if key not in there[keys]]
            for chunk in _chunks(wanted, size):
                page = await _page(self.source, user, tables, chunk)
                await self.destination.connections.write(user, lambda db, page=page: _write(db, user, page))
                self.done += len(chunk)
                self.progress(min(self.done, self.total), self.total)
        rest = await _page(self.source, user, REST, ())

        def finish(db: Database) -> None:
            owner = {"owner": owners.hold(db, user)}
            for query in ("delete_blocks", "delete_block_versions", "delete_open_runs", "drop_names", "collect_names"):
                db.run(query, owner | {"session_id": None, "before": None})
            _write(db, user, rest)

        await self.destination.connections.write(user, finish)

    async def _compare(self) -> dict[str, int]:
        """Read both sides and compare them, user by user and table by table; how many rows there are of each table.

        Raises:
            StoreError: they differ. The users of whom something does are taken out of the destination again.
        """
        rows: Counter[str] = Counter()
        differences: list[str] = []
        for user in dict.fromkeys([*await _users(self.source), *await _users(self.destination)]):
            here, there = await _sums(self.source, user), await _sums(self.destination, user)
            rows.update({table: count for table, (count, _) in here.items()})
            differing = [table for table in COLUMNS if here[table] != there[table]]
            if differing:
                of_whom = "the anonymous user" if user is None else f"user {user!r}"
                amounts = ", ".join(f"{name} ({here[name][0]} rows, copied {there[name][0]})" for name in differing)
                differences.append(f"{amounts} of {of_whom}")
                await self.destination.connections.write(user, lambda db, user=user: _take_out(db, user))
        if differences:
            shown = "; ".join(differences[:5]) + ("; ..." if len(differences) > 5 else "")
            raise StoreError(
                f"the copy differs from {self.source.url}, which was probably written to meanwhile: {shown}. What"
                " differs was taken out of the copy; stop what writes and copy again, the rest is kept"
            )
        return dict(rows)


async def _users(store: RelationalStore) -> list[str | None]:
    return await store.connections.read(..., lambda db: [user or None for (user,) in db.run("every_user")])


async def _keys_of(store: RelationalStore, user: str | None, keys: str) -> list[Row]:
    return await store.connections.read(user, lambda db: _keys(db, keys, owners.found(db, user)))


async def _page(store: RelationalStore, user: str | None, tables: Sequence[str], keys: Sequence[Row]) -> Page:
    """The rows of some tables that have these keys, or all of a user's where the table has none, in one view."""

    def work(db: Database) -> Page:
        values = {"owner": owners.found(db, user), "keys": json.dumps([list(key) for key in keys])}
        return {table: db.run(f"read_{table}", values).fetchall() for table in tables}

    return await store.connections.read(user, work)


async def _sums(store: RelationalStore, user: str | None) -> Sums:
    """Counts and checksums of a user's rows."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()

    def add(page: Page) -> None:
        for table, rows in page.items():
            counts[table] += len(rows)
            sums[table] += sum(map(_checksum, rows))

    for keys, tables, size in PARTS:
        for chunk in _chunks(await _keys_of(store, user, keys), size):
            add(await _page(store, user, tables, chunk))
    add(await _page(store, user, REST, ()))
    return {table: (counts[table], sums[table]) for table in COLUMNS}


def _checksum(row: Row) -> int:
    """Of the values of a row, the same for every database: some have no booleans."""
    values = [int(value) if isinstance(value, bool) else value for value in row]
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=16).digest())


def _keys(db: Database, keys: str, owner: Owner) -> list[Row]:
    return [tuple(row) for row in db.run(f"keys_of_{keys}", {"owner": owner})]


def _write(db: Database, user: str | None, page: Page) -> None:
    owner = owners.hold(db, user)
    for table, rows in page.items():
        values: list[dict[str, Any]] = [{"owner": owner, **dict(zip(COLUMNS[table], row, strict=True))} for row in rows]
        db.run_many(f"write_{table}", values)


def _take_out(db: Database, user: str | None) -> None:
    if (owner := owners.hold(db, user)) is not None:
        db.run("drop_user", {"owner": owner})


def _embedders(db: Database) -> list[tuple[int, str]]:
    return [(number, name) for number, name in db.run("read_embedders")]


def _count(db: Database) -> int:
    return db.run("rows_to_copy").fetchone()[0]


def _end(db: Database) -> None:
    db.run("raise_numbers")
    db.run("end_copy")


def _chunks(keys: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
