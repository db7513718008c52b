"""Settings and fixtures of the whole test suite; Hypothesis is repeatable where CI is set."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings

from loomflow import Memory
from loomflow.stores.sqlite import SQLiteStore
from tests.openai_server import OpenAIServer
from tests.postgres_server import PostgresServer, fresh_database

settings.register_profile(
    "loomflow",
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("ci", settings.get_profile("loomflow"), derandomize=True, max_examples=200)
settings.load_profile("ci" if os.environ.get("CI") else "loomflow")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as listening:
        yield listening


@pytest.fixture
def now() -> datetime:
    """The moment at which `still_memory` stands."""
    return datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


@pytest.fixture
async def still_memory(now: datetime) -> AsyncIterator[Memory]:
    """An empty memory whose clock stands still, and which searches by keyword only."""
    async with Memory(SQLiteStore(None, clock=lambda: now), embedder=None) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A PostgreSQL server with pgvector: LOOMFLOW_TEST_POSTGRES, or one that lives as long as the tests."""
    if given := os.environ.get("LOOMFLOW_TEST_POSTGRES"):
        yield given
        return
    with PostgresServer() as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """A new and empty PostgreSQL database."""
    with fresh_database(postgres_server_url) as url:
        yield url
