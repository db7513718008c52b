"""Dates as models write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow.checks import LATEST
from loomflow.distill.dates import moment_from, moment_until

TOLD = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)


def utc(year: int, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", utc(2024)),
        ("2024-06", utc(2024, 6)),
        ("2024-6", utc(2024, 6)),
        ("2024-06-15", utc(2024, 6, 15)),
        (" 2024-02-29 ", utc(2024, 2, 29)),
        ("2024-06-15T08:30", utc(2024, 6, 15, 8, 30)),
        ("2024-06-15 08:30:00", utc(2024, 6, 15, 8, 30)),
        ("2024-06-15T08:30:00Z", utc(2024, 6, 15, 8, 30)),
        ("2024-06-15T08:30:00+02:00", utc(2024, 6, 15, 6, 30)),
        ("0001-01-01", utc(1)),
        ("0001-01-01T00:00:00+14:00", utc(1)),
    ],
)
def test_a_start_is_the_beginning_of_the_period(text: str, moment: datetime) -> None:
    found = moment_from(text)
    assert found == moment
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", utc(2025)),
        ("2024-06", utc(2024, 7)),
        ("2024-12", utc(2025)),
        ("2024-06-15", utc(2024, 6, 15)),
        ("2024-06-15T08:30:00+02:00", utc(2024, 6, 15, 6, 30)),
        ("2026", TOLD),  # it had begun when it was told
        ("2026-05", TOLD),
        ("2026-04", utc(2026, 5)),
        ("2026-06", utc(2026, 7)),  # still to come
        ("2027", utc(2028)),
        ("2026-05-20", utc(2026, 5, 20)),
        ("2026-05-30", utc(2026, 5, 30)),
        ("9999", LATEST),
        ("9999-12", LATEST),
    ],
)
def test_an_end_is_exclusive_and_does_not_go_past_the_telling_of_a_period_that_had_begun(
    text: str, moment: datetime
) -> None:
    assert moment_until(text, TOLD) == moment


def test_the_moment_of_telling_may_have_another_zone_or_none() -> None:
    assert moment_until("2026", TOLD.astimezone(timezone(timedelta(hours=9)))) == TOLD
    assert moment_until("2026", TOLD.replace(tzinfo=None)) == TOLD


@pytest.mark.parametrize(
    "text",
    """
    |last year|unknown|2024-13|2024-02-30|2024-00|0000|20|24-06|2024/06|June 2024|2024-06-15T25:00|２０２４
    |2024-06-15-01|-2024|10000|2024-06-15T08:30:00+99:00|20240-06
    """.split("|"),
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert moment_from(text) is None
    assert moment_until(text, TOLD) is None


@given(text=st.text(max_size=30) | st.from_regex(r"\d{1,5}(-\d{1,3}){0,3}(T[\d:]*)?", fullmatch=True))
def test_no_text_raises_and_a_period_does_not_end_before_it_begins(text: str) -> None:
    start, end = moment_from(text), moment_until(text, TOLD)
    assert (start is None) == (end is None)
    if start is not None and end is not None:
        assert start <= end
