"""Forgetting what was told: a fact goes with the last of its tellings, and the others are placed anew."""

from __future__ import annotations

from datetime import datetime

from loomflow.bitemporal import source_of, without
from loomflow.checks import to_json
from loomflow.items import Fact, Source
from loomflow.moments import to_micros

from .database import Database, Owner
from .rows import fact_of, sources_text


def forget_tellings(db: Database, owner: Owner, session: str | None, before: datetime | None) -> tuple[int, list[Fact]]:
    """Take away what was told in a session, or before a moment, from every version of every fact.

    Returns:
        How many versions were deleted because nothing else told them, and the facts believed until now that lost a
        telling: what is believed of the same things is to be settled.
    """
    values = {"owner": owner, "session_id": session, "before": to_micros(before)}
    episodes = {id_ for (id_,) in db.run("episode_ids", values)} if session is not None else None

    def is_gone(source: Source) -> bool:
        is_of_session = episodes is None or source.episode_id in episodes
        return is_of_session and (before is None or source.told_at < before)

    deleted, touched = 0, list[Fact]()
    for row in db.run("facts_told", values).fetchall():
        fact = fact_of(row, None)
        if not any(map(is_gone, fact.sources or (source_of(fact),))):
            continue  # where texts are sealed, the query could not look
        left = without(fact, is_gone)
        if fact.retired_at is None:
            touched.append(fact)
        if left is None:
            db.run("delete_fact", {"owner": owner, "no": row[0]})
            deleted += 1
        else:
            columns = {"source_episode_id": left.source_episode_id, "quote": left.quote, "origin": left.origin}
            columns |= {"metadata": to_json(left.metadata)}
            db.run("set_sources", columns | {"owner": owner, "no": row[0], "sources": sources_text(left.sources)})
    return deleted, touched
