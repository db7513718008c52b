"""What is heavy is made once, whoever asks; a failure is told to all and stands for a while."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from loomflow import EmbedderError
from loomflow.embedders import loading
from loomflow.embedders.loading import Loading


class Slow:
    """Takes a moment to be made; counts how often, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.made = 0
        self.failures = failures
        self.allowed = threading.Event()

    def __call__(self) -> str:
        self.made += 1
        self.allowed.wait(20)
        if self.made <= self.failures:
            raise OSError("no route to the hub")
        return "made"


async def test_it_is_made_once_for_all_that_wait() -> None:
    slow = Slow()
    loaded = Loading(slow, "the model")
    waiting = [asyncio.create_task(loaded.get()) for _ in range(20)]
    await asyncio.sleep(0.01)
    slow.allowed.set()
    assert set(await asyncio.gather(*waiting)) == {"made"}
    assert await loaded.get() == "made"
    assert slow.made == 1


async def test_who_gives_up_waiting_stops_it_for_nobody() -> None:
    slow = Slow()
    loaded = Loading(slow, "the model")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await loaded.get()
    slow.allowed.set()
    assert await loaded.get() == "made"
    assert slow.made == 1


def test_it_serves_several_event_loops() -> None:
    slow = Slow()
    loaded = Loading(slow, "the model")

    async def ask() -> str:
        return await loaded.get()

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(asyncio.run, ask()) for _ in range(4)]
        time.sleep(0.05)
        slow.allowed.set()
        assert [one.result() for one in asked] == ["made"] * 4
    assert slow.made == 1


async def test_a_failure_stands_for_a_while_and_is_then_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(failures=1)
    slow.allowed.set()
    loaded = Loading(slow, "the model")
    for _ in range(3):
        with pytest.raises(EmbedderError, match="the model cannot be loaded: no route to the hub"):
            await loaded.get()
    assert slow.made == 1
    monkeypatch.setattr(loading, "RETRY_SECONDS", 0)
    assert await loaded.get() == "made"
