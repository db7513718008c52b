"""Connections are closed by the event loop that opened them: at its end, on request, or when nobody needs them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, Self

import pytest

from loomflow.embedders import loops
from loomflow.embedders.loops import OnePerLoop


class Connection:
    """Notes in which event loop it was opened and closed. Both take some turns of the loop."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.closed = asyncio.Event()
        self.opened_in: Any = None
        self.closed_in: Any = None

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0.01)
        if self.fails:
            raise OSError("cannot be opened")
        self.opened_in = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.01)
        self.closed_in = asyncio.get_running_loop()
        self.closed.set()


class Building:
    """Builds connections, and keeps them for the test to look at."""

    def __init__(self, *, failures: int = 0) -> None:
        self.made: list[Connection] = []
        self.failures = failures

    def __call__(self) -> tuple[Connection, Connection]:
        connection = Connection(fails=len(self.made) < self.failures)
        self.made.append(connection)
        return connection, connection

    def all_closed_where_opened(self) -> bool:
        return all(one.opened_in is not None and one.opened_in is one.closed_in for one in self.made)


def test_each_event_loop_has_its_own_which_ends_with_it() -> None:
    building = Building()
    one = OnePerLoop(building)
    for _ in range(3):
        asyncio.run(one.get())
    assert len(building.made) == 3
    assert building.all_closed_where_opened()
    assert not loops._open


async def test_all_tasks_of_a_loop_have_the_same() -> None:
    building = Building()
    one = OnePerLoop(building)
    assert len(set(await asyncio.gather(*(one.get() for _ in range(9))))) == 1
    await one.aclose()


async def test_a_caller_that_gives_up_stops_nobody() -> None:
    building = Building()
    one = OnePerLoop(building)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await one.get()
    assert await one.get() is building.made[0]
    await one.aclose()


async def test_closed_on_request_and_built_anew_on_use() -> None:
    building = Building()
    one = OnePerLoop(building)
    await one.aclose()
    for count in (1, 2):
        await one.get()
        await one.aclose()
        await one.aclose()
        assert len(building.made) == count
        assert building.all_closed_where_opened()


async def test_closed_when_nobody_holds_it() -> None:
    building = Building()
    one = OnePerLoop(building)
    await one.get()
    del one
    gc.collect()
    async with asyncio.timeout(5):
        await building.made[0].closed.wait()
    assert building.all_closed_where_opened()


def test_closed_at_the_end_of_the_loop_when_dropped_with_it() -> None:
    building = Building()

    async def use() -> None:
        await OnePerLoop(building).get()

    asyncio.run(use())
    gc.collect()
    assert building.all_closed_where_opened()
    assert not loops._open


async def test_what_could_not_be_opened_is_tried_again() -> None:
    building = Building(failures=1)
    one = OnePerLoop(building)
    with pytest.raises(OSError, match="cannot be opened"):
        await one.get()
    assert await one.get() is building.made[1]
    await one.aclose()
