"""Segments in the database: written with the rows that they index, merged from time to time, built anew where need be.

Every function works on a connection within a transaction.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loomflow.index import segments, vectors
from loomflow.index.vectors import CodedVectors
from loomflow.items import Episode, Fact
from loomflow.records import Embedded

from .database import Database, Owner
from .rows import episode_of, fact_of

EPISODE, FACT = 0, 1
KINDS: Final = ("episodes", "facts")
KEYWORDS = 0
"""Stands for an embedder's number where the segment is one of the keyword index."""

LEVELS = (4096, 256)
"""Sizes at which runs of smaller segments are merged, see `loomflow.index.segments.due`."""

CHUNK = 2048


class Indexed(NamedTuple):
    """A row to index: its number, the item, and its vectors, by one embedder or more."""

    number: int
    item: Episode | Fact
    embedded: Sequence[Embedded]


def add(db: Database, owner: Owner, kind: int, rows: Sequence[Indexed]) -> bool:
    """Index new rows; whether it is time to merge."""
    if not rows:
        return False
    entries = [segments.entry_of(row.number, row.item) for row in rows]
    due = _put(db, owner, kind, KEYWORDS, segments.to_bytes(segments.build(entries)), len(rows))
    sized = {entry.number: len(entry.parts) for entry in entries}
    items = [(row.number, sized[row.number], embedded) for row in rows for embedded in row.embedded]
    return add_vectors(db, owner, kind, items) or due


def add_vectors(db: Database, owner: Owner, kind: int, items: Sequence[tuple[int, int, Embedded]]) -> bool:
    """Write vectors of items: number, passages, vectors. Those without a direction are left out."""
    spaces: dict[tuple[str | None, int], list[tuple[int, int, Any]]] = defaultdict(list)
    for number, passages, embedded in items:
        if embedded.vector is not None and embedded.vector.size:
            spaces[embedded.embedder, embedded.vector.shape[-1]].append((number, passages, embedded.vector))
    due = False
    for (embedder, _), group in spaces.items():
        db.run("add_embedder", {"name": embedder})
        coded = vectors.coded(group)
        has_direction = np.maximum.reduceat(coded.inverse, np.cumsum([0, *coded.counts[:-1]])) > 0
        if has_direction.any():
            coded = coded if has_direction.all() else vectors.only(coded, has_direction)
            number = embedder_no(db, embedder)
            due |= _put(db, owner, kind, number, vectors.to_bytes(coded), len(coded.numbers))
    return due


def remove_vectors(db: Database, owner: Owner, kind: int, embedder: int, numbers: Collection[int]) -> None:
    """Take the vectors of some items out of an embedder's segments."""
    key = {"owner": owner, "kind": kind, "embedder_no": embedder}
    gone = np.fromiter(numbers, np.int64)
    for number, data in db.run("segments_after", key | {"after": 0}).fetchall():
        _rewrite(db, key | {"no": number}, vectors.from_bytes(data), gone, vectors)
    db.run("next_epoch", {"owner": owner})


def keep_only(db: Database, owner: Owner, embedder: int) -> None:
    """Delete the vectors of all other embedders, and those of this one that have other dimensions than its newest."""
    db.run("drop_other_vectors", {"owner": owner, "embedder_no": embedder})
    for kind in (EPISODE, FACT):
        key = {"owner": owner, "kind": kind, "embedder_no": embedder}
        newest = newest_dimensions(db, owner, kind, embedder)
        for number, header in db.run("segment_headers", key).fetchall():
            if vectors.dimensions(header) != newest:
                db.run("delete_segment", key | {"no": number})
    db.run("next_epoch", {"owner": owner})


def newest_dimensions(db: Database, owner: Owner, kind: int, embedder: int) -> int | None:
    """The dimensions of the vectors that an embedder made last; None if it made none."""
    values = {"owner": owner, "kind": kind, "embedder_no": embedder}
    headers = db.run("segment_headers", values).fetchall()
    return vectors.dimensions(headers[-1][1]) if headers else None


def embedder_no(db: Database, name: str | None) -> int:
    """The number of an embedder; -1 if it never made a vector here."""
    row = db.run("embedder_no", {"name": name}).fetchone()
    return row[0] if row else -1


def reader(db: Database, owner: Owner, kind: int) -> Callable[[int, int], list[tuple[int, bytes]]]:
    """A function from an embedder's number and a segment's to the segments after it."""

    def read(embedder: int, after: int) -> list[tuple[int, bytes]]:
        values = {"owner": owner, "kind": kind, "embedder_no": embedder, "after": after}
        return db.run("segments_after", values).fetchall()

    return read


def merge_small(db: Database, owner: Owner) -> None:
    """Merge what has become many small segments of a user, who is held meanwhile."""
    db.run("hold_owner", {"owner": owner})
    for kind, embedder in db.run("segment_groups", {"owner": owner}).fetchall():
        key = {"owner": owner, "kind": kind, "embedder_no": embedder}
        while True:
            sizes = db.run("segment_sizes", key).fetchall()
            begin = segments.due([items for _, items in sizes], LEVELS)
            if begin == len(sizes):
                break
            number = sizes[-1][0]
            parts = [data for _, data in db.run("segments_after", key | {"after": sizes[begin][0] - 1})]
            db.run("delete_segments_after", key | {"after": sizes[begin][0] - 1})
            merged = _merged(embedder, parts)
            for items, data in merged:
                db.run("put_segment", key | {"no": number, "items": items, "data": data})
                (number,) = db.run("next_segment", key).fetchone()
            if len(merged) > 1:  # of several dimensions: as few as they can be
                break


