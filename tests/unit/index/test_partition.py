"""The partition: however its items came in, the same columns, neighbours, postings and vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loomflow.index.partition import (
    AFTER,
    AFTER_WEIGHT,
    BEFORE,
    BEFORE_WEIGHT,
    LEVELS,
    Column,
    Partition,
    VectorColumn,
)
from loomflow.index.segments import Entry, build, digest, from_bytes, session_digest, to_bytes
from loomflow.index.vectors import coded, encode

from .made import Told, entry, entry_lists, partition_of, splits, told, turns, written

COLUMNS = ("item", "start", "end", "length", "side", "flags")
KEYS = np.array([digest(term) for term in ("tea", "rice", "the", "我住", "我", "cafe", "never")], np.uint32)


def neighbours(passages: Sequence[Told]) -> list[tuple[list[int], list[int]]]:
    """For each turn, those before it in its session, the nearest first, and those after it."""
    of_session: defaultdict[int, list[int]] = defaultdict(list)
    for place, passage in enumerate(passages):
        of_session[passage.session].append(place)
    found: list[tuple[list[int], list[int]]] = []
    for place, passage in enumerate(passages):
        line = of_session[passage.session]
        at = line.index(place)
        found.append((line[:at][::-1], line[at + 1 :]))
    return found


def near(passages: Sequence[Told]) -> list[float]:
    """The length of each turn and of its neighbours, weighted."""
    lengths = [passage.length for passage in passages]
    return [
        lengths[place]
        + sum(BEFORE_WEIGHT**k * lengths[there] for k, there in enumerate(before[:BEFORE], 1))
        + sum(AFTER_WEIGHT**k * lengths[there] for k, there in enumerate(after[:AFTER], 1))
        for place, (before, after) in enumerate(neighbours(passages))
    ]


def names_of(partition: Partition) -> list[str | None]:
    return [None if place < 0 else partition.names[place] for place in partition.of_passages("name").tolist()]


def check(partition: Partition, entries: Sequence[Entry]) -> None:
    """Everything in a partition is what the entries say."""
    passages = told(entries)
    numbers = [one.number for one in entries]
    assert partition.numbers.tolist() == numbers
    assert partition.times.tolist() == [one.time for one in entries]
    assert partition.first.tolist() == np.cumsum([0, *(len(one.parts) for one in entries)]).tolist()
    assert partition.size == len(passages)
    assert partition.of_passages("item").tolist() == [numbers.index(passage.number) for passage in passages]
    for name in ("start", "end", "length", "side", "flags"):
        assert partition.of_passages(name).tolist() == [getattr(passage, name) for passage in passages]
    assert names_of(partition) == [passage.name for passage in passages]
    places = [partition.session_place(passage.session) for passage in passages]
    assert partition.of_passages("session").tolist() == places
    assert partition.sessions.tolist() == [partition.session_place(session_digest(one.session)) for one in entries]
    assert sorted(set(places), key=str) == sorted(range(partition.session_count), key=str)
    spoken, of_passages = turns(passages)
    assert partition.of_passages("turn").tolist() == of_passages
    assert partition.openings.tolist() == [of_passages.index(turn) for turn in range(len(spoken))]
    own = range(len(spoken))
    lines = neighbours(spoken)
    assert partition.before.tolist() == [
        before[0] if before else at for at, (before, _) in zip(own, lines, strict=True)
    ]
    assert partition.after.tolist() == [after[0] if after else at for at, (_, after) in zip(own, lines, strict=True)]
    assert partition.near == pytest.approx(near(spoken), rel=1e-5)
    for key, (ids, counts) in zip(KEYS.tolist(), partition.postings(KEYS), strict=True):
        having = {place: passage.counts[key] for place, passage in enumerate(passages) if key in passage.counts}
        assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == having
        assert ids.tolist() == sorted(having)


@given(data=st.data(), entries=entry_lists(least=1))
def test_items_give_the_same_partition_in_whatever_pieces_they_come(data: st.DataObject, entries: list[Entry]) -> None:
    pieces = [from_bytes(to_bytes(build(piece))) for piece in data.draw(splits(entries))]
    partition = written(pieces)
    check(partition, entries)
    whole = partition_of(*entries)
    for name in COLUMNS:
        assert partition.of_passages(name).tolist() == whole.of_passages(name).tolist()
    assert partition.names == whole.names
    assert partition.near.tolist() == whole.near.tolist()


@given(data=st.data(), entries=entry_lists(least=2))
def test_items_that_are_there_already_are_left_out(data: st.DataObject, entries: list[Entry]) -> None:
    pieces = data.draw(splits(entries))
    partition = Partition(0)
    done: list[Entry] = []
    for piece in pieces:
        again = data.draw(st.integers(0, len(done)))
        partition.append(build([*done[again:], *piece]))
        done += piece
    partition.append(build(done))
    check(partition, entries)


def test_hundreds_of_single_writes_give_the_partition_of_one() -> None:
    entries = [
        entry(n, f"tea {n}", "the rice" * (n % 3), session=f"s{n % 7}", name=f"N{n % 5}") for n in range(1, 701)
    ]  # fmt: skip
    partition = written([build([one]) for one in entries])
    check(partition, entries)
    whole = partition_of(*entries)
    assert partition.nbytes < 2.2 * whole.nbytes
    assert len(partition._segments) < LEVELS[1] // LEVELS[2] + LEVELS[2]


def test_an_empty_partition_answers_with_nothing() -> None:
    partition = Partition(3)
    assert (partition.epoch, partition.read_up_to, partition.size, partition.session_count) == (3, 0, 0, 0)
    assert partition.first.tolist() == [0]
    assert [len(ids) for ids, _ in partition.postings(KEYS)] == [0] * len(KEYS)
    assert partition.session_place(session_digest("s")) is None
    partition.append(build([]))
    assert (partition.size, partition.names) == (0, [])


def test_what_was_handed_out_stays_as_it_was_while_more_comes_in() -> None:
    partition = partition_of(entry(1, "tea"))
    numbers, lengths = partition.numbers, partition.of_passages("length")
    for number in range(2, 100):
        partition.append(build([entry(number, "tea " * number)]))
    assert numbers.tolist() == [1]
    assert lengths.tolist() == [1]


def test_a_neighbourhood_reaches_over_items_of_the_session_and_no_further() -> None:
    partition = partition_of(entry(1, "a", session="x"), entry(2, "b", session="y"), entry(3, "c", "d", session="x"))
    assert partition.before.tolist() == [0, 1, 0, 2]
    assert partition.after.tolist() == [2, 1, 3, 3]


def test_a_neighbourhood_reaches_four_turns_back_and_two_ahead() -> None:
    partition = partition_of(*(entry(n, "tea" if n == 5 else "the", session="x") for n in range(10)))
    assert partition.near == pytest.approx([0, 0, 0, 0.3**2, 0.3, 1, 0.8, 0.8**2, 0.8**3, 0.8**4], rel=1e-6)


@given(pieces=st.lists(st.lists(st.integers(-9, 9), max_size=9), max_size=20))
def test_a_column_holds_what_was_appended(pieces: list[list[int]]) -> None:
    column, wide = Column(np.int64), Column(np.int64, 2)
    seen: list[tuple[NDArray[Any], list[int]]] = []
    flat: list[int] = []
    for piece in pieces:
        column.append(np.array(piece, np.int64))
        wide.append(np.array([[n, -n] for n in piece], np.int64).reshape(-1, 2))
        flat += piece
        seen.append((column.values, list(flat)))
    assert column.values.tolist() == flat
    assert wide.values.tolist() == [[n, -n] for n in flat]
    assert all(view.tolist() == then for view, then in seen)
    assert column.nbytes >= 8 * len(flat)


# Vectors

SIZES = {1: 1, 2: 2, 4: 1, 7: 3, 8: 1, 11: 2}
PASSAGES = sum(SIZES.values())


def sized_partition() -> Partition:
    return partition_of(*(entry(number, *["tea"] * count) for number, count in SIZES.items()))


@st.composite
def writes(draw: st.DrawFn) -> list[dict[int, NDArray[np.float32]]]:
    """Writes of vectors: of some items each, in any order, some again, some of items that are not there."""
    found: list[dict[int, NDArray[np.float32]]] = []
    for numbers in draw(st.lists(st.lists(st.integers(1, 12), min_size=1, unique=True), max_size=5)):
        write: dict[int, NDArray[np.float32]] = {}
        for number in numbers:
            count = draw(st.sampled_from([SIZES.get(number, 1)] * 4 + [4]))
            write[number] = np.array(
                draw(st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=count, max_size=count)), np.float32
            )
        found.append(write)
    return found


@given(given_writes=writes())
def test_vectors_stand_where_their_items_do_however_they_were_written(
    given_writes: list[dict[int, NDArray[np.float32]]],
) -> None:
    partition = sized_partition()
    column = VectorColumn(3)
    expected: dict[int, NDArray[np.float32]] = {
        number: np.zeros((count, 3), np.float32) for number, count in SIZES.items()
    }
    for write in given_writes:
        made = coded([(number, len(rows), rows) for number, rows in write.items()])
        column.place(made, partition.numbers, partition.first)
        expected |= {number: rows for number, rows in write.items() if SIZES.get(number) == len(rows)}
    column.fill(partition.size)
    codes, inverse = encode(np.concatenate([expected[number] for number in SIZES]))
    assert column.codes.tolist() == codes.tolist()
    assert column.inverse.tolist() == inverse.tolist()


@given(data=st.data(), given_writes=writes())
def test_vectors_may_come_in_while_the_partition_grows(
    data: st.DataObject, given_writes: list[dict[int, NDArray[np.float32]]]
) -> None:
    entries = [entry(number, *["tea"] * count) for number, count in SIZES.items()]
    partition, column = Partition(0), VectorColumn(3)
    expected = {number: np.zeros((count, 3), np.float32) for number, count in SIZES.items()}
    pieces = data.draw(splits(entries))
    for at, piece in enumerate(pieces):
        partition.append(build(piece))
        for write in given_writes[at : at + 1]:
            fitting = {n: rows for n, rows in write.items() if n in set(partition.numbers.tolist())}
            if fitting:
                made = coded([(number, len(rows), rows) for number, rows in fitting.items()])
                column.place(made, partition.numbers, partition.first)
                expected |= {number: rows for number, rows in fitting.items() if SIZES[number] == len(rows)}
        if data.draw(st.booleans()):
            column.fill(partition.size)
    column.fill(partition.size)
    codes, _ = encode(np.concatenate([expected[number] for number in SIZES]))
    assert column.codes.tolist() == codes.tolist()


def test_vectors_of_other_dimensions_are_left_out() -> None:
    partition = sized_partition()
    column = VectorColumn(3)
    column.place(coded([(1, 1, np.ones(4, np.float32))]), partition.numbers, partition.first)
    column.fill(partition.size)
    assert column.codes.shape == (PASSAGES, 3)
    assert not column.codes.any()


def test_vectors_for_an_empty_partition_are_left_out() -> None:
    partition, column = Partition(0), VectorColumn(2)
    column.place(coded([(1, 1, np.ones(2, np.float32))]), partition.numbers, partition.first)
    assert len(column.codes) == 0


def test_making_room_twice_is_making_room_once() -> None:
    column = VectorColumn(2)
    column.fill(3)
    column.fill(2)
    column.fill(3)
    assert column.codes.tolist() == [[0, 0]] * 3
    assert column.nbytes >= 3 * 2 + 3 * 4
