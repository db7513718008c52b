"""Searching a partition: rankings of items, passages best first, and what a search leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loomflow.index import search as searching
from loomflow.index.keywords import score_items
from loomflow.index.partition import Partition, VectorColumn
from loomflow.index.parts import AGENT, USER, Part
from loomflow.index.search import Hit, by_vector, by_words, hidden_items, missing_vectors, passages
from loomflow.index.segments import Entry
from loomflow.index.vectors import coded
from loomflow.records import Embedded, Search

from .made import NOON, entry, entry_lists, micros, partition_of

TEA = Search(words=("tea",), text="tea", chars=100)


def days_ago(days: float) -> datetime:
    return NOON - timedelta(days=days)


def vectors_of(partition: Partition, vectors: dict[int, NDArray[np.float32]], size: int = 2) -> VectorColumn:
    """A column with these vectors of items, by number."""
    column = VectorColumn(size)
    if vectors:
        sizes = dict(zip(partition.numbers.tolist(), np.diff(partition.first).tolist(), strict=True))
        made = coded([(number, sizes[number], rows) for number, rows in vectors.items()])
        column.place(made, partition.numbers, partition.first)
    column.fill(partition.size)
    return column


def at_angle(degrees: float) -> NDArray[np.float32]:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def asking(vector: Any) -> Search:
    return Search(query=Embedded("e", np.asarray(vector, np.float32)), chars=100)


def found(
    partition: Partition, search: Search, column: VectorColumn | None = None, *, are_facts: bool = False
) -> list[Hit]:
    hidden = hidden_items(partition, search)
    batches = passages(partition, column, search, hidden, search.at or NOON, are_facts=are_facts)
    return [hit for batch in batches for hit in batch]


# By words


def test_items_are_ranked_by_their_words_and_the_newest_of_equals_comes_first() -> None:
    partition = partition_of(
        entry(1, "tea"), entry(2, "tea and a lot of rice and soup"), entry(4, "rice"), entry(5, "tea"), entry(7, "tea")
    )
    assert list(by_words(partition, TEA, None)) == [7, 5, 1, 2]
    assert list(by_words(partition, Search(), None)) == []
    assert list(by_words(Partition(0), TEA, None)) == []


@given(entries=entry_lists(least=1, most=40), limit=st.integers(1, 5), data=st.data())
def test_a_ranking_can_be_read_to_its_end_in_batches(entries: list[Entry], limit: int, data: st.DataObject) -> None:
    partition = partition_of(*entries)
    search = Search(words=("tea", "rice", "cafe"), limit=limit)
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries))), np.bool_)
    scores = score_items(partition, search.words, None).tolist()
    allowed = [place for place, score in enumerate(scores) if score > 0 and not hidden[place]]
    expected = sorted(allowed, key=lambda place: (-scores[place], -place))
    assert list(by_words(partition, search, hidden)) == [entries[place].number for place in expected]


@given(scores=st.lists(st.integers(-5, 5), max_size=200), batch=st.integers(1, 9), data=st.data())
def test_batches_are_in_order_and_grow(scores: list[int], batch: int, data: st.DataObject) -> None:
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))), np.bool_)
    batches = [places.tolist() for places in searching._descending(np.array(scores, np.float32), batch, allowed)]
    expected = sorted(np.flatnonzero(allowed).tolist(), key=lambda place: (-scores[place], -place))
    assert [place for one in batches for place in one] == expected
    assert [len(one) for one in batches[:-1]] == [batch * 4**n for n in range(len(batches) - 1)]


# By vector


def test_items_are_ranked_by_the_nearest_of_their_passages() -> None:
    partition = partition_of(entry(1, "a"), entry(2, "b", "c"), entry(3, "d"), entry(4, "e"))
    column = vectors_of(
        partition, {1: at_angle(20), 2: np.stack([at_angle(90), at_angle(5)]), 3: at_angle(180), 4: at_angle(20)}
    )
    ranked = list(by_vector(partition, column, asking(at_angle(0)), None))
    assert [number for number, _ in ranked] == [2, 4, 1, 3]
    assert [cosine for _, cosine in ranked] == pytest.approx(np.cos(np.radians([5, 20, 20, 180])), abs=0.01)
    assert all(-1 <= cosine <= 1 for _, cosine in ranked)


def test_a_passage_without_a_direction_brings_its_item_no_nearer() -> None:
    partition = partition_of(entry(1, "a", "b"), entry(2, "c"))
    column = vectors_of(partition, {1: np.stack([np.zeros(2, np.float32), at_angle(180)]), 2: at_angle(120)})
    ranked = list(by_vector(partition, column, asking(at_angle(0)), None))
    assert [number for number, _ in ranked] == [2, 1]
    assert [cosine for _, cosine in ranked] == pytest.approx([-0.5, -1.0], abs=0.01)


def test_what_has_no_vector_and_what_is_hidden_is_in_no_ranking_by_vector() -> None:
    partition = partition_of(*(entry(n, "a") for n in range(1, 5)))
    column = vectors_of(partition, {1: at_angle(0), 3: at_angle(180), 4: at_angle(10)})
    hidden = np.array([True, False, False, False])
    assert [number for number, _ in by_vector(partition, column, asking(at_angle(0)), hidden)] == [4, 3]


@pytest.mark.parametrize("vector", [[0, 0], [float("nan"), 1], [float("inf"), 1]], ids=str)
def test_a_question_without_a_direction_finds_nothing_by_vector(vector: list[float]) -> None:
    partition = partition_of(entry(1, "a"))
    column = vectors_of(partition, {1: at_angle(0)})
    assert list(by_vector(partition, column, asking(vector), None)) == []
    assert list(by_vector(partition, column, Search(), None)) == []
    assert list(by_vector(partition, None, asking(at_angle(0)), None)) == []
    assert list(by_vector(Partition(0), VectorColumn(2), asking(at_angle(0)), None)) == []


@given(seed=st.integers(0, 2**32), size=st.sampled_from([64, 256]), limit=st.integers(1, 20))
def test_the_nearest_items_are_found_with_cosines_that_are_exact_within_the_bound(
    seed: int, size: int, limit: int
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, 80)
    partition = partition_of(*(entry(n, *["a"] * count) for n, count in enumerate(counts.tolist(), 1)))
    vectors = {n: rng.standard_normal((count, size)).astype(np.float32) for n, count in enumerate(counts.tolist(), 1)}
    query = rng.standard_normal(size).astype(np.float32)
    nearest = {
        n: float((rows @ query / np.linalg.norm(rows, axis=1)).max() / np.linalg.norm(query))
        for n, rows in vectors.items()
    }
    search = replace(asking(query), limit=limit)
    ranked = list(by_vector(partition, vectors_of(partition, vectors, size), search, None))
    assert {number for number, _ in ranked} == set(nearest)
    for number, cosine in ranked:
        assert cosine == pytest.approx(nearest[number], abs=0.01)
    assert min(nearest[n] for n, _ in ranked[:limit]) >= sorted(nearest.values(), reverse=True)[:limit][-1] - 0.02


def test_items_without_a_vector_are_missing() -> None:
    partition = partition_of(entry(1, "a"), entry(2, "b", "c"), entry(4, "d"))
    assert missing_vectors(partition, None).tolist() == [1, 2, 4]
    half = np.stack([at_angle(0), np.zeros(2, np.float32)])
    assert missing_vectors(partition, vectors_of(partition, {2: half})).tolist() == [1, 4]
    whole = {1: at_angle(0), 2: half, 4: at_angle(0)}
    assert missing_vectors(partition, vectors_of(partition, whole)).tolist() == []
    assert missing_vectors(Partition(0), VectorColumn(2)).tolist() == []


# What is left out


@pytest.mark.parametrize(
    ("fields", "numbers", "hidden"),
    [
        ({}, (), None),
        ({"without_session": "s"}, (), [True, False, True]),
        ({"without_session": "never"}, (), None),
        ({}, (2, 99), [False, True, False]),
        ({"at": days_ago(2)}, (), [False, False, True]),
        ({"at": days_ago(3)}, (), [False, True, True]),
        ({"at": days_ago(9)}, (), [True, True, True]),
        ({"without_session": "t", "at": days_ago(2)}, (1,), [True, True, True]),
    ],
)
def test_what_a_search_leaves_out(fields: dict[str, Any], numbers: tuple[int, ...], hidden: list[bool] | None) -> None:
    partition = partition_of(
        entry(1, "tea", session="s", time=days_ago(3)), entry(2, "tea", session="t", time=days_ago(2)),
        entry(3, "tea", session="s", time=days_ago(1)),
    )  # fmt: skip
    mask = hidden_items(partition, replace(TEA, **fields), numbers)
    assert (None if mask is None else mask.tolist()) == hidden


def test_what_came_later_changes_nothing_in_the_ranking_by_words() -> None:
    early = [entry(1, "tea", time=days_ago(9)), entry(2, "rice rice", time=days_ago(9))]
    late = [entry(n, "rice", time=days_ago(1)) for n in range(3, 40)]
    search = Search(words=("tea", "rice"), at=days_ago(5))
    partition = partition_of(*early, *late)
    assert list(by_words(partition, search, hidden_items(partition, search))) == [2, 1]
    assert list(by_words(partition_of(*early), search, None)) == [2, 1]
    assert next(by_words(partition, replace(search, at=None), None)) == 1  # rice is common by now


# Passages


def said(hits: Sequence[Hit]) -> list[tuple[int, int]]:
    """Which item, and which side of it."""
    return [(hit.number, hit.part.side) for hit in hits]


def test_a_passage_is_found_with_its_place_and_what_speaks_for_it() -> None:
    partition = partition_of(
        entry(1, "I like tea", session="s", name="Ana"), entry(2, "rice", "and soup", session="t", name="Bob")
    )
    best = found(partition, replace(TEA, text="Does Ana like tea?"))[0]
    assert (best.number, best.part) == (1, Part(USER, 0, 10))
    assert best.signals == {"keyword": 1.0, "nearby": 1.0, "session": 1.0, "speaker": 1.0}
    assert best.score == pytest.approx(0.12 + 1.0 + 0.4 + 0.7)
    assert best.relevance == pytest.approx(1 / (1 + np.exp(-2 * (best.score - 1))))
    assert 0 < best.coverage <= 1
    assert best.similarity is None


def test_every_passage_is_found_best_first_and_the_newest_of_equals_first() -> None:
    partition = partition_of(*(entry(n, "soup", "tea" if n % 3 == 0 else "rice", session=str(n)) for n in range(100)))
    hits = found(partition, TEA)
    assert sorted(said(hits)) == sorted((n, side) for n in range(100) for side in (USER, AGENT))
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)
    assert said(hits[:34]) == [(n, AGENT) for n in range(99, -1, -3)]


def test_what_is_left_out_is_found_in_no_passage() -> None:
    partition = partition_of(entry(1, "tea", session="s"), entry(2, "tea", session="t"))
    assert said(found(partition, replace(TEA, without_session="t"))) == [(1, USER)]
    assert found(partition, replace(TEA, at=days_ago(1))) == []
    assert found(Partition(0), TEA) == []


def test_a_batch_has_more_than_the_characters_asked_for() -> None:
    partition = partition_of(*(entry(n, "tea " * 25, session=str(n)) for n in range(500)))
    first = next(passages(partition, None, replace(TEA, chars=10_000), None, NOON, are_facts=False))
    assert 10_000 <= sum(hit.part.end - hit.part.start for hit in first) < 50_000


def test_a_half_life_puts_the_old_behind_and_leaves_the_relevance_as_it_is() -> None:
    partition = partition_of(
        entry(1, "tea", session="s", time=days_ago(0)), entry(2, "tea", session="t", time=days_ago(90))
    )
    assert said(found(partition, TEA)) == [(2, USER), (1, USER)]
    hits = found(partition, replace(TEA, half_life_days=30.0))
    assert said(hits) == [(1, USER), (2, USER)]
    assert hits[0].relevance == hits[1].relevance


@pytest.mark.parametrize("half_life", [1e-300, 1e300])
def test_any_half_life_will_do(half_life: float) -> None:
    partition = partition_of(
        entry(1, "tea"), entry(2, "tea", time=datetime(1, 1, 1, tzinfo=NOON.tzinfo)), entry(3, "tea", time=days_ago(-9))
    )
    assert len(found(partition, replace(TEA, half_life_days=half_life))) == 3


def test_a_date_that_the_question_names_is_counted_back_from_the_moment_asked_about() -> None:
    partition = partition_of(
        entry(1, "tea", session="s", time=days_ago(11)), entry(2, "tea", session="t", time=days_ago(1))
    )
    search = replace(TEA, text="tea yesterday")
    assert said(found(partition, search))[0] == (2, USER)
    assert "date" in found(partition, search)[0].signals
    (then,) = found(partition, replace(search, at=days_ago(10)))
    assert then.signals["date"] == 1.0


def test_a_fact_is_looked_for_with_the_names_of_the_question_too() -> None:
    partition = partition_of(entry(1, "Ana likes rice", name="Ana"), entry(2, "Bob likes tea", name="Bob"))
    search = replace(TEA, words=("tea",), text="What tea does Ana like?")
    assert {hit.number: hit.signals.get("keyword", 0) > 0 for hit in found(partition, search, are_facts=True)} == {
        1: True,
        2: True,
    }
    assert {hit.number: hit.signals.get("keyword", 0) > 0 for hit in found(partition, search)} == {1: False, 2: True}


def test_a_vector_alone_finds_passages_of_a_long_item() -> None:
    partition = partition_of(*(entry(n, "soup", "rice", session=str(n)) for n in range(1, 30)))
    rng = np.random.default_rng(1)
    vectors = {n: rng.standard_normal((2, 64)).astype(np.float32) for n in range(1, 30)}
    search = asking(vectors[7][1])
    best = found(partition, search, vectors_of(partition, vectors, 64))[0]
    assert (best.number, best.part.side) == (7, AGENT)
    assert best.similarity == pytest.approx(1.0, abs=0.01)
    assert {"vector", "context"} == best.signals.keys()


def test_an_item_has_been_there_since_its_very_moment() -> None:
    partition = partition_of(entry(1, "tea", time=NOON))
    assert len(found(partition, replace(TEA, at=NOON))) == 1
    assert found(partition, replace(TEA, at=NOON - timedelta(microseconds=1))) == []
    assert partition.times.tolist() == [micros(NOON)]
