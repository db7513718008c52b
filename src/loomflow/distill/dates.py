"""Dates as models write them: "2024", "2024-06", "2024-06-01" or a full ISO date and time, as moments in UTC.

A start is the beginning of the period that was named. An end is exclusive: a day or a moment is taken as it is given,
a month or a year lasts to its end, and if it had begun by the moment of telling, only to that moment.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from loomflow.checks import LATEST, utc

_PERIOD = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d.*", re.ASCII)


def moment_from(text: str) -> datetime | None:
    """When a period begins.

    >>> moment_from("2024-06")
    datetime.datetime(2024, 6, 1, 0, 0, tzinfo=datetime.timezone.utc)

    Returns:
        The moment in UTC (a time without a zone is read as UTC), or None if this is no date.
    """
    named = _PERIOD.fullmatch(text.strip())
    if named is None:
        return _moment(text.strip())
    return _day(*(int(part or 1) for part in named.groups()))


def moment_until(text: str, told_at: datetime) -> datetime | None:
    """When a period is over (exclusive).

    Args:
        text: the period.
        told_at: when that was said: "until 2026", said in 2026, means until now at the latest.

    Returns:
        The moment in UTC, or None if this is no date.
    """
    start = moment_from(text)
    named = _PERIOD.fullmatch(text.strip())
    if start is None or named is None or named[3]:
        return start
    end = _next_month(start) if named[2] else _next_year(start)
    told = utc("told_at", told_at)
    return told if start <= told < end else end


def _moment(text: str) -> datetime | None:
    try:
        return utc("moment", datetime.fromisoformat(text)) if _MOMENT.fullmatch(text) else None
    except ValueError:
        return None


def _day(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime.combine(date(year, month, day), datetime.min.time(), UTC)
    except ValueError:
        return None


def _next_month(start: datetime) -> datetime:
    return _next_year(start.replace(month=1)) if start.month == 12 else start.replace(month=start.month + 1)


def _next_year(start: datetime) -> datetime:
    return LATEST if start.year == LATEST.year else start.replace(year=start.year + 1)
