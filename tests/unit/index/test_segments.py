"""Segments: what they say of the items, their bytes, merging, and taking items out."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loomflow import Episode, Fact
from loomflow.index import segments
from loomflow.index.parts import AGENT, USER, Part
from loomflow.index.segments import Entry, Segment, build, digest, due, from_bytes, merge, only, to_bytes
from loomflow.words import terms
from tests.property.strategies import episodes, facts, texts

from .made import entry, entry_lists, micros, read, same, splits, told

START = datetime(2025, 6, 1, 23, 59, tzinfo=UTC)


@given(entries=entry_lists())
def test_a_segment_says_of_every_passage_what_its_text_says(entries: list[Entry]) -> None:
    segment = build(entries)
    assert read(segment) == told(entries)
    assert segment.numbers.tolist() == [one.number for one in entries]
    assert segment.keys.tolist() == sorted({key for passage in told(entries) for key in passage.counts})
    assert segment.passages == sum(len(one.parts) for one in entries)


def test_a_segment_of_nothing_is_empty() -> None:
    segment = build([])
    assert (len(segment.numbers), segment.passages, len(segment.keys), len(segment.ids)) == (0, 0, 0, 0)
    assert segment.first.tolist() == [0]
    assert same(from_bytes(to_bytes(segment)), segment)


def test_a_passage_without_any_word_is_there_all_the_same() -> None:
    segment = build([entry(1, "?!", "..."), entry(2, "tea")])
    assert segment.first.tolist() == [0, 2, 3]
    assert segment.length.tolist() == [0, 0, 1]
    assert [list(passage.counts) for passage in read(segment)] == [[], [], [digest("tea")]]


def test_a_word_counts_up_to_what_a_byte_holds() -> None:
    segment = build([entry(1, "tea " * 300 + "rice")])
    assert read(segment)[0].counts == {digest("tea"): 255, digest("rice"): 1}
    assert segment.length.tolist() == [301]


def test_stop_words_are_found_but_add_nothing_to_the_length() -> None:
    (passage,) = read(build([entry(1, "what is the tea")]))
    assert passage.length == 1
    assert {digest("what"), digest("tea")} <= passage.counts.keys()


def test_names_are_kept_once_in_one_line_each() -> None:
    segment = build([entry(1, "a", name="Ana\n Souza"), entry(2, "b", name=" Ana Souza"), entry(3, "c"),
                     entry(4, "d", name="Bob\u2028Lee")])  # fmt: skip
    assert segment.names == ("Ana Souza", "Bob Lee")
    assert [passage.name for passage in read(segment)] == ["Ana Souza", "Ana Souza", None, "Bob Lee"]
    assert same(from_bytes(to_bytes(segment)), segment)


@given(item=st.one_of(episodes(texts(hostile=True, longest=200)), facts(texts(hostile=True, longest=200))))
def test_whatever_a_memory_holds_can_be_indexed_and_found_by_its_words(item: Episode | Fact) -> None:
    segment = from_bytes(to_bytes(build([segments.entry_of(7, item)])))
    assert segment.numbers.tolist() == [7]
    assert [set(passage.counts) for passage in read(segment)] == [
        {digest(term) for kind in terms(side) for term in kind} for side in _sides(item)
    ]


def _sides(item: Episode | Fact) -> list[str]:
    sides = [item.input, item.output] if isinstance(item, Episode) else [item.text]
    return [side for side in sides if side.strip()]


def test_an_entry_of_an_episode_has_both_sides_and_their_names() -> None:
    episode = Episode("hi", "hello", session_id="s1", occurred_at=START, user_name="Ana", agent_name="Bot")
    assert segments.entry_of(3, episode) == Entry(
        3, "s1", micros(START), ((Part(USER, 0, 2), "hi", "Ana"), (Part(AGENT, 0, 5), "hello", "Bot"))
    )


def test_an_entry_of_a_fact_is_one_passage_named_after_its_subject() -> None:
    fact = Fact("Ana", "likes", "tea", recorded_at=START, source_episode_id="e1")
    assert segments.entry_of(3, fact) == Entry(
        3, "e1", micros(START), ((Part(USER, 0, len("Ana likes tea")), "Ana likes tea", "Ana"),)
    )


def test_a_fact_from_nowhere_belongs_to_no_session() -> None:
    assert segments.entry_of(3, Fact("Ana", "likes", "tea")).session == ""


@given(entries=entry_lists())
def test_bytes_give_the_segment_back(entries: list[Entry]) -> None:
    segment = build(entries)
    assert same(from_bytes(to_bytes(segment)), segment)


@given(data=st.data(), entries=entry_lists(least=1))
def test_merging_any_pieces_gives_the_segment_of_the_whole(data: st.DataObject, entries: list[Entry]) -> None:
    pieces = data.draw(splits(entries))
    merged = merge([build(piece) for piece in pieces])
    assert same(merged, build(entries))
    assert same(from_bytes(to_bytes(merged)), merged)


@given(data=st.data(), entries=entry_lists(least=1))
def test_merging_what_was_merged_gives_the_same(data: st.DataObject, entries: list[Entry]) -> None:
    parts = [from_bytes(to_bytes(build(piece))) for piece in data.draw(splits(entries))]
    cut = data.draw(st.integers(0, len(parts)))
    halves = [merge(half) for half in (parts[:cut], parts[cut:]) if half]
    assert same(merge(halves), merge(parts))


@given(data=st.data(), entries=entry_lists(least=1))
def test_taking_items_out_leaves_what_was_never_with_them(data: st.DataObject, entries: list[Entry]) -> None:
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries))), np.bool_)
    rest = only(build(entries), wanted)
    left = [one for one, stays in zip(entries, wanted, strict=True) if stays]
    assert read(rest) == told(left)
    assert rest.keys.tolist() == build(left).keys.tolist()
    assert same(from_bytes(to_bytes(rest)), rest)


def test_the_name_of_one_whose_items_are_all_gone_is_gone_too() -> None:
    segment = build([entry(1, "tea", name="Ana"), entry(2, "rice", name="Bob"), entry(3, "soup")])
    rest = only(segment, np.array([False, True, True]))
    assert [passage.name for passage in read(rest)] == ["Bob", None]
    assert rest.names == ("Bob",)
    assert b"Ana" not in to_bytes(rest)


@given(data=st.data(), entries=entry_lists(least=1))
def test_items_can_be_taken_out_of_what_was_merged(data: st.DataObject, entries: list[Entry]) -> None:
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries))), np.bool_)
    assume(wanted.any())
    pieces = data.draw(splits(entries))
    gone = {one.number for one, stays in zip(entries, wanted, strict=True) if not stays}
    first = [only(one, ~np.isin(one.numbers, sorted(gone))) for one in map(build, pieces)]
    assert read(merge(first)) == read(only(merge([build(piece) for piece in pieces]), wanted))


def test_the_digest_of_a_term_is_the_same_in_every_process() -> None:
    assert (digest("tea"), digest("里斯")) == (2391201714, 3906842911)
    assert segments.session_digest("s") == 16027976456189790694


@pytest.mark.parametrize("cut", [0, 1, 23, 24, 40, -1])
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    data = to_bytes(build([entry(1, "tea and rice", session="s")]))
    with pytest.raises((ValueError, struct.error)):
        from_bytes(data[:cut])


def test_arrays_are_views_so_that_reading_copies_nothing() -> None:
    segment = from_bytes(to_bytes(build([entry(1, "tea")])))
    arrays: list[Any] = [getattr(segment, name) for name in Segment.__dataclass_fields__ if name != "names"]
    assert all(not array.flags.owndata and not array.flags.writeable for array in arrays)
    assert all(array.flags.aligned for array in arrays)


@pytest.mark.parametrize(
    ("sizes", "levels", "begin"),
    [
        ([], (4,), 0),
        ([1], (4,), 1),
        ([4], (4,), 1),
        ([1, 1, 1], (4,), 3),
        ([1, 1, 1, 1], (4,), 0),
        ([4, 1, 1, 1, 1], (4,), 1),
        ([4, 1, 1], (4,), 3),
        ([1, 4, 1], (4,), 3),
        ([3, 3], (4,), 0),
        ([4, 4, 4, 4], (16, 4), 0),
        ([4, 4, 4, 3, 1], (16, 4), 0),
        ([16, 4, 4, 1, 3], (16, 4), 3),
        ([16, 16], (16, 4), 2),
    ],
)
def test_what_is_due_for_merging(sizes: list[int], levels: tuple[int, ...], begin: int) -> None:
    assert due(sizes, levels) == begin


@given(writes=st.lists(st.integers(1, 20), max_size=300))
def test_merging_what_is_due_keeps_the_list_short_and_settles_at_once(writes: list[int]) -> None:
    levels = (64, 8)
    sizes: list[int] = []
    for size in writes:
        sizes.append(size)
        begin = due(sizes, levels)
        if begin < len(sizes):
            sizes[begin:] = [sum(sizes[begin:])]
        assert due(sizes, levels) == len(sizes)
    assert sum(sizes) == sum(writes)
    large = [size for size in sizes if size >= 64]
    assert sizes[: len(large)] == large
    assert sum(sizes[len(large) :]) < 64
