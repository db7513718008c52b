"""A partition: the index of one user's facts or episodes in memory, appended to as segments come in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .segments import NO_NAME, Segment, due, merge, only
from .subjects import Subjects
from .vectors import CodedVectors, Vector, cosines

LEVELS = (8192, 512, 32)
"""Sizes at which runs of smaller segments are merged in memory, see `segments.due`."""

BEFORE, AFTER = 4, 2
"""How many turns of the same session count as the neighbourhood of a turn."""

SUBJECT_BYTES = 1200
"""What a subject takes, with the words that name it, roughly."""

BEFORE_WEIGHT, AFTER_WEIGHT = 0.8, 0.3
"""What a neighbour at distance k counts: the weight to the power of k."""


class Column:
    """A growing array. Views handed out before stay valid: growth copies, and what is there is not moved."""

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._array = np.empty((0,) if width is None else (0, width), dtype)
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end, doubling the capacity as needed."""
        needed = self._count + len(values)
        if needed > len(self._array):
            grown = np.empty((max(needed, 2 * self._count), *self._array.shape[1:]), self._array.dtype)
            grown[: self._count] = self.values
            self._array = grown
        self._array[self._count : needed] = values
        self._count = needed

    @property
    def values(self) -> NDArray[Any]:
        """What is in it, as a view."""
        return self._array[: self._count]

    @property
    def nbytes(self) -> int:
        """Bytes in use, spare capacity included."""
        return self._array.nbytes


