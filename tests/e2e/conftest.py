"""Fixtures of the end-to-end tests: a local model server, a memory in a file, and the ways to ask over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loomflow import Agent, Memory, RunResult, Tuning
from loomflow.stores.sqlite import SQLiteStore
from tests.openai_server import OpenAIServer

MODELS = {"chat": "openai-chat:gpt-4.1-mini", "responses": "openai:gpt-4.1-mini"}
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

Said = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Wire:
    """One of the ways in which a run reaches the server: endpoint, and streamed or not."""

    server: OpenAIServer
    endpoint: str
    streamed: bool

    def agent(self, instructions: str = "Be brief.", **settings: Any) -> Agent:
        """An agent whose model is the server; it learns nothing after runs, unless that is asked for."""
        settings["tuning"] = settings.get("tuning") or Tuning(distill=False)
        return Agent(instructions, model=MODELS[self.endpoint], base_url=self.server.base_url, **settings)

    async def ask(self, agent: Agent, prompt: Any, **where: Any) -> RunResult:
        """Run a prompt; streamed, the last pieces must make up the answer."""
        if not self.streamed:
            return await agent.run(prompt, **where)
        async with agent.stream(prompt, **where) as stream:
            pieces = [piece async for piece in stream]
        assert not isinstance(stream.result.output, str) or "".join(pieces).endswith(stream.result.output)
        return stream.result

    def head(self, *parts: str) -> list[Said]:
        """The leading system section: one message, or one `instructions` text."""
        return [("system", "\n\n".join(parts))]

    @property
    def sent(self) -> list[list[Said]]:
        """Every request so far, as (role, text)."""
        return [request.messages for request in self.server.requests]


@pytest.fixture(
    params=[("chat", False), ("chat", True), ("responses", False), ("responses", True)],
    ids=["chat", "chat-streamed", "responses", "responses-streamed"],
)
def wire(request: pytest.FixtureRequest, server: OpenAIServer) -> Wire:
    endpoint, streamed = request.param
    return Wire(server, endpoint, streamed)


@pytest.fixture
def chat(server: OpenAIServer) -> Wire:
    return Wire(server, "chat", streamed=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
async def memory(path: Path) -> AsyncIterator[Memory]:
    """A memory in a file, whose clock stands still: all times are equal."""
    async with Memory(SQLiteStore(path, clock=lambda: NOW)) as opened:
        yield opened
