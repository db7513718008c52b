"""Entries to index, made by hand or drawn, and a plain reading of what a segment says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from loomflow.index.partition import Partition
from loomflow.index.parts import AGENT, USER, Part
from loomflow.index.questions import is_question, names_time
from loomflow.index.segments import IS_QUESTION, MAX_COUNT, NAMES_TIME, Entry, Segment, build, digest, session_digest
from loomflow.moments import to_micros
from loomflow.words import terms

NOON = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
WORDS = ("tea", "rice", "Lisbon", "the", "yesterday", "tea tea tea", "我住在里斯本", "café", "42", "?", "...")
SESSIONS = ("s", "t", "u", "")
NAMES = (None, "Ana", "Bob Lee", "小明")


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return to_micros(moment)


def entry(number: int, *texts: str, session: str = "s", time: datetime = NOON, name: str | None = None) -> Entry:
    """An item of some passages, the first said by the user, the others by the agent."""
    parts = [(Part(AGENT if place else USER, 0, len(text)), text, name) for place, text in enumerate(texts)]
    return Entry(number, session, micros(time), tuple(parts))


def partition_of(*entries: Entry) -> Partition:
    """A partition of these items, written as one."""
    partition = Partition(0)
    partition.append(build(entries))
    return partition


def written(segments: Sequence[Segment]) -> Partition:
    """A partition of these segments, appended one by one."""
    partition = Partition(0)
    for segment in segments:
        partition.append(segment)
    return partition


@st.composite
def entry_lists(draw: st.DrawFn, *, least: int = 0, most: int = 12) -> list[Entry]:
    """Items in the order of their numbers, some of them of the same session."""
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
    sides = st.sampled_from([USER, AGENT])
    parts = st.tuples(sides, st.integers(0, 900), texts, st.sampled_from(NAMES))
    items = draw(st.lists(st.tuples(st.lists(parts, min_size=1, max_size=3), st.sampled_from(SESSIONS)),
                          min_size=least, max_size=most))  # fmt: skip
    numbers = draw(st.sets(st.integers(1, 10**12), min_size=len(items), max_size=len(items)).map(sorted))
    return [
        Entry(number, session, draw(st.integers(-(10**17), 10**17)),
              tuple((Part(side, start, start + len(text)), text, name) for side, start, text, name in pieces))
        for number, (pieces, session) in zip(numbers, items, strict=True)
    ]  # fmt: skip


@st.composite
def splits(draw: st.DrawFn, entries: Sequence[Entry]) -> list[list[Entry]]:
    """The same items in one piece or in several, none of them empty."""
    cuts = sorted(draw(st.sets(st.integers(1, max(len(entries) - 1, 1)))))
    pieces = [list(entries[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    return [piece for piece in pieces if piece]


@dataclass(frozen=True)
class Told:
    """What is known of one passage."""

    number: int
    session: int
    time: int
    side: int
    start: int
    end: int
    length: int
    flags: int
    name: str | None
    counts: dict[int, int]


def told(entries: Sequence[Entry]) -> list[Told]:
    """What a segment of these entries has to say, passage by passage."""
    passages: list[Told] = []
    for one in entries:
        for part, text, name in one.parts:
            telling, other = terms(text)
            counts = Counter(digest(term) for term in [*telling, *other])
            passages.append(
                Told(
                    one.number, session_digest(one.session), one.time, part.side, part.start, part.end, len(telling),
                    IS_QUESTION * is_question(text) | NAMES_TIME * names_time(text), name,
                    {key: min(count, MAX_COUNT) for key, count in counts.items()},
                )
            )  # fmt: skip
    return passages


def turns(passages: Sequence[Told]) -> tuple[list[Told], list[int]]:
    """What was said in one go, and for each passage which turn it is of."""
    spoken: list[Told] = []
    of_passages: list[int] = []
    for passage in passages:
        last = spoken[-1] if spoken else None
        if last is not None and (last.number, last.side) == (passage.number, passage.side):
            together = Counter(last.counts) + Counter(passage.counts)
            spoken[-1] = replace(last, length=last.length + passage.length, counts=dict(together))
        else:
            spoken.append(passage)
        of_passages.append(len(spoken) - 1)
    return spoken, of_passages


def read(segment: Segment) -> list[Told]:
    """The same, read from a segment."""
    counts: list[dict[int, int]] = [{} for _ in range(segment.passages)]
    for key, begin, end in zip(segment.keys.tolist(), segment.offsets[:-1], segment.offsets[1:], strict=True):
        assert begin < end
        ids = segment.ids[begin:end].tolist()
        assert ids == sorted(set(ids))
        for place, count in zip(ids, segment.counts[begin:end].tolist(), strict=True):
            assert key not in counts[place]
            counts[place][key] = count
    items: list[int] = np.repeat(np.arange(len(segment.numbers)), np.diff(segment.first)).tolist()
    names: list[int] = segment.name.tolist()
    return [
        Told(
            int(segment.numbers[item]), int(segment.sessions[item]), int(segment.times[item]),
            int(segment.side[place]), int(segment.start[place]), int(segment.end[place]), int(segment.length[place]),
            int(segment.flags[place]), None if names[place] < 0 else segment.names[names[place]],
            counts[place],
        )
        for place, item in enumerate(items)
    ]  # fmt: skip


def same(one: Segment, other: Segment) -> bool:
    """Whether two segments are the same, value by value and type by type."""
    arrays = [name for name in Segment.__dataclass_fields__ if name != "names"]
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = [(getattr(one, name), getattr(other, name)) for name in arrays]
    return one.names == other.names and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
