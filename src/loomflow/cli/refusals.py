"""The texts that an embedder fails for, counted instead of told one by one."""

from __future__ import annotations

import logging
from typing import Self

from loomflow.embedding import FAILED

from .display import tell
from .failures import explained

TOLD = 5
"""So many different reasons are told."""


class LogFilter(logging.Filter):
    """A filter on what the library logs, while it is open."""

    def __enter__(self) -> Self:
        logging.getLogger("loomflow").addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("loomflow").removeFilter(self)


class Refusals(LogFilter):
    """While it is open, what the library logs about such texts is kept back; a reason that is new is told.

    Attributes:
        count: of the texts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is told as it is."""
        if record.msg != FAILED or not isinstance(record.args, tuple):
            return True
        self.count += 1
        reason = reason_of(record.args[-1])
        if reason not in self._told and len(self._told) < TOLD:
            self._told.add(reason)
            tell(f"warning: the embedder failed for a text, which is found by keyword only: {reason}")
        return False


def reason_of(error: object) -> str:
    """Why an embedder failed, in one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return explained(error) if isinstance(error, BaseException) else str(error)
