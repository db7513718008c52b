"""Segments: the keyword index of some facts or episodes, as arrays and as bytes.

A write adds a small segment; segments are merged as they become many. A store keeps them as opaque bytes beside its
rows, in the order in which they were written, and never looks into them.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from loomflow.items import Episode, Fact
from loomflow.moments import to_micros
from loomflow.words import terms

from .parts import Part, parts_of_episode, parts_of_fact
from .questions import is_question, names_time

VERSION = 1
"""Of everything that decides what stands in a segment: a store rebuilds the segments of another version."""

IS_QUESTION, NAMES_TIME = 1, 2
NO_NAME = -1
MAX_COUNT = 255


@dataclass(frozen=True, slots=True)
class Segment:
    """The index of m items with p passages, k distinct terms and n postings.

    Attributes:
        numbers: row numbers of the items, ascending, shape [m].
        sessions: digests of their session ids, shape [m].
        times: when, in microseconds since 1970, shape [m].
        first: at which passage each item begins, and p at the end, shape [m + 1].
        start, end: where each passage stands in the text of its side, shape [p].
        length: how many telling terms it has, shape [p].
        name: whose it is, as a place in `names`, or `NO_NAME`, shape [p].
        keys: digests of the terms, ascending, shape [k].
        offsets: where the postings of each term begin, and n at the end, shape [k + 1].
        ids: the passages that have the term, shape [n].
        counts: how often, at most `MAX_COUNT`, shape [n].
        side, flags: of each passage, shape [p].
        names: of speakers, or subjects of facts.
    """

    numbers: NDArray[np.int64]
    sessions: NDArray[np.uint64]
    times: NDArray[np.int64]
    first: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    length: NDArray[np.int32]
    name: NDArray[np.int32]
    keys: NDArray[np.uint32]
    offsets: NDArray[np.int32]
    ids: NDArray[np.int32]
    counts: NDArray[np.uint8]
    side: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    names: tuple[str, ...]

    @property
    def passages(self) -> int:
        """How many passages there are."""
        return len(self.side)


_LAYOUT = (  # name, type, and length: widest types first, so that all are aligned
    ("numbers", "<i8", "m"), ("sessions", "<u8", "m"), ("times", "<i8", "m"), ("first", "<i4", "m+1"),
    ("start", "<i4", "p"), ("end", "<i4", "p"), ("length", "<i4", "p"), ("name", "<i4", "p"),
    ("keys", "<u4", "k"), ("offsets", "<i4", "k+1"), ("ids", "<i4", "n"),
    ("counts", "u1", "n"), ("side", "u1", "p"), ("flags", "u1", "p"),
)  # fmt: skip
_HEADER = struct.Struct("<IIIIII")


def to_bytes(segment: Segment) -> bytes:
    """The segment as bytes, for `from_bytes`."""
    names = "\n".join(segment.names).encode()
    header = _HEADER.pack(
        len(segment.numbers), segment.passages, len(segment.keys), len(segment.ids), len(names), len(segment.names)
    )
    arrays = (getattr(segment, name).astype(dtype, copy=False).tobytes() for name, dtype, _ in _LAYOUT)
    return b"".join([header, *arrays, names])


def from_bytes(data: bytes) -> Segment:
    """The segment that `to_bytes` wrote; its arrays are views of `data`."""
    m, p, k, n, name_bytes, name_count = _HEADER.unpack_from(data)
    sizes = {"m": m, "m+1": m + 1, "p": p, "k": k, "k+1": k + 1, "n": n}
    position = _HEADER.size
    arrays: dict[str, Any] = {}
    for name, dtype, size in _LAYOUT:
        arrays[name] = np.frombuffer(data, dtype, sizes[size], position)
        position += arrays[name].nbytes
    names = data[position : position + name_bytes].decode()
    return Segment(**arrays, names=tuple(names.split("\n")) if name_count else ())


@dataclass(frozen=True, slots=True)
class Entry:
    """What a segment needs of an item: its number, session and time, and its passages with their text and name."""

    number: int
    session: str
    time: int
    parts: tuple[tuple[Part, str, str | None], ...]


def entry_of(number: int, item: Episode | Fact) -> Entry:
    """An item as `build` takes it."""
    if isinstance(item, Episode):
        return Entry(number, item.session_id, to_micros(item.occurred_at) or 0, tuple(parts_of_episode(item)))
    return Entry(number, item.source_episode_id or "", to_micros(item.recorded_at) or 0, tuple(parts_of_fact(item)))


def build(entries: Sequence[Entry]) -> Segment:
    """Index some items, in the order of their numbers."""
    parts = [part for entry in entries for part in entry.parts]
    names = list(dict.fromkeys(_one_line(name) for _, _, name in parts if name is not None))
    places = {name: place for place, name in enumerate(names)}
    lengths: list[int] = []
    flags: list[int] = []
    posted: list[tuple[int, int, int]] = []
    for place, (_, text, _) in enumerate(parts):
        telling, other = terms(text)
        lengths.append(len(telling))
        flags.append(IS_QUESTION * is_question(text) | NAMES_TIME * names_time(text))
        counted = Counter(map(digest, telling))
        counted.update(map(digest, other))
        posted += [(key, place, min(count, MAX_COUNT)) for key, count in counted.items()]
    postings = np.array(posted, np.int64).reshape(-1, 3)
    postings = postings[np.argsort(postings[:, 0], kind="stable")]
    keys, begins = np.unique(postings[:, 0], return_index=True)
    return Segment(
        numbers=np.array([entry.number for entry in entries], np.int64),
        sessions=np.array([session_digest(entry.session) for entry in entries], np.uint64),
        times=np.array([entry.time for entry in entries], np.int64),
        first=np.cumsum([0, *(len(entry.parts) for entry in entries)], dtype=np.int32),
        start=np.array([part.start for part, _, _ in parts], np.int32),
        end=np.array([part.end for part, _, _ in parts], np.int32),
        length=np.array(lengths, np.int32),
        name=np.array([NO_NAME if name is None else places[_one_line(name)] for _, _, name in parts], np.int32),
        keys=keys.astype(np.uint32),
        offsets=np.append(begins, len(postings)).astype(np.int32),
        ids=postings[:, 1].astype(np.int32),
        counts=postings[:, 2].astype(np.uint8),
        side=np.array([part.side for part, _, _ in parts], np.uint8),
        flags=np.array(flags, np.uint8),
        names=tuple(names),
    )


def merge(segments: Sequence[Segment]) -> Segment:
    """One segment of several, whose items follow one another."""
    names = list(dict.fromkeys(name for segment in segments for name in segment.names))
    places = {name: place for place, name in enumerate(names)}
    shifts = np.cumsum([0, *(segment.passages for segment in segments)])
    keys = np.concatenate([np.repeat(one.keys, np.diff(one.offsets)) for one in segments])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    distinct, begins = np.unique(keys, return_index=True)
    ids = np.concatenate([one.ids + shift for one, shift in zip(segments, shifts, strict=False)])
    renamed = [np.array([*(places[name] for name in one.names), NO_NAME], np.int32)[one.name] for one in segments]
    firsts = [one.first[:-1] + shift for one, shift in zip(segments, shifts, strict=False)]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(one, name) for one in segments])

    return Segment(
        numbers=joined("numbers"), sessions=joined("sessions"), times=joined("times"),
        first=np.append(np.concatenate(firsts), shifts[-1]).astype(np.int32),
        start=joined("start"), end=joined("end"), length=joined("length"), name=np.concatenate(renamed),
        keys=distinct, offsets=np.append(begins, len(keys)).astype(np.int32), ids=ids[order].astype(np.int32),
        counts=joined("counts")[order], side=joined("side"), flags=joined("flags"), names=tuple(names),
    )  # fmt: skip


def only(segment: Segment, wanted: NDArray[np.bool_]) -> Segment:
    """The segment without some of its items.

    Args:
        segment: of m items.
        wanted: which items stay, shape [m].
    """
    sizes = np.diff(segment.first)
    stays = np.repeat(wanted, sizes)
    renumbered = np.cumsum(stays) - 1
    kept = stays[segment.ids]
    keys = np.repeat(segment.keys, np.diff(segment.offsets))[kept]
    distinct, begins = np.unique(keys, return_index=True)

    def of_passages(name: str) -> NDArray[Any]:
        return getattr(segment, name)[stays]

    used: list[int] = [place for place in np.unique(of_passages("name")).tolist() if place != NO_NAME]
    renamed = np.full(len(segment.names) + 1, NO_NAME, np.int32)
    renamed[used] = np.arange(len(used))

    return Segment(
        numbers=segment.numbers[wanted], sessions=segment.sessions[wanted], times=segment.times[wanted],
        first=np.cumsum([0, *sizes[wanted]], dtype=np.int32),
        start=of_passages("start"), end=of_passages("end"), length=of_passages("length"),
        name=renamed[of_passages("name")], keys=distinct, offsets=np.append(begins, len(keys)).astype(np.int32),
        ids=renumbered[segment.ids[kept]].astype(np.int32), counts=segment.counts[kept],
        side=of_passages("side"), flags=of_passages("flags"), names=tuple(segment.names[place] for place in used),
    )  # fmt: skip


def split(segment: Segment) -> list[Segment]:
    """A segment for each item, so that `merge` of any of them, in order, is their index."""
    item_of = np.repeat(np.arange(len(segment.numbers)), np.diff(segment.first))[segment.ids]
    order = np.argsort(item_of, kind="stable")  # within an item, by key and passage as before
    keys = np.repeat(segment.keys, np.diff(segment.offsets))[order]
    ids, counts = segment.ids[order], segment.counts[order]
    ends = np.cumsum(np.bincount(item_of, minlength=len(segment.numbers)))
    return [
        _one_item(segment, place, keys[begin:end], ids[begin:end], counts[begin:end])
        for place, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    ]


def _one_item(segment: Segment, place: int, keys: NDArray[Any], ids: NDArray[Any], counts: NDArray[Any]) -> Segment:
    first, last = segment.first[place : place + 2].tolist()
    distinct, begins = np.unique(keys, return_index=True)
    of_passages: list[int] = segment.name[first:last].tolist()
    names = dict.fromkeys(one for one in of_passages if one != NO_NAME)
    places = {name: at for at, name in enumerate(names)} | {NO_NAME: NO_NAME}
    return Segment(
        numbers=segment.numbers[place : place + 1], sessions=segment.sessions[place : place + 1],
        times=segment.times[place : place + 1], first=np.array([0, last - first], np.int32),
        start=segment.start[first:last], end=segment.end[first:last], length=segment.length[first:last],
        name=np.array([places[name] for name in of_passages], np.int32), keys=distinct,
        offsets=np.append(begins, len(keys)).astype(np.int32), ids=ids - first, counts=counts,
        side=segment.side[first:last], flags=segment.flags[first:last],
        names=tuple(segment.names[name] for name in names),
    )  # fmt: skip


def digest(term: str) -> int:
    """A term as 32 bits: of 50,000 terms, the chance that a given other one shares the digest is 1 in 86,000."""
    return crc32(term.encode())


def session_digest(session_id: str) -> int:
    """A session's id as 64 bits."""
    return int.from_bytes(hashlib.blake2b(session_id.encode(), digest_size=8).digest(), "little")


def due(sizes: Sequence[int], levels: Sequence[int]) -> int:
    """From which segment on a list of them should be merged into one; its length if nothing is due.

    Args:
        sizes: items of each segment, in order.
        levels: the sizes at which a run of smaller segments at the end is merged, largest first. Each item is merged
            once a level, so the cost of a write stays level while the list stays short.
    """
    for level in levels:
        begin, total = len(sizes), 0
        while begin and sizes[begin - 1] < level:
            begin -= 1
            total += sizes[begin]
        if total >= level and len(sizes) - begin > 1:
            return begin
    return len(sizes)


def _one_line(name: str) -> str:
    return " ".join(name.split())
