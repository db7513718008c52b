"""Vectors as eight-bit codes: a quarter of the memory traffic of float32, at an error far below that of any embedder.

A code is the vector at unit length, scaled so that its largest component is 127, and rounded. With its own length kept
beside it, a code still has unit length, and the error of a cosine stays within `MAX_ERROR` for 64 dimensions and more.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import simsimd
from numpy.typing import NDArray

MAX_ERROR: Final = 0.01
"""Of a cosine between two codes, for vectors of 64 dimensions and more as embedders make them; typical
errors are a tenth of it. A vector of one large component and many tiny ones loses the tiny ones."""

_LEVELS = 127
_HEADER = struct.Struct("<III")

Vector = NDArray[np.float32]
Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class CodedVectors:
    """The vectors of m items with p passages together.

    Attributes:
        numbers: row numbers of the items, shape [m].
        counts: passages of each item, shape [m].
        inverse: 1 / length of each code; 0 for a passage without a direction, shape [p].
        codes: shape [p, d].
    """

    numbers: NDArray[np.int64]
    counts: NDArray[np.int32]
    inverse: NDArray[np.float32]
    codes: Codes


def normalised(vector: Vector) -> Vector | None:
    """`vector`, shape [d], at unit length; None if it is zero or not finite."""
    wide = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(wide))
    if not np.isfinite(length) or length == 0.0:
        return None
    return (wide / length).astype(np.float32)


def is_usable(table: NDArray[np.float32] | None) -> bool:
    """Whether a vector, or one row of a table of them, has a direction: finite and not zero."""
    return table is not None and bool((np.isfinite(table).all(axis=-1) & np.any(table, axis=-1)).any())


def encode(vectors: NDArray[np.float32]) -> tuple[Codes, NDArray[np.float32]]:
    """Vectors, shape [p, d], as codes and the inverse of their lengths; rows that are zero or not finite become 0."""
    wide = np.asarray(vectors, np.float64)
    largest = np.abs(wide).max(axis=1, initial=0.0)
    usable = np.isfinite(wide).all(axis=1) & (largest > 0)
    safe = np.where(usable[:, None], wide, 0.0) / np.where(usable, largest, 1.0)[:, None]
    codes = np.rint(safe * _LEVELS).astype(np.int8)
    lengths = np.sqrt((codes.astype(np.int32) ** 2).sum(axis=1))
    inverse = np.divide(1.0, lengths, out=np.zeros(len(codes)), where=lengths > 0)
    return codes, inverse.astype(np.float32)


def cosines(query: Vector, codes: Codes, inverse: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of a question's vector, shape [d], with each of p codes; 0 where there is no direction, shape [p]."""
    coded, own = encode(query[None, :])
    if not len(codes):
        return np.zeros(0, np.float32)
    products: Any = simsimd.cdist(coded, codes, "dot")
    return np.asarray(products, np.float32).reshape(-1) * (inverse * own[0])


def to_bytes(vectors: CodedVectors) -> bytes:
    """Coded vectors as bytes, for `from_bytes`."""
    p, d = vectors.codes.shape
    arrays = (
        vectors.numbers.astype("<i8", copy=False), vectors.counts.astype("<i4", copy=False),
        vectors.inverse.astype("<f4", copy=False), vectors.codes,
    )  # fmt: skip
    return b"".join([_HEADER.pack(len(vectors.numbers), p, d), *(array.tobytes() for array in arrays)])


def dimensions(data: bytes | None) -> int:
    """The length of the vectors in what `to_bytes` wrote, of which the beginning is enough; 0 if it is damaged."""
    return _HEADER.unpack_from(data)[2] if data is not None and len(data) >= _HEADER.size else 0


def from_bytes(data: bytes) -> CodedVectors:
    """The coded vectors that `to_bytes` wrote; the arrays are views of `data`."""
    m, p, d = _HEADER.unpack_from(data)
    position = _HEADER.size
    numbers = np.frombuffer(data, "<i8", m, position)
    counts = np.frombuffer(data, "<i4", m, position + 8 * m)
    inverse = np.frombuffer(data, "<f4", p, position + 12 * m)
    codes = np.frombuffer(data, np.int8, p * d, position + 12 * m + 4 * p).reshape(p, d)
    return CodedVectors(numbers, counts, inverse, codes)


def coded(items: Sequence[tuple[int, int, NDArray[np.float32]]]) -> CodedVectors:
    """Code the vectors of some items.

    Args:
        items: row number, number of passages, and vectors of each item: shape [passages, d], or [d] or [1, d] for
            one that stands for all its passages. At least one item; all of one d.

    Raises:
        ValueError: an item has neither one vector nor one a passage.
    """
    rows: list[NDArray[np.float32]] = []
    for _, count, vectors in items:
        table = np.atleast_2d(np.asarray(vectors, np.float32))
        if len(table) not in {1, count}:
            raise ValueError(f"{count} passages need one vector each, or one for all, got {len(table)}")
        rows.append(np.broadcast_to(table, (count, table.shape[1])))
    codes, inverse = encode(np.concatenate(rows))
    return CodedVectors(
        np.array([number for number, _, _ in items], np.int64), np.array([count for _, count, _ in items], np.int32),
        inverse, codes,
    )  # fmt: skip


def merge(parts: Sequence[CodedVectors]) -> CodedVectors:
    """One of several, of the same d; of an item that is there twice, the later one stays."""
    numbers = np.concatenate([part.numbers for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    together = CodedVectors(
        numbers, counts, np.concatenate([part.inverse for part in parts]), np.concatenate([p.codes for p in parts])
    )
    latest = dict(zip(numbers.tolist(), range(len(numbers)), strict=True))
    if len(latest) == len(numbers):
        return together
    wanted = np.zeros(len(numbers), np.bool_)
    wanted[list(latest.values())] = True
    return only(together, wanted)


def only(vectors: CodedVectors, wanted: NDArray[np.bool_]) -> CodedVectors:
    """The vectors of some of the items; `wanted` has shape [m]."""
    stays = np.repeat(wanted, vectors.counts)
    return CodedVectors(vectors.numbers[wanted], vectors.counts[wanted], vectors.inverse[stays], vectors.codes[stays])
