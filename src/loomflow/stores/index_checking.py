"""Whether a user's index says what their rows say: the keyword index, item by item, and the vectors."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loomflow.index import segments, vectors
from loomflow.index.segments import Segment
from loomflow.index.vectors import CodedVectors
from loomflow.items import Episode, Fact

from .database import Database, Owner
from .segments import EPISODE, KEYWORDS

UNREADABLE: Final = (ValueError, TypeError, IndexError, struct.error)
"""What decoding damaged bytes raises."""

CHUNK: Final = 1024
MAX_INVERSE_ERROR: Final = 1e-5


@dataclass(slots=True)
class Disagreement:
    """How an index differs from the rows: so many items, and segments that are unreadable."""

    missing: int = 0
    left_over: int = 0
    wrong: int = 0
    unreadable: int = 0

    def __str__(self) -> str:
        amounts = (
            (self.missing, "not indexed"), (self.left_over, "indexed but not there"), (self.wrong, "indexed wrongly"),
            (self.unreadable, "unreadable segments"),
        )  # fmt: skip
        return ", ".join(f"{count} {what}" for count, what in amounts if count)

    def __bool__(self) -> bool:
        return any((self.missing, self.left_over, self.wrong, self.unreadable))


def keywords_of(db: Database, owner: Owner, kind: int, items: Mapping[int, Episode | Fact]) -> Disagreement:
    """Compare the keyword index with what would be built of the items, by row number, now."""
    found = Disagreement()
    stored: dict[int, bytes] = {}
    for number, count in _sizes(db, owner, kind, KEYWORDS):
        segment = read_keywords(_data(db, owner, kind, KEYWORDS, number))
        if segment is None or len(segment.numbers) != count:
            found.unreadable += 1
            continue
        numbers: list[int] = segment.numbers.tolist()
        found.wrong += sum(one in stored for one in numbers)
        stored.update(zip(numbers, _fingerprints(segment, kind), strict=True))
    left = iter(sorted(items))
    while chunk := list(islice(left, CHUNK)):
        built = segments.build([segments.entry_of(number, items[number]) for number in chunk])
        for number, print_ in zip(chunk, _fingerprints(built, kind), strict=True):
            if number not in stored:
                found.missing += 1
            elif stored.pop(number) != print_:
                found.wrong += 1
    found.left_over = len(stored)
    return found


def vectors_of(
    db: Database, owner: Owner, kind: int, passages: Mapping[int, int], *, repair: bool = False
) -> Disagreement:
    """Look for vectors of nothing, and for those that cannot be right.

    Args:
        db: a connection in a transaction.
        owner, kind: whose, of what.
        passages: how many passages each item has, by row number.
        repair: take them out; the items are without a vector then, and the epoch has to be changed.
    """
    found = Disagreement()
    known = {number for number, _ in db.run("read_embedders")}
    for of_kind, embedder in db.run("segment_groups", {"owner": owner}).fetchall():
        if of_kind == kind and embedder != KEYWORDS:
            for number, count in _sizes(db, owner, kind, embedder):
                coded = read_vectors(_data(db, owner, kind, embedder, number)) if embedder in known else None
                is_whole = coded is not None and len(coded.numbers) == count
                good = _good(coded, passages, found) if coded is not None and is_whole else None
                found.unreadable += not is_whole
                if repair and (good is None or not good.all()):
                    key = {"owner": owner, "kind": kind, "embedder_no": embedder, "no": number}
                    db.run("delete_segment", key)
                    if coded is not None and good is not None and good.any():
                        rest = vectors.only(coded, good)
                        db.run("put_segment", key | {"items": len(rest.numbers), "data": vectors.to_bytes(rest)})
    return found


def read_keywords(data: bytes) -> Segment | None:
    """A segment of the keyword index; None if it is damaged."""
    try:
        segment = segments.from_bytes(data)
    except UNREADABLE:
        return None
    sizes, postings = np.diff(segment.first), np.diff(segment.offsets)
    is_sound = (
        (segment.first[0], segment.first[-1]) == (0, segment.passages)
        and (segment.offsets[0], segment.offsets[-1]) == (0, len(segment.ids))
        and bool((sizes >= 0).all() and (postings >= 0).all() and (np.diff(segment.numbers) > 0).all())
        and bool(((segment.ids >= 0) & (segment.ids < segment.passages)).all())
        and bool(((segment.name >= segments.NO_NAME) & (segment.name < len(segment.names))).all())
        and segments.to_bytes(segment) == data
    )
    return segment if is_sound else None


def read_vectors(data: bytes) -> CodedVectors | None:
    """A segment of vectors; None if it is damaged."""
    try:
        coded = vectors.from_bytes(data)
    except UNREADABLE:
        return None
    is_sound = (
        bool((coded.counts >= 0).all())
        and int(coded.counts.sum()) == len(coded.inverse)
        and vectors.to_bytes(coded) == data
    )
    return coded if is_sound else None


def fingerprint(segment: Segment, kind: int) -> bytes:
    """What a segment of one item says. Where a fact is from may have changed since, and is not looked up in it."""
    of_kind = segment if kind == EPISODE else replace(segment, sessions=np.zeros_like(segment.sessions))
    return hashlib.blake2b(segments.to_bytes(of_kind), digest_size=16).digest()


def _good(coded: CodedVectors, passages: Mapping[int, int], found: Disagreement) -> NDArray[np.bool_]:
    """Which items have vectors that can be theirs, shape [m]; the others are counted."""
    numbers: list[int] = coded.numbers.tolist()
    expected = np.array([passages.get(number, -1) for number in numbers])
    lengths = np.sqrt((coded.codes.astype(np.int32) ** 2).sum(axis=1))
    inverse = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    off = np.abs(inverse - coded.inverse) > MAX_INVERSE_ERROR
    off_items = np.bincount(np.repeat(np.arange(len(numbers)), coded.counts), off, len(numbers)) > 0
    is_there = expected >= 0
    right = is_there & (coded.counts == expected) & ~off_items
    found.left_over += int((~is_there).sum())
    found.wrong += int((is_there & ~right).sum())
    return right


def _fingerprints(segment: Segment, kind: int) -> Iterator[bytes]:
    return (fingerprint(one, kind) for one in segments.split(segment))


def _sizes(db: Database, owner: Owner, kind: int, embedder: int) -> list[tuple[int, int]]:
    return db.run("segment_sizes", {"owner": owner, "kind": kind, "embedder_no": embedder}).fetchall()


def _data(db: Database, owner: Owner, kind: int, embedder: int, number: int) -> bytes:
    values = {"owner": owner, "kind": kind, "embedder_no": embedder, "no": number}
    data: object = db.run("segment", values).fetchone()[0]
    return data if isinstance(data, bytes) else b""
