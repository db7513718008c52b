"""Users as the rows know them: found for reading, held for writing, given a row on the first write.

Whoever writes holds the user's row first. Where several can write at once, that puts the writes to one user's memory in
a line, so that what was read before is still so when it is written.
"""

from __future__ import annotations

from loomflow.index.segments import VERSION

from . import segments
from .database import Database, Owner


def find(db: Database, user: str | None) -> tuple[Owner | None, int]:
    """A user's key and index version; no key if nothing was ever written for them."""
    row = db.run("find_user", {"user_id": db.user_key(user)}).fetchone()
    return (row[0], row[1]) if row else (None, VERSION)


def found(db: Database, user: str | None) -> Owner:
    """The key of a user; that of nobody, if nothing was ever written for them."""
    owner, _ = find(db, user)
    return db.nobody if owner is None else owner


def one_or_all(db: Database, user: str | None, *, everyone: bool) -> Owner | None:
    """The key of a user; None for everyone."""
    return None if everyone else found(db, user)


def hold(db: Database, user: str | None) -> Owner | None:
    """The key of a user who has rows; from here on nobody else writes to them until the transaction ends."""
    row = db.run("hold_user", {"user_id": db.user_key(user)}).fetchone()
    return row[0] if row else None


def give(db: Database, user: str | None) -> Owner:
    """The key of a user, held, with an index of the present version; they are given a row if they have none."""
    row = db.run("hold_user", {"user_id": db.user_key(user)}).fetchone()
    if row is None:
        values = {"user_id": db.user_key(user), "full_id": user, "version": VERSION}
        row = db.run("add_user", values).fetchone()
    owner, version = row
    if version != VERSION:
        segments.rebuild(db, owner)
    return owner


def drop_if_empty(db: Database, owner: Owner, *, everything: bool = False) -> None:
    """Delete the row of a user who has nothing; what it counts is kept unless `everything` goes."""
    if db.run("is_empty", {"owner": owner, "everything": everything}).fetchone()[0]:
        db.run("drop_user", {"owner": owner})


def next_turn(db: Database, owner: Owner) -> int:
    """The next place in the order of a user's runs."""
    ((turn,),) = db.run("next_turn", {"owner": owner}).fetchall()
    return turn
