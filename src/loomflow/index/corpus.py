"""What a partition that holds only some of a user's items has to know of all of them.

A memory can be too large to be read whole. Then a store reads what a question can find, and a sample: whole sessions,
spread evenly over the memory. Counts that the store cannot give are those of the sample, by so many items as each of it
stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .partition import Partition

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Corpus:
    """All of a user's items, of which a partition holds m with p passages in s sessions.

    Attributes:
        items: how many there are.
        having: how many of them have a term, by term.
        is_sample: which items of the partition are the sample, shape [m].
        session_items: how many items each session of the partition has in all, shape [s].
        session_lengths: how many telling terms each of them has in all, shape [s].
    """

    items: int
    having: Mapping[str, int]
    is_sample: Mask
    session_items: NDArray[np.integer[Any]]
    session_lengths: Floats

    @property
    def share(self) -> float:
        """How many items each item of the sample stands for."""
        return self.items / max(int(self.is_sample.sum()), 1)

    def sampled(self, partition: Partition) -> Mask:
        """Which passages are of the sample, shape [p]."""
        return self.is_sample[partition.of_passages("item")]

    def sessions(self, partition: Partition) -> float:
        """How many sessions there are, about.

        Whoever picks items comes upon a session as often as it has items. Where each session that was come upon counts
        1 / (its items), the mean is therefore sessions / items.
        """
        sizes = self.session_items[np.unique(partition.sessions[self.is_sample])]
        return max(self.items * float((1 / sizes).mean()), 1.0) if len(sizes) else 1.0

    def stand_for(self, term: str, having: int) -> float:
        """How many items each of `having` items that have a term here stands for."""
        return max(self.having.get(term, having) / having, 1.0) if having else 1.0


@dataclass(frozen=True, slots=True)
class KnownCosines:
    """Cosines of the passages of a partition with one question, computed where the vectors are.

    Attributes:
        values: shape [p].
        has_vector: which passages have a vector, shape [p].
    """

    values: NDArray[np.float32]
    has_vector: Mask

    def cosines(self, _query: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.values

    def exact(self, _query: NDArray[np.float32], passages: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        return np.where(self.has_vector[passages], self.values[passages], np.float32(-1))