class VectorColumn:
    """The codes of one embedder, aligned with the passages of a partition."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.read_up_to = 0
        self._codes = Column(np.int8, dimensions)
        self._inverse = Column(np.float32)

    @property
    def codes(self) -> NDArray[np.int8]:
        return self._codes.values

    @property
    def inverse(self) -> NDArray[np.float32]:
        return self._inverse.values

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._inverse.nbytes

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        """Which passages have a vector, shape [p]."""
        return self.inverse > 0

    def cosines(self, query: Vector) -> NDArray[np.float32]:
        """The cosine of each passage with a question's vector, shape [d], as quickly as possible, shape [p]."""
        return cosines(query, self.codes, self.inverse)

    def exact(self, query: Vector, passages: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The same of k passages, by the question's vector as it is, shape [k]; -1 where there is no vector."""
        near = np.vecdot(self.codes[passages].astype(np.float32), query) * self.inverse[passages]
        near[self.inverse[passages] == 0] = -1
        return near

    def fill(self, passages: int) -> None:
        """Make room for passages that have no vector yet."""
        missing = passages - len(self.inverse)
        if missing > 0:
            self._codes.append(np.zeros((missing, self.dimensions), np.int8))
            self._inverse.append(np.zeros(missing, np.float32))

    def place(self, vectors: CodedVectors, numbers: NDArray[np.int64], first: NDArray[np.int32]) -> None:
        """Put vectors where their items stand; those of other dimensions, or of items that are gone, are left out."""
        if vectors.codes.shape[1] != self.dimensions or not len(numbers):
            return
        total = int(first[-1])
        at = np.minimum(np.searchsorted(numbers, vectors.numbers), len(numbers) - 1)
        fits = (numbers[at] == vectors.numbers) & (np.diff(first)[at] == vectors.counts)
        begin = len(self.inverse)
        if fits.all() and begin < total and (first[at] == begin + np.cumsum([0, *vectors.counts[:-1]])).all():
            self._codes.append(vectors.codes)  # what follows is simply appended
            self._inverse.append(vectors.inverse)
            self.fill(total)
            return
        self.fill(total)
        source = np.repeat(fits, vectors.counts)
        target = np.repeat(first[at] - np.cumsum([0, *vectors.counts[:-1]]), vectors.counts) + np.arange(len(source))
        self.codes[target[source]] = vectors.codes[source]
        self.inverse[target[source]] = vectors.inverse[source]


class Partition:
    """Columns over the items, turns and passages of one user, and the postings of their terms.

    A turn is what one side said in one item: one passage, or several that follow one another.

    Attributes:
        epoch: the user's epoch in the database that it was read at; another one asks for a fresh partition.
        read_up_to: the last segment that was read.
        vectors: by embedder and dimensions.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.read_up_to = 0
        self._names: dict[str, int] = {}
        self._subjects = Subjects()
        self.vectors: dict[tuple[int, int], VectorColumn] = {}
        self._segments: list[Segment] = []
        self._numbers = Column(np.int64)
        self._times = Column(np.int64)
        self._sessions = Column(np.int32)
        self._first = Column(np.int32)
        self._first.append(np.zeros(1, np.int32))
        self._passages: dict[str, Column] = {
            name: Column(dtype)
            for name, dtype in (
                ("item", np.int32), ("session", np.int32), ("start", np.int32), ("end", np.int32),
                ("length", np.float32), ("name", np.int32), ("side", np.uint8), ("flags", np.uint8),
                ("turn", np.int32),
            )
        }  # fmt: skip
        self._turns: dict[str, Column] = {
            name: Column(dtype)
            for name, dtype in (
                ("opening", np.int32), ("length", np.float32), ("before", np.int32), ("after", np.int32),
                ("near", np.float32),
            )
        }  # fmt: skip
        self._session_places: dict[int, int] = {}
        self._last_of_session: dict[int, int] = {}

    # What is in it

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Row numbers of the items, ascending, shape [m]."""
        return self._numbers.values

    @property
    def times(self) -> NDArray[np.int64]:
        """When the items were, in microseconds, shape [m]."""
        return self._times.values

    @property
    def sessions(self) -> NDArray[np.int32]:
        """The session of each item, counted from 0, shape [m]."""
        return self._sessions.values

    @property
    def first(self) -> NDArray[np.int32]:
        """At which passage each item begins, and the number of passages at the end, shape [m + 1]."""
        return self._first.values

    @property
    def session_digests(self) -> list[int]:
        """The digest of each session's id, in the order in which they are counted."""
        return list(self._session_places)

    @property
    def session_count(self) -> int:
        return len(self._session_places)

    @property
    def size(self) -> int:
        """How many passages there are."""
        return len(self._passages["item"].values)

    @property
    def names(self) -> list[str]:
        """Whose passages there are, as the column `name` counts them."""
        return list(self._names)

    @property
    def subjects(self) -> Subjects:
        """The names as subjects of facts, in the same order; read when they are first asked for."""
        self._subjects.extend(islice(self._names, len(self._subjects), None))
        return self._subjects

    @property
    def nbytes(self) -> int:
        """Memory in use, roughly."""
        columns = [*self._passages.values(), *self._turns.values(), self._numbers, self._times, self._sessions]
        postings = sum(one.ids.nbytes + one.counts.nbytes + one.keys.nbytes * 2 for one in self._segments)
        subjects = len(self._subjects) * SUBJECT_BYTES
        return sum(c.nbytes for c in columns) + sum(v.nbytes for v in self.vectors.values()) + postings + subjects

    def of_passages(self, name: str) -> NDArray[Any]:
        """A column over passages: item, session, start, end, length, name, side, flags or turn."""
        return self._passages[name].values

    @property
    def openings(self) -> NDArray[np.int32]:
        """The first passage of each turn, shape [t]."""
        return self._turns["opening"].values

    @property
    def before(self) -> NDArray[np.int32]:
        """The turn before each one in its session; its own place where there is none, shape [t]."""
        return self._turns["before"].values

    @property
    def after(self) -> NDArray[np.int32]:
        """The turn after each one in its session; its own place where there is none, shape [t]."""
        return self._turns["after"].values

    @property
    def near(self) -> NDArray[np.float32]:
        """The length of each turn's neighbourhood, neighbours weighted, shape [t]."""
        return self._turns["near"].values

    def near_among(self, shown: NDArray[np.bool_]) -> NDArray[np.float32]:
        """`near` as it is where only some turns are there, shape [t]."""
        lengths = np.where(shown, self._turns["length"].values, 0).astype(np.float32)
        return self._around(lengths, np.arange(len(lengths), dtype=np.int32))

    def session_place(self, digest: int) -> int | None:
        """The session with this digest, counted from 0; None if it is not there."""
        return self._session_places.get(digest)

    def postings(self, keys: NDArray[np.uint32]) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """For each term, the passages that have it, ascending, and how often they do."""
        found: list[list[tuple[NDArray[np.int32], NDArray[np.uint8]]]] = [[] for _ in keys]
        shift = 0
        for segment in self._segments:
            if len(segment.keys):
                at = np.searchsorted(segment.keys, keys)
                hits = np.flatnonzero(segment.keys[np.minimum(at, len(segment.keys) - 1)] == keys)
                for hit in hits.tolist():
                    begin, end = segment.offsets[at[hit]], segment.offsets[at[hit] + 1]
                    ids = segment.ids[begin:end]
                    found[hit].append((ids + shift if shift else ids, segment.counts[begin:end]))
            shift += segment.passages
        return [_joined(parts) for parts in found]

    # Appending

    def append(self, segment: Segment) -> None:
        """Add the items of a segment; those that are there already are left out."""
        known = self.numbers[-1] if len(self.numbers) else -1
        if len(segment.numbers) and segment.numbers[0] <= known:
            segment = only(segment, segment.numbers > known)
        if not len(segment.numbers):
            return
        begin = self.size
        places = self._placed(segment.sessions)
        self._numbers.append(segment.numbers)
        self._times.append(segment.times)
        self._sessions.append(places)
        self._first.append(segment.first[1:] + begin)
        sizes = np.diff(segment.first)
        of_items = np.repeat(np.arange(len(places), dtype=np.int32), sizes)
        columns = {name: getattr(segment, name) for name in ("start", "end", "length", "side", "flags")}
        columns |= {
            "item": of_items + (len(self.numbers) - len(places)),
            "session": places[of_items],
            "name": self._renamed(segment),
        }
        opens = np.ones(segment.passages, np.bool_)
        opens[1:] = (of_items[1:] != of_items[:-1]) | (segment.side[1:] != segment.side[:-1])
        openings = np.flatnonzero(opens)
        columns["turn"] = np.cumsum(opens, dtype=np.int32) + (len(self.openings) - 1)
        for name, values in columns.items():
            self._passages[name].append(values)
        self._turns["opening"].append(openings + begin)
        self._turns["length"].append(np.add.reduceat(segment.length, openings).astype(np.float32))
        self._link(columns["session"][openings])
        self._segments.append(segment)
        begin_merge = due([len(one.numbers) for one in self._segments], LEVELS)
        if begin_merge < len(self._segments):
            self._segments[begin_merge:] = [merge(self._segments[begin_merge:])]

    def _placed(self, digests: NDArray[np.uint64]) -> NDArray[np.int32]:
        distinct, inverse = np.unique(digests, return_inverse=True)
        places = [self._session_places.setdefault(one, len(self._session_places)) for one in distinct.tolist()]
        return np.array(places, np.int32)[inverse]

    def _renamed(self, segment: Segment) -> NDArray[np.int32]:
        for name in segment.names:
            self._names.setdefault(name, len(self._names))
        return np.array([*(self._names[name] for name in segment.names), NO_NAME], np.int32)[segment.name]

    def _link(self, sessions: NDArray[np.int32]) -> None:
        """Link the newest turns, of these sessions, with their neighbours, and weigh the neighbourhoods that change."""
        begin = len(self.openings) - len(sessions)
        own = np.arange(begin, len(self.openings), dtype=np.int32)
        before, after = own.copy(), own.copy()
        order = np.argsort(sessions, kind="stable")
        same = sessions[order[1:]] == sessions[order[:-1]]
        before[order[1:][same]] = own[order[:-1][same]]
        after[order[:-1][same]] = own[order[1:][same]]
        self._turns["before"].append(before)
        self._turns["after"].append(after)
        self._turns["near"].append(np.zeros(len(own), np.float32))
        begins = np.flatnonzero(np.concatenate([[True], ~same]))
        ends = np.append(begins[1:], len(order)) - 1
        changed = [own]
        for first, last in zip(order[begins].tolist(), order[ends].tolist(), strict=True):
            session = int(sessions[first])
            previous = self._last_of_session.get(session)
            if previous is not None:
                self.before[begin + first], self.after[previous] = previous, begin + first
                changed.append(self._chain(previous, self.before, AFTER - 1))
            self._last_of_session[session] = begin + last
        places = np.concatenate(changed)
        self.near[places] = self._around(self._turns["length"].values, places)

    def _chain(self, place: int, link: NDArray[np.int32], steps: int) -> NDArray[np.int32]:
        chain = [place]
        for _ in range(steps):
            chain.append(int(link[chain[-1]]))
        return np.array(chain, np.int32)

    def _around(self, values: NDArray[np.float32], places: NDArray[np.int32]) -> NDArray[np.float32]:
        """The weighted sum of `values`, shape [t], over the neighbourhood of each of `places`."""
        total = values[places].copy()
        for link, weight, reach in ((self.before, BEFORE_WEIGHT, BEFORE), (self.after, AFTER_WEIGHT, AFTER)):
            here, factor = places, 1.0
            for _ in range(reach):
                there = link[here]
                factor *= weight
                total += np.where(there != here, values[there] * factor, 0)
                here = there
        return total


def _joined(
    parts: Sequence[tuple[NDArray[np.int32], NDArray[np.uint8]]],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([counts for _, counts in parts]).astype(np.float32)
