"""The queue of runs that facts are still to be learned from, in SQLite: functions of a connection.

A claim is a text that names who is at it. Taking one is a single statement, so that no two processes are given a run.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime

from loomflow.moments import from_micros, to_micros
from loomflow.ports import Queue, Undistilled

from .queries import queries
from .rows import episode_of

SQL = queries("sqlite")


def put(db: sqlite3.Connection, user_no: int, episode_no: int, now: datetime) -> None:
    """Put a finished run into the queue, if it is not there."""
    db.execute(SQL["queue"], {"user_no": user_no, "episode_no": episode_no, "due_at": to_micros(now)})


def take(
    db: sqlite3.Connection, user_no: int | None, claim: str, now: datetime, until: datetime, limit: int
) -> list[Undistilled]:
    """Claim runs that are due, the oldest first, of one user or of all."""
    values = {
        "user_no": user_no, "claim": claim, "now": to_micros(now), "until": to_micros(until), "limit": limit,
    }  # fmt: skip
    taken: list[Undistilled] = []
    for number, attempts in sorted(db.execute(SQL["claim"], values).fetchall()):
        row = db.execute(SQL["claimed_episode"], {"no": number}).fetchone()
        user = row[10] or None
        taken.append(Undistilled(user, episode_of(row, user), row[9], attempts))
    return taken


def claimed(db: sqlite3.Connection, user_no: int | None, episode_id: str, claim: str) -> int | None:
    """The number of a run that is claimed so; None if the claim counts no more."""
    row = db.execute(SQL["is_claimed"], {"user_no": user_no, "id": episode_id, "claim": claim}).fetchone()
    return None if row is None else row[0]


def strike(db: sqlite3.Connection, number: int) -> None:
    """Take a run off the queue."""
    db.execute(SQL["unqueue"], {"no": number})


def postpone(db: sqlite3.Connection, number: int, error: str, due_at: datetime | None) -> None:
    """Give a claim back until `due_at`; None parks the run."""
    due = 0 if due_at is None else to_micros(due_at)
    db.execute(SQL["postpone"], {"no": number, "error": error, "due_at": due, "is_parked": due_at is None})


def counts(db: sqlite3.Connection, user_no: int | None, now: datetime) -> Queue:
    """How much waits, of one user or of all."""
    values = {"user_no": user_no, "now": to_micros(now)}
    waiting, parked, due, next_at = db.execute(SQL["undistilled_counts"], values).fetchone()
    errors = tuple((error, count) for error, count in db.execute(SQL["parked_errors"], values))
    return Queue(waiting, due, parked, errors, None if next_at is None else from_micros(next_at))
