"""Moments as integers: microseconds since 1970, exact for every datetime and ordered like it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@overload
def to_micros(moment: datetime) -> int: ...


@overload
def to_micros(moment: None) -> None: ...


@overload
def to_micros(moment: datetime | None) -> int | None: ...


def to_micros(moment: datetime | None) -> int | None:
    """Microseconds since 1970 of an aware datetime."""
    return None if moment is None else (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of so many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
