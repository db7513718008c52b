"""A clock for tests, which is moved by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is moved.

    >>> clock = ManualClock()
    >>> clock.advance(days=1)
    >>> clock().isoformat()
    '2026-03-02T12:00:00+00:00'
    """

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **duration: float) -> None:
        """Move by a duration, in the words of `timedelta`."""
        self.moment += timedelta(**duration)