def _merged(embedder: int, parts: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """Segments merged into one; vectors of different dimensions stay apart."""
    if embedder == KEYWORDS:
        one = segments.merge([segments.from_bytes(data) for data in parts])
        return [(len(one.numbers), segments.to_bytes(one))]
    spaces: dict[int, list[CodedVectors]] = {}
    for data in parts:  # the dimensions that were written last come last: they are the newest
        coded = vectors.from_bytes(data)
        size = coded.codes.shape[1]
        spaces[size] = [*spaces.pop(size, []), coded]
    merged = [vectors.merge(group) for group in spaces.values()]
    return [(len(one.numbers), vectors.to_bytes(one)) for one in merged]


def prune(db: Database, owner: Owner) -> None:
    """Take the rows that are gone out of a user's segments and names."""
    for kind, embedder in db.run("segment_groups", {"owner": owner}).fetchall():
        key = {"owner": owner, "kind": kind, "embedder_no": embedder}
        rows = db.run(f"numbers_of_{KINDS[kind]}", {"owner": owner}).fetchall()
        present = np.array([number for (number,) in rows], np.int64)
        module: Any = segments if embedder == KEYWORDS else vectors
        for number, data in db.run("segments_after", key | {"after": 0}).fetchall():
            segment = _read(module, data)
            if segment is None:  # damaged: what is left is indexed anew on next use
                db.run("delete_segment", key | {"no": number})
                db.run("outdate_index", {"owner": owner})
                continue
            gone = segment.numbers[~np.isin(segment.numbers, present)]
            _rewrite(db, key | {"no": number}, segment, gone, module)
    db.run("drop_names", {"owner": owner})
    db.run("collect_names", {"owner": owner})
    db.run("next_epoch", {"owner": owner})


def _read(module: Any, data: bytes) -> Any:
    """What `data` encodes; None if it is damaged."""
    try:
        return module.from_bytes(data)
    except (ValueError, TypeError, struct.error):
        return None


def _rewrite(db: Database, key: dict[str, Any], segment: Any, gone: NDArray[np.int64], module: Any) -> None:
    """Write a segment again without some of its items; not at all if none are left."""
    stays = ~np.isin(segment.numbers, gone)
    if stays.all():
        return
    db.run("delete_segment", key)
    if stays.any():
        rest = module.only(segment, stays)
        db.run("put_segment", key | {"items": len(rest.numbers), "data": module.to_bytes(rest)})


def rebuild(db: Database, owner: Owner) -> None:
    """Build a user's keyword index anew from the rows, in the present version. Vectors stay."""
    for kind in (EPISODE, FACT):
        key = {"owner": owner, "kind": kind, "embedder_no": KEYWORDS}
        db.run("delete_segments_after", key | {"after": 0})
        build: Any = episode_of if kind == EPISODE else fact_of
        rows = db.run(f"all_{KINDS[kind]}", {"owner": owner})
        while chunk := rows.fetchmany(CHUNK):
            entries = [segments.entry_of(row[0], build(row, None)) for row in chunk]
            _put(db, owner, kind, KEYWORDS, segments.to_bytes(segments.build(entries)), len(chunk))
    db.run("set_index_version", {"owner": owner, "version": segments.VERSION})


def count_embedded(db: Database, values: dict[str, Any]) -> int:
    """How many episodes and believed facts have a vector of an embedder, of the dimensions that it made last.

    Args:
        db: a connection in a transaction.
        values: `embedder_no`, and `owner`, or None there for all users.
    """
    headers = db.run("vector_headers", values).fetchall()
    newest = {(user, kind): vectors.dimensions(header) for user, kind, _, _, header in headers}
    current = [row for row in headers if vectors.dimensions(row[4]) == newest[row[0], row[1]]]
    episodes = sum(items for _, kind, _, items, _ in current if kind == EPISODE)
    keys = [{"owner": user, "kind": kind, "embedder_no": values["embedder_no"], "no": no}
            for user, kind, no, _, _ in current if kind == FACT]  # fmt: skip
    tables = [_read(vectors, db.run("segment", key).fetchone()[0]) for key in keys]
    numbers = [table.numbers for table in tables if table is not None]
    if not numbers:
        return episodes
    believed = np.array([number for (number,) in db.run("numbers_believed", values)], np.int64)
    return episodes + int(np.isin(believed, np.concatenate(numbers)).sum())


def _put(db: Database, owner: Owner, kind: int, embedder: int, data: bytes, items: int) -> bool:
    """Append a segment; whether it is time to merge: every so many segments, and after large ones."""
    key = {"owner": owner, "kind": kind, "embedder_no": embedder}
    (number,) = db.run("next_segment", key).fetchone()
    db.run("put_segment", key | {"no": number, "items": items, "data": data})
    return number % LEVELS[-1] == 0 or items * 2 > LEVELS[-1]
