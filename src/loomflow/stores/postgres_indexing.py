"""Large users in PostgreSQL: their episodes and vectors put where the server can look for them, some at a time.

What is written stays in segments as everyone's does; from them the tables `large_episodes` and `large_vectors` are
filled after the write, in short transactions that hold the user. Until they have all but the newest, the user is
searched exactly.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

import numpy as np
from psycopg import sql

from loomflow.index import segments, vectors
from loomflow.index.segments import Segment

from .postgres_connections import PostgresDatabase
from .segments import KEYWORDS

logger = logging.getLogger("loomflow")

EPISODES_AT_ONCE: Final = 512
VECTORS_AT_ONCE: Final = 64
"""Episodes whose vectors are added in one transaction: placing one in the graph takes about a millisecond."""

MOST_TERMS: Final = 50_000
"""In a tsvector, whose terms may have 1 MB; episodes with more are looked at by every search."""

MOST_DIMENSIONS: Final = 4_000
"""Of a halfvec in an HNSW index; longer vectors are compared one by one."""


def index_some(db: PostgresDatabase, owner: str) -> bool:
    """Fill the tables with some more of a user, who is held; whether there is more."""
    return _index_episodes(db, owner) or any(
        _index_vectors(db, owner, embedder) for (embedder,) in db.run("large_embedders", {"owner": owner}).fetchall()
    )


def term_of(owner: str, digest: int) -> str:
    """A term of a user's in the full text index, which knows them from everyone else's."""
    return f"{hashlib.blake2b(owner.encode(), digest_size=5).hexdigest()}{digest:08x}"


def _index_episodes(db: PostgresDatabase, owner: str) -> bool:
    key = {"owner": owner, "embedder_no": KEYWORDS}
    row = db.run("large_next", key).fetchone()
    if row is None:
        return False
    number, data = row
    segment = segments.from_bytes(data)
    (newest,) = db.run("large_newest", key).fetchone()
    left = np.flatnonzero(segment.numbers > newest)
    chosen = np.isin(np.arange(len(segment.numbers)), left[:EPISODES_AT_ONCE])
    _add_episodes(db, owner, segments.split(segments.only(segment, chosen)))
    if len(left) <= EPISODES_AT_ONCE:
        db.run("set_large_up_to", key | {"no": number})
    return True


def _add_episodes(db: PostgresDatabase, owner: str, episodes: list[Segment]) -> None:
    values = {
        "owner": owner,
        "numbers": [int(one.numbers[0]) for one in episodes],
        "sessions": [signed(int(one.sessions[0])) for one in episodes],
        "times": [int(one.times[0]) for one in episodes],
        "lengths": [int(one.length.sum()) for one in episodes],
        "terms": [_terms(owner, one) for one in episodes],
        "segments": [segments.to_bytes(one) for one in episodes],
    }
    db.run("add_large_episodes", values)


def _terms(owner: str, episode: Segment) -> str | None:
    if len(episode.keys) > MOST_TERMS:
        return None
    return " ".join(term_of(owner, key) for key in episode.keys.tolist())


def _index_vectors(db: PostgresDatabase, owner: str, embedder: int) -> bool:
    key = {"owner": owner, "embedder_no": embedder}
    row = db.run("large_next", key).fetchone()
    if row is None:
        return False
    number, data = row
    coded = vectors.from_bytes(data)
    size = coded.codes.shape[1]
    of_size = key | {"dimensions": size}
    _ensure_index(db, embedder, size)
    left = db.run("without_large_vectors", of_size | {"numbers": coded.numbers.tolist()}).fetchall()
    some = vectors.only(coded, np.isin(coded.numbers, [number for (number,) in left[:VECTORS_AT_ONCE]]))
    usable = some.inverse > 0
    places = np.arange(len(usable)) - np.repeat(np.cumsum([0, *some.counts[:-1]]), some.counts)
    values = {
        "numbers": np.repeat(some.numbers, some.counts)[usable].tolist(),
        "places": places[usable].tolist(),
        "vectors": [text_of(code) for code in some.codes[usable]],
    }
    db.run("add_large_vectors", of_size | values)
    if len(left) <= VECTORS_AT_ONCE:
        db.run("set_large_up_to", key | {"no": number})
    return True


def _ensure_index(db: PostgresDatabase, embedder: int, dimensions: int) -> None:
    """Create the index of an embedder's vectors, unless it is there."""
    if dimensions > MOST_DIMENSIONS:
        return
    name = f"large_vectors_{embedder}_{dimensions}"
    is_there, may_create = db.run("large_index", {"name": name}).fetchone()
    if is_there:
        return
    command = sql.SQL(
        "CREATE INDEX IF NOT EXISTS {} ON large_vectors USING hnsw ((vector::halfvec({})) halfvec_cosine_ops)"
        " WHERE embedder_no = {} AND dimensions = {}"
    ).format(sql.Identifier(name), sql.Literal(dimensions), sql.Literal(embedder), sql.Literal(dimensions))
    if may_create:
        db.connection.execute(command)
    else:
        text = command.as_string(db.connection)
        logger.warning("large users are searched without an index until the owner of the tables runs: %s", text)


def signed(digest: int) -> int:
    """An unsigned 64-bit number as a signed one."""
    return digest - (1 << 64) if digest >> 63 else digest


def text_of(code: vectors.Codes) -> str:
    """A code as the server reads it. All of its numbers are exact in a halfvec."""
    return f"[{','.join(map(str, code.tolist()))}]"
