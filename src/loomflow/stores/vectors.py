"""Exact nearest-neighbour search over one user's vectors, cached in process.

A partition (one user's episodes or facts under one embedder) is loaded in bulk on first use. Rows appended later, by
this process or another, are added to it; any other change raises the user's epoch in the database, and the partition is
loaded again. Least recently used partitions go when the cache is over its size.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = Sequence[tuple[int, bytes]]
Cosines = tuple[list[int], NDArray[np.float32]]
CACHE_BYTES = 512 * 1024 * 1024
STORED = np.dtype("<f2")
NO_COSINES: Cosines = ([], np.empty(0, dtype=np.float32))


def pack(vector: NDArray[np.float32]) -> bytes | None:
    """A vector as stored: float16 at unit length; None if it has no direction (zero, or not finite)."""
    unit = normalised(vector)
    return None if unit is None else unit.astype(STORED).tobytes()


def normalised(vector: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """`vector`, shape [d], at unit length; None if it is zero or not finite."""
    wide = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(wide))
    if not np.isfinite(length) or length == 0.0:
        return None
    return (wide / length).astype(np.float32)


@dataclass(slots=True)
class Partition:
    """One user's vectors: `numbers` shape [n], `matrix` shape [capacity, d], rows of unit length."""

    epoch: int
    numbers: list[int]
    matrix: NDArray[np.float32]

    def append(self, rows: Rows) -> None:
        """Add rows at the end, doubling the capacity as needed. Views handed out before stay valid."""
        numbers, vectors = zip(*rows, strict=True)
        added = np.frombuffer(b"".join(vectors), dtype=STORED).reshape(len(rows), -1)
        count = len(self.numbers)
        if count + len(rows) > len(self.matrix):
            grown = np.empty((max(count + len(rows), 2 * count), added.shape[1]), dtype=np.float32)
            if count:
                grown[:count] = self.matrix[:count]
            self.matrix = grown
        self.matrix[count : count + len(rows)] = added
        self.numbers.extend(numbers)


class VectorCache:
    """Partitions by key, within `limit` bytes. Safe to use from several threads."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._partitions: OrderedDict[tuple[int, ...], Partition] = OrderedDict()

    def cosines(
        self, key: tuple[int, ...], epoch: int, query: NDArray[np.float32], load: Callable[[int], Rows]
    ) -> Cosines:
        """Compare `query` with every vector of a partition.

        Args:
            key: user, kind, embedder, dimensions.
            epoch: the user's present epoch in the database.
            query: shape [d], unit length.
            load: returns the rows of the partition with a number above the one given, in order; all as long as `query`.

        Returns:
            Row numbers, of which the first n count, and their cosines, shape [n].
        """
        with self._lock:
            partition = self._current(key, epoch, load)
            numbers = partition.numbers
            count = len(numbers)
            matrix = partition.matrix[:count]
        if count == 0:
            return NO_COSINES
        # Not `matrix @ query`: after it the threads of BLAS burn a tenth of a second of CPU while they wait for more.
        return numbers, np.vecdot(matrix, query)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._partitions.clear()

    def _current(self, key: tuple[int, ...], epoch: int, load: Callable[[int], Rows]) -> Partition:
        partition = self._partitions.get(key)
        if partition is None or partition.epoch != epoch:
            partition = Partition(epoch, [], np.empty((0, 0), dtype=np.float32))
        rows = load(partition.numbers[-1] if partition.numbers else 0)
        if rows:
            partition.append(rows)
        self._partitions[key] = partition
        self._partitions.move_to_end(key)
        while len(self._partitions) > 1 and sum(p.matrix.nbytes for p in self._partitions.values()) > self._limit:
            self._partitions.popitem(last=False)
        return partition


def best(cosines: NDArray[np.float32], limit: int) -> list[int]:
    """Positions of the `limit` highest cosines, best first; among equals the newest row first."""
    count = len(cosines)
    if limit < count:
        threshold = np.partition(cosines, count - limit)[count - limit]
        positions = np.flatnonzero(cosines >= threshold)
    else:
        positions = np.arange(count)
    order = np.lexsort((-positions, -cosines[positions]))[:limit]
    return positions[order].tolist()
