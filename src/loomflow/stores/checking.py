"""Looking for damage in a store, and making anew what follows from the rows: indexes, never what somebody wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from loomflow.errors import ConfigError, SchemaError, StoreError
from loomflow.index.parts import texts_of
from loomflow.index.segments import VERSION
from loomflow.items import Episode, Fact
from loomflow.ports import Store

from . import index_checking, owners, segments
from .database import Database, Owner, Scope
from .relational import RelationalStore
from .row_checking import DAMAGED, items_of, undecodable_of
from .segments import EPISODE, FACT, KINDS

FaultKind = Literal["pages", "reference", "row", "index"]

ADVICE: Final = "restore a backup"
ADVICE_SQLITE: Final = (
    "restore a backup; without one, `sqlite3 FILE .recover | sqlite3 NEW` saves what can be read, then check NEW"
)
NAMED: Final = 5
"""So many damaged rows of a table are named."""

DERIVED: Final = frozenset({"segments", "names"})
"""Tables whose rows are made from others."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is damaged.

    Attributes:
        kind: "pages": the database's own storage; "reference": rows of what is not there; "row": a row that cannot be
            decoded; "index": an index that does not say what the rows say.
        table: where.
        what: what is wrong, in words.
        user_id: whose rows; None is the anonymous scope, and for "pages" and "reference" everyone.
        advice: what to do about it, where `repair` cannot help.
    """

    kind: FaultKind
    table: str
    what: str
    user_id: str | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        faults: what is damaged now.
        repaired: what was, and is whole again.
        users, episodes, facts: how much was looked at; `facts` counts versions.
        unembedded: items without a vector, by the embedder that others have one of. That is no damage by itself: an
            embedder may have failed. `reembed` makes them.
    """

    faults: tuple[Fault, ...]
    repaired: tuple[Fault, ...]
    users: int
    episodes: int
    facts: int
    unembedded: dict[str, int]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged, or nothing is any more."""
        return not self.faults


@dataclass(slots=True)
class _Findings:
    faults: list[Fault]
    users: int = 0
    episodes: int = 0
    facts: int = 0


async def check_store(store: Store, *, repair: bool = False) -> CheckReport:
    """Look for damage: of pages, of references between rows, of rows, and of the indexes made from them.

    Args:
        store: SQLite or PostgreSQL.
        repair: make damaged indexes anew, a user at a time, each in a transaction. No row that was written is deleted.

    Raises:
        ConfigError: the store is of another kind.
        SchemaError: it is no memory, or that of a newer version.
    """
    if not isinstance(store, RelationalStore):
        raise ConfigError.of("store", "an SQLite or PostgreSQL store", store)
    advice = ADVICE if store.url.startswith("postgres") else ADVICE_SQLITE
    try:
        await store.open()
    except SchemaError:
        raise
    except StoreError as error:
        return CheckReport((Fault("pages", "database", str(error), advice=advice),), (), 0, 0, 0, {})
    first = last = await _look(store, advice)
    if repair and first.faults:
        failed = await _repair(store, first.faults)
        last = await _look(store, advice)
        last.faults += failed
    left = {(fault.kind, fault.table, fault.user_id) for fault in last.faults}
    repaired = [fault for fault in first.faults if (fault.kind, fault.table, fault.user_id) not in left]
    return CheckReport(
        tuple(last.faults), tuple(repaired), last.users, last.episodes, last.facts, await _unembedded(store)
    )


async def _look(store: RelationalStore, advice: str) -> _Findings:
    found = _Findings(await _read(store, ..., None, "database", advice, _database_faults(advice)))
    users: list[str | None] = []

    def list_users(db: Database) -> list[Fault]:
        users.extend(user or None for (user,) in db.run("every_user"))
        return []

    found.faults += await _read(store, ..., None, "users", advice, list_users)
    for user in users:
        found.users += 1
        found.faults += await _read(store, user, user, "users", advice, _user_faults(store, user, advice, found))
    return found


async def _read(
    store: RelationalStore,
    scope: Scope,
    user: str | None,
    table: str,
    advice: str,
    work: Callable[[Database], list[Fault]],
) -> list[Fault]:
    """What `work` finds in a read transaction; that it cannot read is a fault too."""
    try:
        return await store.connections.read(scope, work)
    except StoreError as error:
        return [Fault("pages", table, str(error), user, advice)]


def _database_faults(advice: str) -> Callable[[Database], list[Fault]]:
    def work(db: Database) -> list[Fault]:
        lines = [str(line) for (line,) in db.run("integrity")]
        faults = [] if lines == ["ok"] else [Fault("pages", "database", "; ".join(lines)[:500], advice=advice)]
        for table, count in db.run("broken_references").fetchall():
            what = f"{count} rows belong to nothing that is there"
            faults.append(Fault("reference", table, what, advice="" if table in DERIVED else advice))
        return faults

    return work


def _user_faults(
    store: RelationalStore, user: str | None, advice: str, found: _Findings
) -> Callable[[Database], list[Fault]]:
    def work(db: Database) -> list[Fault]:
        owner, version = owners.find(db, user)
        if owner is None:
            return []
        faults = [_rows_fault(table, bad, user, advice) for table, bad in undecodable_of(db, owner)]
        counts: list[int] = []
        for kind, table in enumerate(KINDS):
            items, bad = items_of(db, owner, kind)
            counts.append(len(items) + len(bad))
            faults += [_rows_fault(table, bad, user, advice)] if bad else []
            if version == VERSION and not bad:
                faults += _index_faults(db, owner, user, kind, items)
            if kind == EPISODE and not bad and _names(items) != _stored_names(db, owner):
                faults.append(Fault("index", "names", "they are not those of the episodes", user))
        if version == VERSION:
            faults += [Fault("index", table, what, user) for table, what in store.searcher.faults(db, owner)]
        found.episodes += counts[EPISODE]
        found.facts += counts[FACT]
        return faults

    return work


def _rows_fault(table: str, bad: list[str], user: str | None, advice: str) -> Fault:
    shown = ", ".join(bad[:NAMED]) + (", ..." if len(bad) > NAMED else "")
    return Fault("row", table, f"{len(bad)} cannot be decoded: {shown}", user, advice)


def _index_faults(
    db: Database, owner: Owner, user: str | None, kind: int, items: dict[int, Episode | Fact]
) -> list[Fault]:
    """What is wrong with the index of a kind, which is of this version, where the rows are whole."""
    faults: list[Fault] = []
    if words := index_checking.keywords_of(db, owner, kind, items):
        faults.append(Fault("index", f"keywords of {KINDS[kind]}", str(words), user))
    if coded := index_checking.vectors_of(db, owner, kind, _passages(items)):
        faults.append(Fault("index", f"vectors of {KINDS[kind]}", str(coded), user))
    return faults


def _passages(items: dict[int, Episode | Fact]) -> dict[int, int]:
    return {number: len(texts_of(item)) for number, item in items.items()}


def _names(episodes: dict[int, Episode | Fact]) -> set[tuple[str, bool]]:
    return {
        (name, is_agent)
        for one in episodes.values() if isinstance(one, Episode)
        for name, is_agent in ((one.user_name, False), (one.agent_name, True)) if name is not None
    }  # fmt: skip


def _stored_names(db: Database, owner: Owner) -> set[tuple[str, bool]]:
    return {(name, bool(is_agent)) for name, is_agent in db.run("names", {"owner": owner})}


async def _repair(store: RelationalStore, faults: tuple[Fault, ...] | list[Fault]) -> list[Fault]:
    """Make anew what is derived; what failed."""
    failed: list[Fault] = []
    kinds = {fault.kind for fault in faults}
    if kinds & {"pages", "reference"}:
        failed += await _tried(store, ..., None, _restore_database)
    for user in dict.fromkeys(fault.user_id for fault in faults if fault.kind == "index"):
        tables = {fault.table for fault in faults if fault.kind == "index" and fault.user_id == user}
        failed += await _tried(
            store, user, user, lambda db, user=user, tables=tables: _rebuild(store, db, user, tables)
        )
        await store.tend(user)
    return failed


async def _tried(
    store: RelationalStore, scope: Scope, user: str | None, work: Callable[[Database], None]
) -> list[Fault]:
    try:
        await store.connections.write(scope, work)
    except (StoreError, *DAMAGED) as error:
        return [Fault("index", "repair", f"it failed and changed nothing: {error}", user, ADVICE)]
    return []


def _restore_database(db: Database) -> None:
    db.run("delete_lost_segments")
    db.run("delete_lost_names")
    db.run("reindex")


def _rebuild(store: RelationalStore, db: Database, user: str | None, tables: set[str]) -> None:
    owner = owners.hold(db, user)
    if owner is None:
        return
    for kind, table in enumerate(KINDS):
        if f"vectors of {table}" in tables:
            items, _ = items_of(db, owner, kind)
            index_checking.vectors_of(db, owner, kind, _passages(items), repair=True)
    if "names" in tables:
        db.run("drop_names", {"owner": owner})
        db.run("collect_names", {"owner": owner})
    store.searcher.rebuild(db, owner)


async def _unembedded(store: RelationalStore) -> dict[str, int]:
    """How many items have no vector, by the embedders that others have one of."""

    def work(db: Database) -> dict[str, int]:
        _, _, _, facts, _, episodes = db.run("counts", {"owner": None}).fetchone()
        found: dict[str, int] = {}
        for number, name in db.run("read_embedders").fetchall():
            embedded = segments.count_embedded(db, {"owner": None, "embedder_no": number})
            if 0 < embedded < facts + episodes:
                found[name] = facts + episodes - embedded
        return found

    try:
        return await store.connections.read(..., work)
    except StoreError:  # reported as a fault already
        return {}
