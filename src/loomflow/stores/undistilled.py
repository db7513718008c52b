"""The queue of runs that facts are still to be learned from: functions of a connection.

A claim is a text that names who is at it. Taking one is a single statement, so that no two processes are given a run.
"""

from __future__ import annotations

from datetime import datetime

from loomflow.moments import from_micros, to_micros
from loomflow.records import Queue, Undistilled

from .database import Database, Owner
from .rows import episode_of


def put(db: Database, owner: Owner, number: int, now: datetime) -> None:
    """Put a finished run into the queue, if it is not there."""
    db.run("queue", {"owner": owner, "no": number, "due_at": to_micros(now)})


def take(
    db: Database, owner: Owner | None, claim: str, now: datetime, until: datetime, limit: int
) -> list[Undistilled]:
    """Claim runs that are due, the oldest first, of one user or of all."""
    values = {
        "owner": owner, "claim": claim, "now": to_micros(now), "until": to_micros(until), "limit": limit,
    }  # fmt: skip
    taken: list[Undistilled] = []
    for number, of_whom, attempts in sorted(db.run("claim", values).fetchall()):
        row = db.run("claimed_episode", {"owner": of_whom, "no": number}).fetchone()
        user = row[10] or None
        taken.append(Undistilled(user, episode_of(row, user), row[9], attempts))
    return taken


def claimed(db: Database, owner: Owner, episode_id: str, claim: str) -> int | None:
    """The number of a run that is claimed so; None if the claim counts no more."""
    row = db.run("is_claimed", {"owner": owner, "id": episode_id, "claim": claim}).fetchone()
    return None if row is None else row[0]


def strike(db: Database, owner: Owner, number: int) -> None:
    """Take a run off the queue."""
    db.run("unqueue", {"owner": owner, "no": number})


def postpone(db: Database, owner: Owner, number: int, error: str, due_at: datetime | None) -> None:
    """Give a claim back until `due_at`; None parks the run."""
    due = 0 if due_at is None else to_micros(due_at)
    db.run("postpone", {"owner": owner, "no": number, "error": error, "due_at": due, "is_parked": due_at is None})


def counts(db: Database, owner: Owner | None, now: datetime) -> Queue:
    """How much waits, of one user or of all."""
    values = {"owner": owner, "now": to_micros(now)}
    waiting, parked, due, next_at = db.run("undistilled_counts", values).fetchone()
    errors = tuple((error, count) for error, count in db.run("parked_errors", values))
    return Queue(waiting, due, parked, errors, None if next_at is None else from_micros(next_at))
