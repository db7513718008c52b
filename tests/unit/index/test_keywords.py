"""Keyword scores against a plain reading of BM25, and what they must not depend on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow.index.keywords import K1, B, bm25, idf, score_items, score_passages
from loomflow.index.partition import AFTER, AFTER_WEIGHT, BEFORE, BEFORE_WEIGHT, Partition
from loomflow.index.segments import Entry, build, digest

from .made import Told, entry, entry_lists, partition_of, splits, told, turns, written

QUESTION_WORDS = ("tea", "rice", "lisbon", "the", "我住", "cafe", "42", "never")


def plain_idf(having: int, total: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def plain_scores(documents: Sequence[tuple[float, dict[int, float]]], words: Sequence[str]) -> list[float]:
    """BM25 of documents, each a length and its counts."""
    mean = sum(length for length, _ in documents) / max(len(documents), 1)
    scores = [0.0] * len(documents)
    for key in map(digest, words):
        having = sum(1 for _, counts in documents if counts.get(key))
        for place, (length, counts) in enumerate(documents):
            count = counts.get(key, 0)
            norm = K1 * (1 - B + B * length / max(mean, 1e-9))
            scores[place] += plain_idf(having, len(documents)) * count * (K1 + 1) / (count + norm) if count else 0.0
    return scores


def grouped(passages: Sequence[Told], keys: Sequence[Hashable]) -> dict[Hashable, tuple[float, dict[int, float]]]:
    """Passages put together to documents."""
    lengths: defaultdict[Hashable, float] = defaultdict(float)
    counts: defaultdict[Hashable, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for passage, key in zip(passages, keys, strict=True):
        lengths[key] += passage.length
        for term, count in passage.counts.items():
            counts[key][term] += count
    return {key: (lengths[key], dict(counts[key])) for key in lengths}


def neighbourhood(passages: Sequence[Told], place: int) -> tuple[float, dict[int, float]]:
    """A turn with its neighbours, each with its weight."""
    line = [there for there, passage in enumerate(passages) if passage.session == passages[place].session]
    at = line.index(place)
    weights = {place: 1.0}
    weights |= {there: BEFORE_WEIGHT**k for k, there in enumerate(line[:at][::-1][:BEFORE], 1)}
    weights |= {there: AFTER_WEIGHT**k for k, there in enumerate(line[at + 1 :][:AFTER], 1)}
    counts: defaultdict[int, float] = defaultdict(float)
    for there, weight in weights.items():
        for term, count in passages[there].counts.items():
            counts[term] += weight * count
    return sum(weight * passages[there].length for there, weight in weights.items()), dict(counts)


words_asked = st.lists(st.sampled_from(QUESTION_WORDS), unique=True, max_size=5)


@given(entries=entry_lists(least=1), words=words_asked)
def test_a_passage_scores_what_bm25_says(entries: list[Entry], words: list[str]) -> None:
    passages = told(entries)
    found = score_passages(partition_of(*entries), words, None)
    expected = plain_scores([(passage.length, dict(passage.counts)) for passage in passages], words)
    assert found.passage == pytest.approx(expected, rel=1e-4, abs=1e-5)


@given(entries=entry_lists(least=1), words=words_asked)
def test_an_item_scores_as_one_document(entries: list[Entry], words: list[str]) -> None:
    passages = told(entries)
    documents = grouped(passages, [passage.number for passage in passages])
    expected = plain_scores([documents[one.number] for one in entries], words)
    assert score_items(partition_of(*entries), words, None) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@given(entries=entry_lists(least=1), words=words_asked)
def test_a_neighbourhood_scores_as_one_text_in_which_the_far_counts_less(
    entries: list[Entry], words: list[str]
) -> None:
    passages = told(entries)
    spoken, _ = turns(passages)
    documents = [neighbourhood(spoken, place) for place in range(len(spoken))]
    mean = sum(length for length, _ in documents) / len(documents)
    expected = [0.0] * len(spoken)
    for key in map(digest, words):
        telling = plain_idf(sum(1 for passage in passages if key in passage.counts), len(passages))
        for place, (length, counts) in enumerate(documents):
            count, norm = counts.get(key, 0.0), K1 * (1 - B + B * length / max(mean, 1e-9))
            expected[place] += telling * count * (K1 + 1) / (count + norm) if count else 0.0
    found = score_passages(partition_of(*entries), words, None)
    assert found.near == pytest.approx(expected, rel=1e-4, abs=1e-5)


@given(entries=entry_lists(least=1), words=words_asked)
def test_a_session_scores_as_one_document(entries: list[Entry], words: list[str]) -> None:
    passages = told(entries)
    partition = partition_of(*entries)
    documents = grouped(passages, [passage.session for passage in passages])
    lengths = [length for length, _ in documents.values() if length]
    mean = sum(lengths) / max(len(lengths), 1)
    expected: dict[Hashable, float] = dict.fromkeys(documents, 0.0)
    for key in map(digest, words):
        telling = plain_idf(sum(1 for _, counts in documents.values() if key in counts), len(documents))
        for session, (length, counts) in documents.items():
            count, norm = counts.get(key, 0.0), K1 * (1 - B + B * length / max(mean, 1e-9))
            expected[session] += telling * count * (K1 + 1) / (count + norm) if count else 0.0
    found = score_passages(partition, words, None).session[partition.of_passages("session")]
    assert found == pytest.approx([expected[passage.session] for passage in passages], rel=1e-4, abs=1e-5)


@given(entries=entry_lists(least=1), words=words_asked)
def test_no_score_is_more_than_the_most_there_could_be(entries: list[Entry], words: list[str]) -> None:
    found = score_passages(partition_of(*entries), words, None)
    assert 0 <= found.passage.min() <= found.passage.max() <= found.passage_most + 1e-4
    assert 0 <= found.near.min() <= found.near.max() <= found.passage_most + 1e-4
    assert 0 <= found.session.min() <= found.session.max() <= found.session_most + 1e-4
    assert found.passage_most == pytest.approx(
        sum(
            plain_idf(sum(1 for p in told(entries) if digest(w) in p.counts), len(told(entries))) * (K1 + 1)
            for w in words
        )
    )


@given(data=st.data(), entries=entry_lists(least=1), words=words_asked)
def test_scores_do_not_depend_on_how_the_items_were_written(
    data: st.DataObject, entries: list[Entry], words: list[str]
) -> None:
    whole, pieced = partition_of(*entries), written([build(piece) for piece in data.draw(splits(entries))])
    one, other = (score_passages(partition, words, None) for partition in (whole, pieced))
    assert one.passage.tolist() == other.passage.tolist()
    assert one.near.tolist() == other.near.tolist()
    assert one.session[whole.of_passages("session")] == pytest.approx(
        other.session[pieced.of_passages("session")], rel=1e-5
    )
    assert (one.passage_most, one.session_most) == (other.passage_most, other.session_most)
    assert score_items(whole, words, None).tolist() == score_items(pieced, words, None).tolist()


@given(entries=entry_lists(least=1), words=words_asked, data=st.data())
def test_what_is_not_visible_changes_no_score_of_a_passage_or_an_item(
    entries: list[Entry], words: list[str], data: st.DataObject
) -> None:
    shown = data.draw(st.integers(1, len(entries)))
    partition, seen = partition_of(*entries), partition_of(*entries[:shown])
    visible = np.arange(partition.size) < seen.size
    found, expected = score_passages(partition, words, visible), score_passages(seen, words, None)
    assert found.passage[: seen.size] == pytest.approx(expected.passage, rel=1e-5, abs=1e-6)
    assert not found.passage[seen.size :].any()
    items = score_items(partition, words, visible)
    assert items[:shown] == pytest.approx(score_items(seen, words, None), rel=1e-5, abs=1e-6)
    assert not items[shown:].any()
    assert found.passage_most == pytest.approx(expected.passage_most, rel=1e-5)


@given(entries=entry_lists(least=1), words=words_asked, data=st.data())
def test_what_is_not_visible_changes_no_score_of_a_neighbourhood_or_a_session(
    entries: list[Entry], words: list[str], data: st.DataObject
) -> None:
    shown = data.draw(st.integers(1, len(entries)))
    partition, seen = partition_of(*entries), partition_of(*entries[:shown])
    visible = np.arange(partition.size) < seen.size
    found, expected = score_passages(partition, words, visible), score_passages(seen, words, None)
    assert found.near[: len(seen.openings)] == pytest.approx(expected.near, rel=1e-5, abs=1e-6)
    assert found.session[partition.of_passages("session")][: seen.size] == pytest.approx(
        expected.session[seen.of_passages("session")], rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("visible", [None, np.zeros(2, np.bool_)])
def test_nothing_asked_or_nothing_visible_scores_nothing(visible: np.ndarray | None) -> None:
    partition = partition_of(entry(1, "tea"), entry(2, "rice"))
    words = [] if visible is None else ["tea"]
    found = score_passages(partition, words, visible)
    assert not found.passage.any()
    assert not found.near.any()
    assert not found.session.any()
    assert score_items(partition, words, visible).tolist() == [0, 0]


def test_an_empty_partition_has_no_scores() -> None:
    found = score_passages(Partition(0), ["tea"], None)
    assert (len(found.passage), len(found.near), len(found.session)) == (0, 0, 0)
    assert len(score_items(Partition(0), ["tea"], None)) == 0


@pytest.mark.parametrize("total", [0, 1, 2, 1000])
def test_a_rare_word_tells_more_and_none_tells_less_than_nothing(total: int) -> None:
    telling = [idf(having, total) for having in range(total + 1)]
    assert telling == sorted(telling, reverse=True)
    assert telling[-1] > 0


def test_a_count_is_saturated_and_a_long_text_counts_less() -> None:
    counts = np.array([0, 1, 2, 255], np.float32)
    same = bm25(counts, np.full(4, 10, np.float32), 10.0)
    assert same[0] == 0
    assert (np.diff(same) > 0).all()
    assert same[1] == pytest.approx(1.0)
    assert same[-1] < K1 + 1
    long = bm25(counts, np.full(4, 50, np.float32), 10.0)
    assert (long[1:] < same[1:]).all()
    assert np.isfinite(bm25(counts, np.zeros(4, np.float32), 0.0)).all()
