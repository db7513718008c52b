"""Scoring for mode "fill": each signal on its own, and the sum of them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loomflow.index.keywords import score_passages
from loomflow.index.partition import Partition
from loomflow.index.questions import DateAsked, dates_in
from loomflow.index.scoring import (
    DAYS_AFTER,
    FACT_WEIGHTS,
    FEW,
    LEAST_SHARE,
    WEIGHTS,
    Signals,
    date_fit,
    relevance,
    score,
    standing_out,
)
from loomflow.index.segments import Entry

from .made import NOON, entry, entry_lists, micros, partition_of


def fit(told: datetime, *dates: DateAsked) -> float:
    """How well one moment fits."""
    (found,) = date_fit(np.array([micros(told)], np.int64), dates).tolist()
    return found


def on(year: int, month: int, day: int, hour: int = 12) -> datetime:
    return datetime(year, month, day, hour, tzinfo=UTC)


# Dates


@pytest.mark.parametrize(
    ("told", "asked", "fits"),
    [
        (on(2023, 5, 7), DateAsked(2023, 5, 7), 1.0),
        (on(2023, 5, 7, 0), DateAsked(2023, 5, 7), 1.0),
        (on(2023, 5, 7, 23), DateAsked(2023, 5, 7), 1.0),
        (on(2023, 5, 10), DateAsked(2023, 5, 7), 1.0),  # told some days later
        (on(2023, 5, 11), DateAsked(2023, 5, 7), 0.5),
        (on(2023, 5, 6), DateAsked(2023, 5, 7), 0.5),
        (on(2023, 6, 7), DateAsked(2023, 5, 7), 0.0),
        (on(2022, 5, 7), DateAsked(2023, 5, 7), 0.0),
        (on(2022, 5, 7), DateAsked(None, 5, 7), 1.0),
        (on(2022, 5, 20), DateAsked(None, 5, 7), 0.5),
        (on(2023, 5, 1), DateAsked(2023, 5), 1.0),
        (on(2023, 5, 31), DateAsked(2023, 5), 1.0),
        (on(2023, 6, 1, 0), DateAsked(2023, 5), 0.0),
        (on(1999, 5, 20), DateAsked(None, 5), 1.0),
        (on(2023, 1, 1), DateAsked(2023), 0.25),
        (on(2023, 12, 31), DateAsked(2023), 0.25),
        (on(2024, 1, 1), DateAsked(2023), 0.0),
        (on(1969, 12, 31, 23), DateAsked(1969, 12, 31), 1.0),
        (on(1, 1, 1, 0), DateAsked(1, 1, 1), 1.0),
        (on(9999, 12, 31, 23), DateAsked(9999, 12, 31), 1.0),
        (on(2024, 2, 29), DateAsked(2024, 2, 29), 1.0),
        (on(2024, 2, 29), DateAsked(2024, 2, 30), 0.5),
    ],
)
def test_how_well_a_moment_fits_a_date(told: datetime, asked: DateAsked, fits: float) -> None:
    assert fit(told, asked) == fits


@pytest.mark.parametrize("day", [on(2023, 5, 7), on(2023, 1, 31), on(2022, 12, 31), on(2024, 2, 28)])
def test_what_happened_on_a_day_may_be_told_in_the_next_month(day: datetime) -> None:
    told = [day + timedelta(days=later) for later in range(DAYS_AFTER + 1)]
    assert [fit(moment, DateAsked(day.year, day.month, day.day)) for moment in told] == [1.0] * len(told)


@given(told=st.datetimes(timezones=st.just(UTC)), first=st.dates(), days=st.integers(0, 400))
def test_a_span_fits_from_its_first_day_to_its_last(told: datetime, first: date, days: int) -> None:
    last = min(first.toordinal() + days, date.max.toordinal())
    inside = first <= told.date() <= date.fromordinal(last)
    assert fit(told, DateAsked(span=(first, date.fromordinal(last)))) == float(inside)


@pytest.mark.parametrize(
    ("question", "days_ago", "fits"),
    [
        ("today", 0, True), ("today", 1, False), ("yesterday", 1, True), ("yesterday", 0, False),
        ("last week", 7, True), ("last week", 0, False), ("last week", 14, False), ("3 days ago", 3, True),
        ("3 days ago", 2, False), ("a month ago", 30, True), ("a month ago", 50, False),
    ],
)  # fmt: skip
def test_a_relative_date_fits_when_it_was(question: str, days_ago: int, fits: bool) -> None:
    assert fit(NOON - timedelta(days=days_ago), *dates_in(question, NOON)) == float(fits)


@given(told=st.datetimes(timezones=st.just(UTC)), year=st.integers(1, 9999), month=st.integers(1, 12))
def test_a_month_fits_what_was_told_in_it(told: datetime, year: int, month: int) -> None:
    assert fit(told, DateAsked(year, month)) == float((told.year, told.month) == (year, month))
    assert fit(told, DateAsked(told.year, told.month)) == 1.0
    assert fit(told, DateAsked(told.year, told.month, told.day)) == 1.0
    assert fit(told, DateAsked(told.year)) == 0.25


def test_of_several_dates_the_best_counts() -> None:
    assert fit(on(2023, 5, 7), DateAsked(2022), DateAsked(2023, 5, 20), DateAsked(2023)) == 0.5
    assert fit(on(2023, 5, 7)) == 0.0
    assert len(date_fit(np.zeros(0, np.int64), [DateAsked(2023)])) == 0


# How far the best stands out


def deviations(best: float, count: int) -> NDArray[np.float32]:
    return np.array([best, *[0.0] * (count - 1)], np.float32)


@pytest.mark.parametrize("count", [20, 200, 20_000])
@pytest.mark.parametrize(("share", "trust"), [(0.0, 0), (0.69, 0), (0.8, 0.5), (0.9, 1), (3.0, 1)])
def test_vectors_count_as_far_as_the_best_stands_out_from_chance(count: int, share: float, trust: float) -> None:
    best = share * math.sqrt(2 * math.log(count))
    assert standing_out(deviations(best, count), count) == pytest.approx(trust, abs=1e-5)


@pytest.mark.parametrize("count", [2, 5, FEW - 1])
def test_of_few_vectors_little_is_known(count: int) -> None:
    assert standing_out(deviations(100, count), count) == pytest.approx(count / FEW)


@pytest.mark.parametrize("count", [0, 1])
def test_one_vector_stands_out_from_nothing(count: int) -> None:
    assert standing_out(deviations(100, 1)[:count], count) == 0.0


@given(best=st.floats(-100, 100), count=st.integers(0, 10**7))
def test_trust_is_a_share(best: float, count: int) -> None:
    assert 0 <= standing_out(np.array([best], np.float32), count) <= 1


# The relevance


@given(scores=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=20))
def test_relevance_is_a_share_in_the_order_of_the_scores(scores: list[float]) -> None:
    found = relevance(np.array(sorted(scores), np.float32))
    assert (np.diff(found) >= 0).all()
    assert found[0] >= 0
    assert found[-1] <= 1
    assert relevance(np.array([1.0], np.float32))[0] == 0.5


# The signals


def scored(partition: Partition, *words: str, weights: Any = WEIGHTS, **fields: Any) -> Signals:
    return score(partition, weights, words=words, **fields)


def talk() -> Partition:
    return partition_of(
        entry(1, "I like tea", "Which tea?", session="s", name="Ana", time=on(2023, 5, 7)),
        entry(2, "I went there yesterday", session="s", name="Bob", time=on(2023, 6, 7)),
        entry(3, "rice", session="t", name="Ana", time=on(2024, 5, 7)),
    )


def test_who_said_it_counts_if_the_question_names_one() -> None:
    assert scored(talk(), "tea", speakers=[0]).values["speaker"].tolist() == [1, 1, 0, 1]
    assert scored(talk(), "tea", speakers=[1]).values["speaker"].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("speakers", [(), (0, 1)])
def test_who_said_it_does_not_count_if_the_question_names_nobody_or_several(speakers: tuple[int, ...]) -> None:
    assert "speaker" not in scored(talk(), "tea", speakers=speakers).values


def test_a_time_counts_if_the_question_asks_for_one() -> None:
    assert scored(talk(), "tea", asks_time=True).values["time"].tolist() == [0, 0, 1, 0]
    assert "time" not in scored(talk(), "tea").values


def test_a_passage_that_asks_itself_is_marked() -> None:
    assert scored(talk(), "tea").values["question"].tolist() == [0, 1, 0, 0]
    assert "question" not in scored(talk(), "tea", weights=FACT_WEIGHTS).values


def test_a_date_counts_for_every_passage_of_what_was_said_then() -> None:
    found = scored(talk(), "tea", dates=[DateAsked(2023, 5)])
    assert found.values["date"].tolist() == [1, 1, 0, 0]
    assert "date" not in scored(talk(), "tea").values


def test_a_fact_has_no_neighbours_and_no_session() -> None:
    found = scored(talk(), "tea", weights=FACT_WEIGHTS)
    assert found.values["fact"].tolist() == [1, 1, 1, 1]
    assert {"nearby", "session", "question"}.isdisjoint(found.values)
    assert "fact" not in scored(talk(), "tea").values


def test_a_neighbour_of_what_has_the_word_counts_too() -> None:
    values = scored(talk(), "tea").values
    assert (values["keyword"] > 0).tolist() == [True, True, False, False]
    assert (values["nearby"] > 0).tolist() == [True, True, True, False]
    assert (values["session"] > 0).tolist() == [True, True, True, False]


def test_the_best_keyword_score_counts_in_full_if_it_has_enough_of_the_question() -> None:
    partition = partition_of(*(entry(n, "rice" if n else "tea", session=str(n)) for n in range(20)))
    assert scored(partition, "tea").values["keyword"].max() == 1.0


def test_the_best_keyword_score_counts_less_if_it_has_little_of_the_question() -> None:
    partition = partition_of(*(entry(n, "rice" if n else "tea", session=str(n)) for n in range(20)))
    words = ["tea", *(f"w{n}" for n in range(30))]
    found = scored(partition, *words)
    keywords = score_passages(partition, words, None)
    assert found.values["keyword"].max() == pytest.approx(
        keywords.passage.max() / (LEAST_SHARE * keywords.passage_most), rel=1e-5
    )
    assert found.values["keyword"].max() < 0.5


@given(entries=entry_lists(least=1), words=st.lists(st.sampled_from(["tea", "rice", "cafe", "never"]), unique=True))
def test_every_signal_keeps_to_its_range_and_the_score_is_their_weighted_sum(
    entries: list[Entry], words: list[str]
) -> None:
    partition = partition_of(*entries)
    for weights in (WEIGHTS, FACT_WEIGHTS):
        found = scored(partition, *words, weights=weights, asks_time=True, dates=[DateAsked(2023)], speakers=[0])
        ranges = {name: (value.min(), value.max()) for name, value in found.values.items()}
        assert set(ranges.pop("piece", np.zeros(1, np.float32))) <= {0, 1, 2}
        assert all(0 <= least <= most <= 1 for least, most in ranges.values())
        expected = sum(weights.get(name, 0.0) * value for name, value in found.values.items())
        assert found.score == pytest.approx(expected, abs=1e-5)
        assert -1e-6 <= found.coverage.min() <= found.coverage.max() <= 1 + 1e-5
        assert not found.similarity.any()


def test_coverage_is_the_share_of_the_question_that_a_passage_has() -> None:
    partition = partition_of(*(entry(n, "tea rice" if n == 0 else "soup", session=str(n)) for n in range(4)))
    both, half = (scored(partition, *words, weights=FACT_WEIGHTS).coverage for words in (["tea"], ["tea", "never"]))
    assert both[0] > half[0] > 0
    assert both[1:].tolist() == [0, 0, 0]
    assert scored(partition, weights=FACT_WEIGHTS).coverage.tolist() == [0, 0, 0, 0]


# Vectors


def many(count: int, session: str = "") -> Partition:
    return partition_of(*(entry(n, "soup", session=session or str(n)) for n in range(count)))


def near(cosines: list[float], has: list[bool] | None = None) -> dict[str, Any]:
    values = np.array(cosines, np.float32)
    return {"cosines": values, "has_vector": np.array(has if has is not None else [True] * len(values))}


def test_a_cosine_counts_in_standard_deviations_from_the_mean() -> None:
    cosines = [0.9, *[0.1, 0.2] * 20]
    values = scored(many(41), **near(cosines)).values["vector"]
    expected = (np.array(cosines) - np.mean(cosines)) / np.std(cosines)
    assert values == pytest.approx(expected, rel=1e-3)


def test_vectors_of_which_none_stands_out_say_nothing() -> None:
    cosines = [0.1 if n % 2 else -0.1 for n in range(400)]
    found = scored(many(400), **near(cosines))
    assert not found.values["vector"].any()
    assert not found.values["context"].any()
    assert found.similarity.tolist() == np.array(cosines, np.float32).tolist()


@pytest.mark.parametrize("cosines", [[0.5], [0.5] * 30])
def test_equal_cosines_say_nothing(cosines: list[float]) -> None:
    assert not scored(many(len(cosines)), **near(cosines)).values["vector"].any()


def test_a_passage_without_a_vector_neither_gains_nor_loses() -> None:
    cosines, has = [0.9, *[0.1, 0.2] * 20, 0.0, 0.0], [True] * 41 + [False] * 2
    values = scored(many(43), **near(cosines, has)).values["vector"]
    assert values[41:].tolist() == [0, 0]
    assert values[:41] == pytest.approx(scored(many(41), **near(cosines[:41])).values["vector"], rel=1e-5)


def test_what_is_not_visible_changes_no_deviation() -> None:
    cosines = [0.9, *[0.1, 0.2] * 20]
    visible = np.array([True] * 41 + [False] * 5)
    found = scored(many(46), visible=visible, **near([*cosines, *[0.99] * 5]))
    assert found.values["vector"][:41] == pytest.approx(scored(many(41), **near(cosines)).values["vector"], rel=1e-5)
    assert not found.values["vector"][41:].any()


def test_without_vectors_there_are_no_signals_of_them() -> None:
    assert {"vector", "context"}.isdisjoint(scored(many(3), "soup").values)


def test_the_context_is_the_mean_of_two_before_and_one_after_in_the_session() -> None:
    cosines = np.array([0.9, *[0.1, 0.2, 0.15] * 13], np.float32)
    context = scored(many(40, session="s"), **near(cosines.tolist())).values["context"]
    means = np.array([cosines[max(n - 2, 0) : n + 2].mean() for n in range(40)])
    assert context == pytest.approx((means - means.mean()) / means.std(), rel=1e-2, abs=1e-3)


def test_a_neighbour_without_a_vector_is_no_context() -> None:
    cosines, has = [0.9, *[0.1, 0.2, 0.15] * 13], [True] * 40
    has[1] = False
    cosines[1] = 0.0
    context = scored(many(40, session="s"), **near(cosines, has)).values["context"]
    there = np.array(has)
    means = np.array(
        [np.mean([cosines[at] for at in range(max(n - 2, 0), min(n + 2, 40)) if has[at]]) for n in range(40)]
    )
    expected = (means - means[there].mean()) / means[there].std()
    assert context[there] == pytest.approx(expected[there], rel=1e-2, abs=1e-3)
