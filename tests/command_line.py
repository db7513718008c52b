"""Running the command line within a test, and reading and filling the memory that it works on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from typer.testing import CliRunner, Result

from loomflow import Episode, Fact, Memory
from loomflow.cli.app import app

Value = TypeVar("Value")


def run(*args: str, input: str | None = None, status: int = 0) -> Result:
    """Run a command that is to end with `status`; whatever else it raises is raised here."""
    result = CliRunner().invoke(app, args, input=input, prog_name="loomflow", catch_exceptions=False)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


def wait_for(condition: Callable[[], object], patience: float = 60.0) -> None:
    """Wait until something that a process does has happened, for so many seconds at most."""
    give_up = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.01)


def in_memory(url: str, work: Callable[[Memory], Awaitable[Value]]) -> Value:
    """Open a memory, do something with it, close it."""

    async def opened() -> Value:
        async with Memory.open(url) as memory:
            return await work(memory)

    return asyncio.run(opened())


def fill(url: str, user: str | None = "alice", episodes: int = 1) -> None:
    """Write a block, a fact and some episodes of one session."""

    async def work(memory: Memory) -> None:
        await memory.update_block("profile", "Vegetarian.", user_id=user)
        await memory.facts.append(Fact("Alice", "lives_in", "Lisbon", user_id=user))
        told = [
            Episode(f"I ran {number} km along the river.", "Well done.", user_id=user, session_id="s-1")
            for number in range(episodes)
        ]
        await memory.remember(told)

    in_memory(url, work)
