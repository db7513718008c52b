"""Moments as integers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow.moments import EPOCH, from_micros, to_micros

ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "micros"),
    [
        (EPOCH, 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -1),
        (datetime(1970, 1, 2, 1, tzinfo=timezone(timedelta(hours=1))), 86_400_000_000),
        (datetime(2026, 11, 3, 12, 0, 0, 123456, tzinfo=UTC), 1_793_707_200_123_456),
    ],
)
def test_microseconds_since_1970(moment: datetime, micros: int) -> None:
    assert to_micros(moment) == micros
    assert from_micros(micros) == moment
    assert from_micros(micros).tzinfo is UTC


def test_no_moment_is_none() -> None:
    assert to_micros(None) is None


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_every_moment_comes_back_exactly(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@pytest.mark.parametrize("moment", [FIRST, LAST])
def test_the_first_and_the_last_moment_come_back(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment
    assert abs(to_micros(moment)) < 2**63


@given(one=st.datetimes(timezones=ZONES), other=st.datetimes(timezones=ZONES))
def test_microseconds_are_ordered_like_moments(one: datetime, other: datetime) -> None:
    assert (to_micros(one) < to_micros(other)) == (one < other)
    assert (to_micros(one) == to_micros(other)) == (one == other)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError):
        to_micros(datetime(2026, 1, 1))
