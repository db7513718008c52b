"""The SQLite store: a memory in one file, or in process memory."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from loomflow.ports import Clock

from .base import system_clock
from .connections import Connections, Guard
from .relational import RelationalStore
from .sqlite_connections import SQLiteThreads


class SQLiteStore(RelationalStore):
    """A memory in an SQLite file, or in process memory.

    Args:
        path: the file; created if missing, its folder is not. None keeps everything in memory.
        clock: source of the present moment.
        guard: encrypts it, see `loomflow.stores.sealing.Sealing`.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, clock: Clock = system_clock, *, guard: Guard | None = None
    ) -> None:
        self.path = None if path is None else Path(path).expanduser()
        super().__init__(Connections(partial(SQLiteThreads, self.path), self.url, guard), clock)

    @property
    def url(self) -> str:
        return "inmemory" if self.path is None else f"sqlite:{self.path}"
