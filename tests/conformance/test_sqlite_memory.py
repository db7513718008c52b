"""The SQLite store in process memory keeps every promise but those about what outlives it."""

from __future__ import annotations

from pathlib import Path

from loomflow.ports import Store
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import Capability, StoreConformance


class TestSQLiteMemory(StoreConformance):
    capabilities = frozenset(Capability) - {Capability.PERSISTENT}

    async def make_store(self, place: Path) -> Store:
        return SQLiteStore(None)
