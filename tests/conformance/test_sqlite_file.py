"""The SQLite store in a file keeps every promise of a store."""

from __future__ import annotations

from pathlib import Path

from loomflow.ports import Store
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import StoreConformance


class TestSQLiteFile(StoreConformance):
    async def make_store(self, place: Path) -> Store:
        return SQLiteStore(place / "memory.db")
