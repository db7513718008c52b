"""Vectors as eight-bit codes: how exact they are, what has no direction, bytes, merging."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loomflow.index import vectors
from loomflow.index.vectors import (
    MAX_ERROR,
    CodedVectors,
    coded,
    cosines,
    encode,
    from_bytes,
    is_usable,
    merge,
    normalised,
    only,
)

SIZES = (64, 100, 256, 384, 768, 1024)
HUGE, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).smallest_subnormal)


def unit(rng: np.random.Generator, count: int, size: int) -> NDArray[np.float32]:
    """Random vectors at unit length, in every direction alike."""
    table = rng.standard_normal((count, size))
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


def exact(query: NDArray[Any], table: NDArray[Any]) -> NDArray[np.float64]:
    """Cosines in full precision."""
    wide, own = np.asarray(table, np.float64), np.asarray(query, np.float64)
    return (wide @ own) / (np.linalg.norm(wide, axis=1) * np.linalg.norm(own))


def table(*rows: list[float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


@pytest.mark.parametrize("size", SIZES)
@given(seed=st.integers(0, 2**32))
def test_a_cosine_of_unrelated_vectors_is_exact_within_the_bound(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, query = unit(rng, 200, size), unit(rng, 1, size)[0]
    assert np.abs(cosines(query, *encode(stored)) - exact(query, stored)).max() < MAX_ERROR


@pytest.mark.parametrize("size", SIZES)
@given(seed=st.integers(0, 2**32), nearness=st.floats(0.0, 20.0))
def test_a_cosine_of_near_vectors_is_exact_within_the_bound(size: int, seed: int, nearness: float) -> None:
    rng = np.random.default_rng(seed)
    query = unit(rng, 1, size)[0]
    stored = unit(rng, 100, size) + np.float32(nearness) * query
    assert np.abs(cosines(query, *encode(stored)) - exact(query, stored)).max() < MAX_ERROR


@given(seed=st.integers(0, 2**32), size=st.sampled_from(SIZES))
def test_a_vector_is_as_near_to_itself_as_can_be_and_to_its_opposite_as_far(seed: int, size: int) -> None:
    stored = unit(np.random.default_rng(seed), 50, size)
    codes, inverse = encode(np.concatenate([stored, -stored]))
    for place in range(0, 50, 10):
        near = cosines(stored[place], codes, inverse)
        assert near.argmax() == place
        assert near.argmin() == place + 50
        assert near[[place, place + 50]] == pytest.approx([1, -1], abs=1e-5)


@given(seed=st.integers(0, 2**32), scale=st.floats(1e-30, 1e30))
def test_the_length_of_a_vector_does_not_matter(seed: int, scale: float) -> None:
    stored = unit(np.random.default_rng(seed), 3, 64).astype(np.float64)
    plain, scaled = encode(stored.astype(np.float32)), encode((stored * scale).astype(np.float32))
    assert np.abs(plain[0].astype(int) - scaled[0]).max() <= 1  # a number may be rounded to the other side
    assert cosines((stored[0] * scale).astype(np.float32), *plain) == pytest.approx(
        cosines(stored[0].astype(np.float32), *plain), abs=1e-3
    )


def test_the_largest_component_uses_the_whole_range() -> None:
    codes, inverse = encode(table([0.5, -0.25, 0.0], [-3.0, 0.0, 0.0]))
    assert codes.tolist() == [[127, -64, 0], [-127, 0, 0]]
    assert inverse == pytest.approx([1 / np.hypot(127, 64), 1 / 127])
    assert (codes.dtype, inverse.dtype) == (np.int8, np.float32)


@pytest.mark.parametrize(
    "row",
    [[0.0] * 4, [-0.0] * 4, [float("nan")] * 4, [1.0, float("nan"), 0, 0], [float("inf"), 1, 1, 1]],
    ids=str,
)  # fmt: skip
def test_what_has_no_direction_is_zero_and_disturbs_nobody(row: list[float]) -> None:
    codes, inverse = encode(table([1.0, 2.0, 0.0, 0.0], row, [2.0, 1.0, 0.0, 0.0]))
    assert codes[1].tolist() == [0, 0, 0, 0]
    assert inverse[1] == 0.0
    near = cosines(table([1.0, 0.0, 0.0, 0.0])[0], codes, inverse)
    assert near == pytest.approx([1 / np.sqrt(5), 0, 2 / np.sqrt(5)], abs=MAX_ERROR)
    assert near[1] == 0.0
    assert normalised(np.array(row, np.float32)) is None
    assert not cosines(np.array(row, np.float32), codes, inverse).any()


@pytest.mark.parametrize("size", [HUGE, 1e30, 1e-30, TINY])
def test_huge_and_tiny_vectors_have_a_direction(size: float) -> None:
    codes, inverse = encode(table([size, 0.0, -size]))
    assert codes.tolist() == [[127, 0, -127]]
    assert cosines(table([size, 0.0, 0.0])[0], codes, inverse) == pytest.approx([1 / np.sqrt(2)], abs=1e-6)
    assert normalised(table([size, 0.0, -size])[0]) == pytest.approx([1 / np.sqrt(2), 0, -1 / np.sqrt(2)])


def test_normalised_is_of_unit_length_and_leaves_its_argument_alone() -> None:
    vector = table([3.0, 4.0])[0]
    unit_vector = normalised(vector)
    assert unit_vector is not None
    assert unit_vector.dtype == np.float32
    assert unit_vector == pytest.approx([0.6, 0.8])
    assert vector.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("rows", "is_so"),
    [
        ([1.0, 0.0], True), ([0.0, 0.0], False), ([float("nan"), 1.0], False), ([float("inf"), 1.0], False),
        ([[0.0, 0.0], [1.0, 0.0]], True), ([[0.0, 0.0], [float("nan"), 1.0]], False),
    ],
)  # fmt: skip
def test_vectors_are_usable_if_one_of_them_has_a_direction(rows: Any, is_so: bool) -> None:
    assert is_usable(np.array(rows, np.float32)) == is_so


def test_no_vector_is_not_usable() -> None:
    assert not is_usable(None)
    assert not is_usable(np.zeros((0, 3), np.float32))


def test_no_vectors_give_no_cosines() -> None:
    codes, inverse = encode(np.zeros((0, 3), np.float32))
    assert codes.shape == (0, 3)
    assert cosines(table([1.0, 0.0, 0.0])[0], codes, inverse).shape == (0,)


@pytest.mark.parametrize("size", [1, 2, 3, 4096])
def test_dot_products_do_not_overflow_at_any_size(size: int) -> None:
    ones = np.ones((2, size), np.float32)
    ones[1] *= -1
    assert cosines(ones[0], *encode(ones)) == pytest.approx([1, -1], abs=1e-5)


def test_an_items_vector_stands_for_all_of_its_passages_or_there_is_one_for_each() -> None:
    one, two = [1.0, 0.0], [0.0, 1.0]
    made = coded([(4, 2, np.array(one)), (5, 1, table(two)), (7, 3, table(two)), (9, 2, table(one, two))])
    assert made.numbers.tolist() == [4, 5, 7, 9]
    assert made.counts.tolist() == [2, 1, 3, 2]
    assert (made.codes // 127).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1], [1, 0], [0, 1]]
    assert made.inverse == pytest.approx([1 / 127] * 8)


@pytest.mark.parametrize(("passages", "rows"), [(3, 2), (1, 2), (2, 3)])
def test_any_other_number_of_vectors_is_refused(passages: int, rows: int) -> None:
    with pytest.raises(ValueError, match=f"{passages} passages need one vector each, or one for all, got {rows}"):
        coded([(1, passages, np.ones((rows, 4), np.float32))])


@st.composite
def coded_items(draw: st.DrawFn, *, least: int = 1) -> dict[int, NDArray[np.float32]]:
    """Items by number with the vectors of their passages."""
    numbers = draw(st.lists(st.integers(1, 30), min_size=least, max_size=8, unique=True))
    component = st.integers(-3, 3).map(float)
    row = st.lists(component, min_size=3, max_size=3)
    return {number: table(*draw(st.lists(row, min_size=1, max_size=3))) for number in numbers}


def code(items: dict[int, NDArray[np.float32]]) -> CodedVectors:
    return coded([(number, len(rows), rows) for number, rows in items.items()])


def read(made: CodedVectors) -> dict[int, list[tuple[list[int], float]]]:
    """Codes and inverse lengths of each item, passage by passage."""
    ends = np.cumsum(made.counts).tolist()
    assert len(made.codes) == len(made.inverse) == (ends[-1] if ends else 0)
    assert len(set(made.numbers.tolist())) == len(made.numbers)
    return {
        number: list(zip(made.codes[end - count : end].tolist(), made.inverse[end - count : end].tolist(), strict=True))
        for number, count, end in zip(made.numbers.tolist(), made.counts.tolist(), ends, strict=True)
    }


@given(items=coded_items())
def test_bytes_give_the_vectors_back(items: dict[int, NDArray[np.float32]]) -> None:
    made = code(items)
    back = from_bytes(vectors.to_bytes(made))
    assert read(back) == read(made)
    for name in CodedVectors.__dataclass_fields__:
        assert getattr(back, name).dtype == getattr(made, name).dtype


def test_the_dimensions_of_vectors_stand_in_the_beginning_of_their_bytes() -> None:
    data = vectors.to_bytes(code({1: table([1.0, 2.0, 3.0]), 2: table([1.0, 2.0, 3.0])}))
    assert vectors.dimensions(data) == vectors.dimensions(data[:12]) == 3
    assert vectors.dimensions(data[:11]) == vectors.dimensions(b"") == vectors.dimensions(None) == 0


@pytest.mark.parametrize("cut", [0, 11, 12, 20, -1])
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    data = vectors.to_bytes(code({1: table([1.0, 2.0, 3.0])}))
    with pytest.raises((ValueError, struct.error)):
        from_bytes(data[:cut])


@given(parts=st.lists(coded_items(), min_size=1, max_size=4))
def test_of_an_item_that_was_written_twice_the_later_vectors_stay(parts: list[dict[int, Any]]) -> None:
    expected: dict[int, Any] = {}
    for part in parts:
        expected |= read(code(part))
    assert read(merge([code(part) for part in parts])) == expected


@given(data=st.data(), items=coded_items())
def test_taking_items_out_leaves_the_others_as_they_are(data: st.DataObject, items: dict[int, Any]) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    left = {number for number, stays in zip(items, wanted, strict=True) if stays}
    rest = only(code(items), np.array(wanted, np.bool_))
    assert read(rest) == {number: rows for number, rows in read(code(items)).items() if number in left}
    assert read(from_bytes(vectors.to_bytes(rest))) == read(rest)
