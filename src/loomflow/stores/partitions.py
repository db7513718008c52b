"""The partitions that are in memory: read from the store's segments on first use, and kept up to date with it."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from loomflow.errors import StoreError
from loomflow.index import segments, vectors
from loomflow.index.partition import Partition, VectorColumn

from .rows import Owner

CACHE_BYTES = 512 * 1024 * 1024
OVERHEAD = 12 * 1024
"""What a partition takes beside the data in it."""

ReadSegments = Callable[[int, int], Sequence[tuple[int, bytes]]]
"""From the number of an embedder (0: the keyword index) and of a segment to the segments after it, in order."""


SMALL = 512
"""Segments with fewer items are merged before they are appended: one by one, hundreds of single writes take longer."""


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    partition: Partition | None = None
    nbytes: int = 0


class Partitions:
    """Partitions by user and kind, within `limit` bytes: the longest unused ones go first. Safe to use from threads."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._nbytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[Owner, int], _Entry] = OrderedDict()

    @contextmanager
    def opened(self, key: tuple[Owner, int], epoch: int, read: ReadSegments) -> Generator[Partition]:
        """The partition of a user and kind as the database has it, for the time of the block.

        Args:
            key: what stands for the user, and the kind.
            epoch: the user's present epoch in the database.
            read: reads segments that are not in memory yet.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.lock:
            partition = entry.partition
            if partition is None or partition.epoch != epoch:
                partition = entry.partition = Partition(epoch)
            try:
                _read_on(partition, read(0, partition.read_up_to))
                yield partition
            except (ValueError, IndexError, TypeError, struct.error) as error:
                entry.partition = None
                raise StoreError(f"the search index is damaged: {error}") from error
            nbytes = OVERHEAD + partition.nbytes
            with self._lock:
                if self._entries.get(key) is entry:
                    self._nbytes += nbytes - entry.nbytes
                    entry.nbytes = nbytes
            if not partition.size:  # nothing to keep, of a user who may never come again
                self._drop(key, entry)
        self._shrink()

    def column(self, partition: Partition, embedder: int, dimensions: int, read: ReadSegments) -> VectorColumn:
        """The vectors of an embedder, of a partition that is opened."""
        column = partition.vectors.setdefault((embedder, dimensions), VectorColumn(dimensions))
        for number, data in read(embedder, column.read_up_to):
            column.place(vectors.from_bytes(data), partition.numbers, partition.first)
            column.read_up_to = number
        column.fill(partition.size)
        return column

    def forget(self, owner: Owner) -> None:
        """Drop what is in memory of a user."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == owner]:
                self._nbytes -= self._entries.pop(key).nbytes

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0

    def _drop(self, key: tuple[Owner, int], entry: _Entry) -> None:
        with self._lock:
            if self._entries.get(key) is entry:
                del self._entries[key]
                self._nbytes -= entry.nbytes

    def _shrink(self) -> None:
        with self._lock:
            while self._nbytes > self._limit and len(self._entries) > 1:
                self._nbytes -= self._entries.popitem(last=False)[1].nbytes


def _read_on(partition: Partition, read: Sequence[tuple[int, bytes]]) -> None:
    """Append segments, in order, to a partition."""
    small: list[segments.Segment] = []
    for number, data in read:
        segment = segments.from_bytes(data)
        if len(segment.numbers) < SMALL:
            small.append(segment)
        else:
            _append_merged(partition, small)
            partition.append(segment)
        partition.read_up_to = number
    _append_merged(partition, small)


def _append_merged(partition: Partition, small: list[segments.Segment]) -> None:
    if small:
        partition.append(small[0] if len(small) == 1 else segments.merge(small))
        small.clear()
