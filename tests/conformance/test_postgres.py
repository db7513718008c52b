"""The PostgreSQL store keeps every promise of a store, as a role that row-level security holds too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loomflow.ports import Store
from loomflow.stores.postgres import PostgresStore
from loomflow.testing import StoreConformance
from tests.postgres_server import as_role, emptied, fresh_database


@pytest.fixture(scope="module", autouse=True)
def shared_url(postgres_server_url: str) -> Iterator[str]:
    """A database of an ordinary role, for all tests here."""
    with fresh_database(postgres_server_url) as url, as_role(url) as own:
        TestPostgres.url = own
        yield own


class TestPostgres(StoreConformance):
    url = ""

    async def make_store(self, place: Path) -> Store:
        return PostgresStore(self.url)

    async def drop(self, place: Path) -> None:
        emptied(self.url)
